/*
 * The rows that move the matrices of a recurrent op through a step, for ops whose layer keeps
 * matrices: gated_delta, ssm_scan. Each sequence has late rows, whose inputs a step before kept, and
 * then those of the step, of which the deferred ones move a copy (struct step_sequence).
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_OPS_CPU_STATE_ROWS_H
#define SHOAL_WORKER_BACKEND_CPU_OPS_CPU_STATE_ROWS_H

#include "worker/backend/cpu/ops/cpu_ops.h"

/* An op that moves matrices. Its inputs are all columns of x, and y_columns of y from y_offset on. */
struct cpu_state_op {
    const struct cpu_step *step;
    const struct plan_op *op;
    uint32_t layer;
    uint32_t y_offset;
    uint32_t y_columns;
};

/* The inputs of one row, and its output; `out` is NULL for a late row. */
struct cpu_state_row {
    const float *x;
    const float *y;
    float *out;
};

/* Moves `matrix`, of the head that `context` describes, by a row; writes the head's part of row->out
 * if there is one. */
typedef void cpu_state_move_fn(const void *context, float *matrix, const struct cpu_state_row *row);

/* Keeps the inputs of the sequence's deferred rows; once for each sequence. */
void cpu_state_rows_keep(const struct cpu_state_op *op, const struct step_sequence *sequence);

/* Moves matrix `head` of `floats` floats through all rows of the sequence, zeros being its contents
 * before position 0. tried: [floats] scratch, used if rows are deferred. */
void cpu_state_rows_move(const struct cpu_state_op *op, const struct step_sequence *sequence,
                         uint32_t head, size_t floats, float *tried, cpu_state_move_fn *move,
                         const void *context);

#endif
