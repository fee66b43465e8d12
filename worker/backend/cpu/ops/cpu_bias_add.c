/*
 * bias_add: each thread adds the biases to its own rows, weight by weight, and quantizes a row if a
 * product reads it next.
 *
 * The product's kernel does not add the bias: the sum would be equal, but each kernel of each tier
 * would need a second epilogue to save one pass over a few columns.
 */
#include "worker/backend/cpu/ops/cpu_ops.h"

void cpu_bias_add(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    struct row_share share = cpu_step_share(step, out->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        float *columns = cpu_step_row(step, op->output, row);
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX && op->weights[w] != PLAN_NONE; w++) {
            const float *bias = step->program->vectors[op->weights[w]];
            uint32_t count = step->program->plan->weights[op->weights[w]].columns;
            for (uint32_t c = 0; c < count; c++)
                columns[c] += bias[c];
            columns += count;
        }
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, out->columns);
    }
}
