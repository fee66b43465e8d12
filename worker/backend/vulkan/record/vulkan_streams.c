/*
 * One push struct serves all ops over streams and moe_shared, which adds to a single stream; each
 * op sets the fields that its kernel reads.
 */
#include "worker/backend/vulkan/record/vulkan_ops.h"

#include "proto/must.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"

static const struct plan_op *op_of(const struct vulkan_recorder *recorder)
{
    return &recorder->program->plan->ops[recorder->op];
}

static uint32_t columns_of(const struct vulkan_recorder *recorder, plan_tensor_id tensor)
{
    return recorder->program->tensors[tensor].columns;
}

/* Completes the push constants with tensors and numbers of streams. `own`: the kernel's own
 * constant. */
static void dispatch(struct vulkan_recorder *recorder, struct vulkan_stream_push push, uint32_t own)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    bool two = op->inputs[1] != PLAN_NONE;
    push.x = program->tensors[op->inputs[0]].f32;
    push.y = two ? program->tensors[op->inputs[1]].f32 : 0;
    push.out = program->tensors[op->output].f32;
    push.x_streams = columns_of(recorder, op->inputs[0]) / push.columns;
    push.out_streams = columns_of(recorder, op->output) / push.columns;
    const struct vulkan_row_task task = {op->stem, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, VULKAN_FORM_F32, own};
    const struct vulkan_touch touch = {
        .reads = {op->inputs[0], two ? op->inputs[1] : PLAN_NONE, PLAN_NONE},
        .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_stream_take(struct vulkan_recorder *recorder)
{
    const struct plan_op *op = op_of(recorder);
    dispatch(recorder,
             (struct vulkan_stream_push){.columns = columns_of(recorder, op->output),
                                         .x_stream = op->params.stream_take.stream},
             0);
}

void vulkan_record_stream_mix(struct vulkan_recorder *recorder)
{
    const struct plan_op *op = op_of(recorder);
    uint32_t streams = op->params.stream_mix.streams;
    uint32_t columns = columns_of(recorder, op->output) / streams;
    dispatch(recorder, (struct vulkan_stream_push){.columns = columns}, streams);
}

void vulkan_record_stream_correct(struct vulkan_recorder *recorder)
{
    const struct plan_op *op = op_of(recorder);
    uint32_t columns = columns_of(recorder, op->inputs[0]);
    dispatch(recorder,
             (struct vulkan_stream_push){.columns = columns,
                                         .out_stream = op->params.stream_correct.active},
             op->params.stream_correct.streams);
}

void vulkan_record_stream_add(struct vulkan_recorder *recorder)
{
    const struct plan_op *op = op_of(recorder);
    dispatch(recorder,
             (struct vulkan_stream_push){.columns = columns_of(recorder, op->inputs[0]),
                                         .out_stream = op->params.stream_add.first},
             0);
}

void vulkan_record_moe_shared(struct vulkan_recorder *recorder)
{
    uint32_t columns = columns_of(recorder, op_of(recorder)->output);
    dispatch(recorder, (struct vulkan_stream_push){.columns = columns}, 0);
}

void vulkan_record_stream_match(struct vulkan_recorder *recorder)
{
    const struct plan_op *op = op_of(recorder);
    const struct stream_match_params *params = &op->params.stream_match;
    dispatch(recorder,
             (struct vulkan_stream_push){.columns = columns_of(recorder, op->inputs[1]),
                                         .x_stream = params->stream,
                                         .out_stream = params->out_stream},
             params->add);
}

void vulkan_record_stream_cut(struct vulkan_recorder *recorder)
{
    const struct plan_op *op = op_of(recorder);
    uint32_t columns = columns_of(recorder, op->output) / op->params.stream_cut.streams;
    dispatch(recorder,
             (struct vulkan_stream_push){.columns = columns,
                                         .deviations = op->params.stream_cut.deviations},
             0);
}
