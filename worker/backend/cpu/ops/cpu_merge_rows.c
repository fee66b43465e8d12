/*
 * join_rows, join_padded, pool_rows, feature_write and feature_place: from patches to features; feature_add: from features to
 * text rows. The patches of a feature are consecutive rows (image_patches.c), so joining them only
 * changes the number of columns.
 */
#include <string.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

/* Returns false if none are left. */
static bool claim_feature(const struct cpu_step *step, uint32_t index, uint32_t *row)
{
    uint32_t piece = cpu_step_claim(step, index, 1);
    *row = cpu_step_first_row(step, PLAN_ROWS_FEATURES) + piece;
    return piece < cpu_step_rows(step, PLAN_ROWS_FEATURES);
}

void cpu_join_rows(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    uint32_t count = op->params.join_rows.count;
    uint32_t columns = step->program->tensors[op->output].columns;
    for (;;) {
        uint32_t row;
        if (!claim_feature(step, index, &row))
            return;
        memcpy(cpu_step_row(step, op->output, row), cpu_step_row(step, op->inputs[0], row * count),
               columns * sizeof(float));
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, columns);
    }
}

/* Row `row` of the features, of squares that may reach beyond their tile. */
static void join_square(const struct cpu_step *step, const struct plan_op *op, uint32_t row)
{
    uint32_t side = op->params.join_padded.side, join = op->params.join_padded.join;
    uint32_t across = (side + join - 1) / join, tile = row / (side * side) * side * side;
    uint32_t columns = step->program->tensors[op->inputs[0]].columns, square = row - tile;
    float *out = cpu_step_row(step, op->output, row);
    for (uint32_t i = 0; i < join * join; i++, out += columns) {
        uint32_t y = square / across * join + i / join, x = square % across * join + i % join;
        if (square < across * across && y < side && x < side)
            memcpy(out, cpu_step_row(step, op->inputs[0], tile + y * side + x),
                   columns * sizeof(float));
        else
            memset(out, 0, columns * sizeof(float));
    }
}

void cpu_join_padded(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    for (;;) {
        uint32_t row;
        if (!claim_feature(step, index, &row))
            return;
        join_square(step, op, row);
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, step->program->tensors[op->output].columns);
    }
}

void cpu_pool_rows(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct pool_rows_params *params = &op->params.pool_rows;
    uint32_t columns = step->program->tensors[op->output].columns;
    for (;;) {
        uint32_t row;
        if (!claim_feature(step, index, &row))
            return;
        const float *x = cpu_step_row(step, op->inputs[0], row * params->count);
        float *out = cpu_step_row(step, op->output, row);
        memcpy(out, x, columns * sizeof(float));
        for (uint32_t i = 1; i < params->count; i++)
            for (uint32_t c = 0; c < columns; c++)
                out[c] += x[(size_t)i * columns + c];
        for (uint32_t c = 0; c < columns; c++)
            out[c] *= params->scale;
    }
}

void cpu_feature_write(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    uint32_t columns = step->program->tensors[op->inputs[0]].columns;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_FEATURES, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        uint32_t pool_row = step->patches->feature_rows[row];
        if (pool_row == PATCH_FEATURE_NONE)
            continue;
        float *feature = cpu_feature_pool_row(step->features, pool_row);
        memcpy(feature + (size_t)op->params.feature_write.part * columns,
               cpu_step_row(step, op->inputs[0], row), columns * sizeof(float));
    }
}

/* The threads' features have equal shares of the mosaics' rows, which may mix any features: those are
 * complete since the stage before. */
void cpu_feature_place(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const float *newline =
        op->weights[0] == PLAN_NONE ? NULL : step->program->vectors[op->weights[0]];
    uint32_t columns = step->program->tensors[op->inputs[0]].columns;
    struct row_share rows = cpu_step_share(step, PLAN_ROWS_FEATURES, thread);
    struct mix_share share = image_patches_mixes(step->patches, rows.begin, rows.end);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const struct feature_mix *mix = &step->patches->mixes[i];
        float *out = cpu_feature_pool_row(step->features, mix->pool_row);
        if (mix->kind != op->params.feature_place.kind)
            continue;
        if (mix->features[0] == PATCH_FEATURE_NONE) {
            memcpy(out, newline, columns * sizeof(float));
            continue;
        }
        memset(out, 0, columns * sizeof(float));
        for (uint32_t k = 0; k < FEATURE_MIX_ROWS; k++) {
            if (mix->weights[k] == 0.0f)
                continue;
            const float *x = cpu_step_row(step, op->inputs[0], mix->features[k]);
            for (uint32_t c = 0; c < columns; c++)
                out[c] += mix->weights[k] * x[c];
        }
    }
}

void cpu_feature_add(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    uint32_t columns = step->program->tensors[op->output].columns;
    const uint32_t *features = step->batch->feature_rows;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_STEP, thread);
    for (uint32_t row = share.begin; features && row < share.end; row++) {
        if (features[row] == ROW_FEATURE_NONE)
            continue;
        const float *feature = cpu_feature_pool_row(step->features, features[row]) +
                               (size_t)op->params.feature_add.part * columns;
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t c = 0; c < columns; c++)
            out[c] += feature[c];
    }
}
