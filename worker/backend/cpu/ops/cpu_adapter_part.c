/*
 * A piece of the first part is a tile of rows by one weight of the op; a piece of the second is a
 * tile by a run of sixteen-output groups of one weight. Inputs of a tile are copied to consecutive
 * rows where they are not.
 *
 * Kernels compute a row independently of the others, so neither the tile nor other adapters in the
 * step have any influence on a row's result. Activations stay f32, also where the product itself
 * reads quantized ones.
 */
#include "worker/backend/cpu/ops/cpu_adapter_part.h"

#include <string.h>

#define GROUPS_MOST 32u /* of a piece of the second part */

static uint32_t weight_slots(const struct plan_op *op)
{
    uint32_t count = 0;
    while (count < OP_WEIGHTS_MAX && op->weights[count] != PLAN_NONE)
        count++;
    return count;
}

/* The tile's rows of tensor x, one after the other. */
static const float *tile_input(const struct cpu_step *step, const uint32_t *rows,
                               const struct adapter_tile *tile, plan_tensor_id x, uint32_t columns,
                               uint32_t thread)
{
    if (rows[tile->count - 1] - rows[0] == tile->count - 1) /* they ascend */
        return cpu_step_row(step, x, rows[0]);
    float *gathered = step->adapters->gathered[thread];
    for (uint32_t r = 0; r < tile->count; r++)
        memcpy(gathered + (size_t)r * columns, cpu_step_row(step, x, rows[r]),
               columns * sizeof *gathered);
    return gathered;
}

void cpu_adapter_reduce(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_adapters *adapters = step->adapters;
    const struct adapter_rows *rows = cpu_adapters_rows(adapters, index);
    uint32_t slots = weight_slots(op);
    for (;;) {
        uint32_t piece = cpu_step_claim(step, cpu_step_adapter_claims(step, index), 1);
        if (piece / slots >= rows->tile_count)
            return;
        uint32_t slot = piece % slots;
        const struct adapter_tile *tile = &rows->tiles[piece / slots];
        const struct cpu_adapter_pair *pair =
            cpu_adapter_find(adapters->slots[tile->adapter], op->weights[slot]);
        if (!pair)
            continue;
        float *low = cpu_adapters_low(adapters, tile->first, slot);
        size_t stride = (size_t)OP_WEIGHTS_MAX * adapters->rank_stride;
        struct linear_tile product = {.columns = pair->a.columns,
                                      .rows = tile->count,
                                      .x = tile_input(step, rows->order + tile->first, tile,
                                                      op->inputs[0], pair->a.columns, thread),
                                      .x_stride_bytes = pair->a.columns * sizeof(float),
                                      .out_stride = stride};
        for (uint32_t group = 0; group < pair->a.groups; group++) {
            product.group = pair->a.data + group * pair->a.group_bytes;
            product.out = low + group * PACKED_ROWS;
            step->program->kernels->linear[pair->a.kind](&product);
        }
        for (uint32_t r = 0; r < tile->count; r++)
            for (uint32_t i = 0; i < pair->a.rows; i++)
                low[r * stride + i] *= pair->scale;
    }
}

/* Groups [first, end) of a pair, whose outputs begin at `column` of the output. */
static void add_groups(const struct cpu_step *step, uint32_t index, const struct adapter_tile *tile,
                       uint32_t slot, uint32_t column, uint32_t first, uint32_t end)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_adapter_pair *pair =
        cpu_adapter_find(step->adapters->slots[tile->adapter], op->weights[slot]);
    const uint32_t *rows = cpu_adapters_rows(step->adapters, index)->order + tile->first;
    float aside[ADAPTER_TILE_ROWS * PACKED_ROWS];
    struct linear_tile product = {.columns = pair->b.columns,
                                  .rows = tile->count,
                                  .x = cpu_adapters_low(step->adapters, tile->first, slot),
                                  .x_stride_bytes = (size_t)OP_WEIGHTS_MAX *
                                                    step->adapters->rank_stride * sizeof(float),
                                  .out = aside,
                                  .out_stride = PACKED_ROWS};
    for (uint32_t group = first; group < end; group++) {
        uint32_t outputs = packed_weight_group_rows(&pair->b, group);
        product.group = pair->b.data + group * pair->b.group_bytes;
        step->program->kernels->linear[pair->b.kind](&product);
        for (uint32_t r = 0; r < tile->count; r++) {
            float *out = cpu_step_row(step, op->output, rows[r]) + column + group * PACKED_ROWS;
            for (uint32_t c = 0; c < outputs; c++)
                out[c] += aside[r * PACKED_ROWS + c];
        }
    }
}

/* Runs of groups of the op's widest weight. */
static uint32_t runs_of(const struct cpu_step *step, const struct plan_op *op, uint32_t slots)
{
    uint32_t groups = 1;
    for (uint32_t slot = 0; slot < slots; slot++)
        if (step->program->packed[op->weights[slot]].groups > groups)
            groups = step->program->packed[op->weights[slot]].groups;
    return (groups + GROUPS_MOST - 1) / GROUPS_MOST;
}

void cpu_adapter_expand(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct adapter_rows *rows = cpu_adapters_rows(step->adapters, index);
    uint32_t slots = weight_slots(op);
    uint32_t runs = runs_of(step, op, slots);
    for (;;) {
        uint32_t piece = cpu_step_claim(step, cpu_step_adapter_claims(step, index) + 1, 1);
        uint32_t run = piece % runs, slot = piece / runs % slots, at = piece / runs / slots;
        if (at >= rows->tile_count)
            return;
        const struct adapter_tile *tile = &rows->tiles[at];
        const struct cpu_adapter_pair *pair =
            cpu_adapter_find(step->adapters->slots[tile->adapter], op->weights[slot]);
        if (!pair || run * GROUPS_MOST >= pair->b.groups)
            continue;
        uint32_t column = 0;
        for (uint32_t before = 0; before < slot; before++)
            column += step->program->packed[op->weights[before]].rows;
        uint32_t end = (run + 1) * GROUPS_MOST;
        add_groups(step, index, tile, slot, column, run * GROUPS_MOST,
                   end < pair->b.groups ? end : pair->b.groups);
    }
}
