/*
 * Matrices that share an input are listed one by one if they clip, because each clips it differently.
 */
#include "worker/model/build/clipped_blocks.h"

#include <stdio.h>

static void list_clip(struct plan_builder *b, const struct clipped_matrix *m, const char *end,
                      plan_tensor_id x, uint32_t offset, plan_tensor_id out)
{
    const struct clip_columns_params params = {
        .offset = offset,
        .minimum = plan_builder_number(b, "v.blk.%u.%s.%s_min", m->layer, m->stem, end),
        .maximum = plan_builder_number(b, "v.blk.%u.%s.%s_max", m->layer, m->stem, end),
    };
    plan_ops_clip_columns(b, x, params, out);
}

static void list_clipped(struct plan_builder *b, const struct clipped_matrix *m,
                         struct linear_weights weights)
{
    list_clip(b, m, "input", m->x, 0, m->clipped);
    plan_ops_linear(b, m->clipped, weights, m->product);
    list_clip(b, m, "output", m->product, m->offset, m->out);
}

void clipped_blocks_list(struct plan_builder *b, bool clips, const struct clipped_matrix *matrices,
                         uint32_t count)
{
    plan_weight_id weights[OP_WEIGHTS_MAX] = {PLAN_NONE, PLAN_NONE, PLAN_NONE};
    for (uint32_t i = 0; i < count; i++) {
        const struct clipped_matrix *m = &matrices[i];
        plan_weight_id weight =
            plan_builder_matrix(b, m->rows, m->columns, "v.blk.%u.%s.weight", m->layer, m->stem);
        weights[i] = weight;
        if (clips)
            list_clipped(b, m, (struct linear_weights){weight, PLAN_NONE, PLAN_NONE});
    }
    if (!clips)
        plan_ops_linear(b, matrices[0].x,
                        (struct linear_weights){weights[0], weights[1], weights[2]},
                        matrices[0].out);
}

void clipped_blocks_list_swapped(struct plan_builder *b, bool clips,
                                 const struct clipped_matrix *matrix)
{
    uint32_t half = matrix->rows / 2;
    char name[STORED_NAME_BYTES];
    (void)snprintf(name, sizeof name, "v.blk.%u.%s.weight", matrix->layer, matrix->stem);
    const struct linear_weights weights = {
        plan_builder_rows(b, (struct row_range){matrix->rows, half, half}, matrix->columns, name),
        plan_builder_rows(b, (struct row_range){matrix->rows, 0, half}, matrix->columns, name),
        PLAN_NONE};
    if (clips)
        list_clipped(b, matrix, weights);
    else
        plan_ops_linear(b, matrix->x, weights, matrix->out);
}
