/*
 * take_queries and gate_heads: a projection has, for each head, a query followed by a gate for the
 * head's attention output. take_queries copies the queries to where attention expects them;
 * gate_heads applies the gates. Each thread computes its own rows.
 */
#include <math.h>
#include <string.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

void cpu_take_queries(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct take_queries_params *params = &op->params.take_queries;
    uint32_t head_dim = params->head_dim, queries = params->heads * head_dim;
    uint32_t columns = step->program->tensors[op->output].columns;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_STEP, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t head = 0; head < params->heads; head++)
            memcpy(out + head * head_dim, x + (size_t)2 * head * head_dim,
                   head_dim * sizeof(float));
        memcpy(out + queries, x + (size_t)2 * queries, (columns - queries) * sizeof(float));
    }
}

void cpu_gate_heads(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct gate_heads_params *params = &op->params.gate_heads;
    const struct cpu_tensor *tensor = &step->program->tensors[op->output];
    uint32_t head_dim = params->head_dim;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_STEP, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        const float *attended = cpu_step_row(step, op->inputs[1], row);
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t c = 0; c < tensor->columns; c++) {
            uint32_t head = c / head_dim;
            float gate = x[(size_t)(2 * head + 1) * head_dim + c % head_dim];
            out[c] = attended[c] / (1.0f + expf(-gate));
        }
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, tensor->columns);
    }
}
