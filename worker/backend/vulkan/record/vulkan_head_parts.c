/*
 * take_heads and join_heads: parts of heads.
 */
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"
#include "worker/backend/vulkan/record/vulkan_ops.h"

static const struct plan_op *op_of(const struct vulkan_recorder *recorder)
{
    return &recorder->program->plan->ops[recorder->op];
}

static uint32_t columns_of(const struct vulkan_recorder *recorder, plan_tensor_id tensor)
{
    return recorder->program->tensors[tensor].columns;
}

void vulkan_record_take_heads(struct vulkan_recorder *recorder)
{
    uint32_t forms = recorder->forms[recorder->op];
    const struct plan_op *op = op_of(recorder);
    const struct take_heads_params *params = &op->params.take_heads;
    const struct vulkan_take_heads_push push = {
        .x = recorder->program->tensors[op->inputs[0]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = columns_of(recorder, op->output),
        .part = columns_of(recorder, op->output) / params->heads,
        .head_columns = columns_of(recorder, op->inputs[0]) / params->heads,
        .heads = params->heads,
        .first = params->first,
    };
    const struct vulkan_row_task task = {op->stem, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_join_heads(struct vulkan_recorder *recorder)
{
    const struct plan_op *op = op_of(recorder);
    const struct join_heads_params *params = &op->params.join_heads;
    const struct vulkan_join_heads_push push = {
        .x = recorder->program->tensors[op->inputs[0]].f32,
        .y = recorder->program->tensors[op->inputs[1]].f32,
        .out = recorder->program->tensors[op->output].f32,
        .columns = columns_of(recorder, op->output),
        .head_columns = columns_of(recorder, op->output) / params->heads,
        .x_columns = columns_of(recorder, op->inputs[0]) / params->heads,
        .y_columns = columns_of(recorder, op->inputs[1]) / params->heads,
        .heads = params->heads,
        .first = params->first,
    };
    const struct vulkan_row_task task = {op->stem, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, VULKAN_FORM_F32, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}
