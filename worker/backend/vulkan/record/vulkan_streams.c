/*
 * One push struct serves all ops over streams, and moe_shared, which adds to a single one: an op
 * fills in what its kernel reads.
 */
#include "worker/backend/vulkan/record/vulkan_streams.h"

#include "proto/must.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"

/* Widths as the op's tensors have them; returns the kernel's own constant. */
static uint32_t fill(const struct vulkan_program *program, const struct plan_op *op,
                     enum vulkan_row_kernel *kernel, struct vulkan_stream_push *push)
{
    uint32_t x = program->tensors[op->inputs[0]].columns;
    uint32_t out = program->tensors[op->output].columns;
    switch (op->stem) {
    case OP_stream_take:
        *kernel = VULKAN_ROW_STREAM_TAKE;
        push->columns = out;
        push->x_stream = op->params.stream_take.stream;
        return 0;
    case OP_stream_mix:
        *kernel = VULKAN_ROW_STREAM_MIX;
        push->columns = out / op->params.stream_mix.streams;
        return op->params.stream_mix.streams;
    case OP_stream_correct:
        *kernel = VULKAN_ROW_STREAM_CORRECT;
        push->columns = x;
        return op->params.stream_correct.streams;
    case OP_stream_add:
        *kernel = VULKAN_ROW_STREAM_ADD;
        push->columns = x;
        push->out_stream = op->params.stream_add.first;
        return 0;
    case OP_moe_shared:
        *kernel = VULKAN_ROW_MOE_SHARED;
        push->columns = out;
        return 0;
    case OP_stream_match:
        *kernel = VULKAN_ROW_STREAM_MATCH;
        push->columns = program->tensors[op->inputs[1]].columns;
        push->x_stream = op->params.stream_match.stream;
        push->out_stream = op->params.stream_match.out_stream;
        return op->params.stream_match.add;
    default:
        must(op->stem == OP_stream_cut);
        *kernel = VULKAN_ROW_STREAM_CUT;
        push->columns = out / op->params.stream_cut.streams;
        push->value = op->params.stream_cut.deviations;
        return 0;
    }
}

void vulkan_streams_record(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    bool two = op->inputs[1] != PLAN_NONE;
    enum vulkan_row_kernel kernel;
    struct vulkan_stream_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .y = two ? program->tensors[op->inputs[1]].f32 : 0,
        .out = program->tensors[op->output].f32,
    };
    uint32_t own = fill(program, op, &kernel, &push);
    push.x_streams = program->tensors[op->inputs[0]].columns / push.columns;
    push.out_streams = program->tensors[op->output].columns / push.columns;
    const struct vulkan_row_task task = {kernel, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, VULKAN_FORM_F32, own};
    const struct vulkan_touch touch = {
        .reads = {op->inputs[0], two ? op->inputs[1] : PLAN_NONE, PLAN_NONE},
        .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}
