/*
 * rope: rotary position embedding.
 *
 * Cosines and sines of a position are equal in all layers, so a table per rotary embedding is
 * computed once per step: per row cosines [dims / 2], then sines, by the C library's functions of
 * the f32 product position * inverse_frequency.
 */
#include <math.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

/* table [dims]: of the pairs' angles along the axes [dims / 2] */
static void fill_table(const struct rope_config *rope, const float *positions, const uint8_t *axes,
                       float *table)
{
    uint32_t pairs = rope->dims / 2;
    for (uint32_t pair = 0; pair < pairs; pair++) {
        float angle = positions[axes[pair]] * rope->inverse_frequency[pair];
        table[pair] = cosf(angle) * rope->magnitude;
        table[pairs + pair] = sinf(angle) * rope->magnitude;
    }
}

void cpu_rope_fill_tables(const struct cpu_step *step, uint32_t thread)
{
    const struct model_config *config = &step->program->plan->config;
    enum plan_rows rows = step->patches ? PLAN_ROWS_PATCHES : PLAN_ROWS_STEP;
    struct row_share share = cpu_step_share(step, rows, thread);
    for (uint32_t i = 0; i < config->rope_count; i++) {
        const struct rope_config *rope = &config->ropes[i];
        uint32_t columns = cpu_rope_table_columns(rope);
        for (uint32_t row = share.begin; row < share.end; row++) {
            float *table = step->program->rope_tables[i] + (size_t)row * columns;
            struct rope_position at = cpu_step_rope_position(step, row);
            const float positions[] = {
                [ROPE_TIME] = (float)at.time,
                [ROPE_HEIGHT] = (float)at.height,
                [ROPE_WIDTH] = (float)at.width,
                [ROPE_ROW] = step->patches ? 0.0f : (float)cpu_step_position(step, row)};
            fill_table(rope, positions, rope->axis, table);
            if (rope->divided)
                fill_table(rope, positions, rope->second_axis, table + rope->dims);
        }
    }
}

/* head [dims]; cosines and sines [dims / 2] of the first elements of pairs, and of the second ones */
static void rotate_divided(float *restrict head, const float *restrict first,
                           const float *restrict second, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        float a = head[i];
        float b = head[pairs + i];
        head[i] = a * first[i] - b * first[pairs + i];
        head[pairs + i] = a * second[pairs + i] + b * second[i];
    }
}

/* head [dims], cosines and sines [dims / 2] */
static void rotate_halves(float *restrict head, const float *restrict cosines,
                          const float *restrict sines, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        float a = head[i];
        float b = head[pairs + i];
        head[i] = a * cosines[i] - b * sines[i];
        head[pairs + i] = a * sines[i] + b * cosines[i];
    }
}

static void rotate_adjacent(float *restrict head, const float *restrict cosines,
                            const float *restrict sines, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        float a = head[2 * i];
        float b = head[2 * i + 1];
        head[2 * i] = a * cosines[i] - b * sines[i];
        head[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
}

void cpu_rope(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct rope_params *params = &op->params.rope;
    const struct rope_config *rope = &step->program->plan->config.ropes[params->rope];
    uint32_t pairs = rope->dims / 2;
    struct row_share share = cpu_step_share(step, step->program->tensors[op->output].rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *table =
            step->program->rope_tables[params->rope] + (size_t)row * cpu_rope_table_columns(rope);
        float *head = cpu_step_row(step, op->output, row) + params->slice.offset;
        for (uint32_t h = 0; h < params->slice.heads; h++, head += params->slice.head_dim) {
            if (rope->divided)
                rotate_divided(head, table, table + rope->dims, pairs);
            else if (rope->pairing == ROPE_PAIRS_HALVES)
                rotate_halves(head, table, table + pairs, pairs);
            else
                rotate_adjacent(head, table, table + pairs, pairs);
        }
    }
}
