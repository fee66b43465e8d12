/*
 * soft_cap: tanh over the vocabulary, so even a single row is divided into pieces of columns.
 */
#include "worker/backend/cpu/ops/cpu_ops.h"

#define PIECE_COLUMNS 2048u

void cpu_soft_cap(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct soft_cap_params *params = &op->params.soft_cap;
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    uint32_t pieces = (out->columns + PIECE_COLUMNS - 1) / PIECE_COLUMNS; /* per row */
    uint32_t total = pieces * cpu_step_rows(step, out->rows);
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece >= total)
            return;
        uint32_t row = cpu_step_first_row(step, out->rows) + piece / pieces;
        uint32_t column = piece % pieces * PIECE_COLUMNS;
        uint32_t left = out->columns - column;
        step->program->kernels->soft_cap(cpu_step_row(step, op->inputs[0], row) + column,
                                         params->scale, params->cap,
                                         left < PIECE_COLUMNS ? left : PIECE_COLUMNS,
                                         cpu_step_row(step, op->output, row) + column);
    }
}
