/*
 * Late rows run like the others, from their kept inputs, without an output. From the first deferred
 * row on a copy of the matrix is moved, so the slot stays as the last certain row left it. The slot
 * that a checkpoint asks for is written after the row that it names.
 */
#include "worker/backend/cpu/ops/cpu_state_rows.h"

#include <string.h>

#include "proto/must.h"
#include "worker/backend/cpu/program/cpu_state.h"

static struct cpu_state_row find_row(const struct cpu_state_op *op,
                                     const struct step_sequence *sequence, uint32_t at)
{
    const struct cpu_program *program = op->step->program;
    if (at < sequence->late_rows) {
        const float *kept = cpu_state_delta_row(program, op->layer, sequence->late_place + at);
        return (struct cpu_state_row){kept, kept + program->tensors[op->op->inputs[0]].columns,
                                      NULL};
    }
    uint32_t row = sequence->first_row + at - sequence->late_rows;
    return (struct cpu_state_row){cpu_step_row(op->step, op->op->inputs[0], row),
                                  cpu_step_row(op->step, op->op->inputs[1], row) + op->y_offset,
                                  cpu_step_row(op->step, op->op->output, row)};
}

void cpu_state_rows_keep(const struct cpu_state_op *op, const struct step_sequence *sequence)
{
    const struct cpu_program *program = op->step->program;
    uint32_t x_columns = program->tensors[op->op->inputs[0]].columns;
    uint32_t first = sequence->late_rows + sequence->row_count - sequence->deferred_rows;
    must(x_columns + op->y_columns == program->plan->state.delta_row_floats);
    for (uint32_t i = 0; i < sequence->deferred_rows; i++) {
        const struct cpu_state_row row = find_row(op, sequence, first + i);
        float *kept = cpu_state_delta_row(program, op->layer, sequence->deferred_place + i);
        memcpy(kept, row.x, x_columns * sizeof(float));
        memcpy(kept + x_columns, row.y, op->y_columns * sizeof(float));
    }
}

void cpu_state_rows_move(const struct cpu_state_op *op, const struct step_sequence *sequence,
                         uint32_t head, size_t floats, float *tried, cpu_state_move_fn *move,
                         const void *context)
{
    const struct cpu_program *program = op->step->program;
    float *matrix = cpu_state_delta(program, op->layer, sequence->state_slot) + head * floats;
    uint32_t total = sequence->late_rows + sequence->row_count;
    uint32_t advancing = total - sequence->deferred_rows;
    uint32_t copied_after = cpu_state_copied_after(sequence);
    if (sequence->first_position == 0)
        memset(matrix, 0, floats * sizeof(float));
    for (uint32_t at = 0; at < total; at++) {
        if (at == advancing) {
            memcpy(tried, matrix, floats * sizeof(float));
            matrix = tried;
        }
        const struct cpu_state_row row = find_row(op, sequence, at);
        move(context, matrix, &row);
        if (at + 1 == copied_after)
            memcpy(cpu_state_delta(program, op->layer, sequence->state_copy) + head * floats,
                   matrix, floats * sizeof(float));
    }
}
