/*
 * take_heads and join_heads: parts of the columns of every head of a row, packed. Each thread copies
 * its own rows.
 */
#include <string.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

static uint32_t columns_of(const struct cpu_step *step, plan_tensor_id tensor)
{
    return step->program->tensors[tensor].columns;
}

void cpu_take_heads(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct take_heads_params *params = &op->params.take_heads;
    size_t from = columns_of(step, op->inputs[0]) / params->heads;
    size_t to = columns_of(step, op->output) / params->heads;
    struct row_share share = cpu_step_share(step, step->program->tensors[op->output].rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row) + params->first;
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t head = 0; head < params->heads; head++)
            memcpy(out + head * to, x + head * from, to * sizeof(float));
    }
}

void cpu_join_heads(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct join_heads_params *params = &op->params.join_heads;
    size_t from = columns_of(step, op->inputs[0]) / params->heads;
    size_t second = columns_of(step, op->inputs[1]) / params->heads;
    size_t first = from - params->first;
    struct row_share share = cpu_step_share(step, step->program->tensors[op->output].rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row) + params->first;
        const float *y = cpu_step_row(step, op->inputs[1], row);
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t head = 0; head < params->heads; head++) {
            float *at = out + head * (first + second);
            memcpy(at, x + head * from, first * sizeof(float));
            memcpy(at + first, y + head * second, second * sizeof(float));
        }
    }
}
