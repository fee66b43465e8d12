/*
 * neighbour_rows: the rows around each patch side by side, so that a convolution over three by three patches is a product
 * (op linear) over these rows.
 */
#include <string.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

/* The row of x that tap `tap` of the patch reads; returns false if it lies beyond the tile. */
static bool tap_row(const struct image_patches *patches, const struct patch_place *place,
                    uint32_t step, uint32_t tap, uint32_t *row)
{
    const struct patch_tile *tile = &patches->tiles[place->tile];
    int64_t y = (int64_t)place->y + ((int64_t)(tap / 3) - 1) * step;
    int64_t x = (int64_t)place->x + ((int64_t)(tap % 3) - 1) * step;
    if (place->lead || y < 0 || x < 0 || y >= tile->height || x >= tile->width)
        return false;
    *row = image_patches_row(patches, tile, (uint32_t)y, (uint32_t)x);
    return true;
}

void cpu_neighbour_rows(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    enum plan_rows kind = step->program->tensors[op->output].rows;
    uint32_t columns = step->program->tensors[op->inputs[0]].columns, from;
    uint32_t patches = kind == PLAN_ROWS_FEATURES ? image_patches_square(step->patches) : 1;
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece >= cpu_step_rows(step, kind))
            return;
        uint32_t row = cpu_step_first_row(step, kind) + piece;
        const struct patch_place *place = &step->patches->places[row * patches];
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t tap = 0; tap < NEIGHBOURS; tap++, out += columns) {
            if (tap_row(step->patches, place, op->params.neighbour_rows.step, tap, &from))
                memcpy(out, cpu_step_row(step, op->inputs[0], from), columns * sizeof(float));
            else
                memset(out, 0, columns * sizeof(float));
        }
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, NEIGHBOURS * columns);
    }
}
