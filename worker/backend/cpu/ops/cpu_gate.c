/*
 * gate: the activation of the first half of the columns times the second half.
 *
 * Feed-forward widths are in the thousands, so even a single row is divided among threads: pieces
 * are columns of a row, in whole quantization blocks.
 */
#include "worker/backend/cpu/ops/cpu_ops.h"

#define PIECE_COLUMNS 512u

void cpu_gate(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    uint32_t pieces = (out->columns + PIECE_COLUMNS - 1) / PIECE_COLUMNS; /* per row */
    uint32_t total = pieces * cpu_step_rows(step, out->rows);
    uint32_t first_row = cpu_step_first_row(step, out->rows);
    uint32_t batch = 1 + total / (step->threads * 16);
    for (;;) {
        uint32_t first = cpu_step_claim(step, index, batch);
        if (first >= total)
            return;
        for (uint32_t piece = first; piece < total && piece < first + batch; piece++) {
            uint32_t row = first_row + piece / pieces;
            uint32_t column = piece % pieces * PIECE_COLUMNS;
            uint32_t left = out->columns - column;
            uint32_t count = left < PIECE_COLUMNS ? left : PIECE_COLUMNS;
            const float *x = cpu_step_row(step, op->inputs[0], row) + column;
            step->program->kernels->gate(op->params.gate.activation, x, x + out->columns, count,
                                         cpu_step_row(step, op->output, row) + column);
            if (step->program->notes[index].quantize_output)
                cpu_step_quantize(step, op->output, row, column, count);
        }
    }
}
