/*
 * conv_2d and conv_depthwise: convolutions over maps that are finer than the tower's rows.
 *
 * A piece is one row with all its cells. Its taps reach into the cells of rows around it, whose numbers follow from
 * the order of a tile's rows (image_patches.c); the encoder computes all rows of the input first. Kernels have the input's
 * channels last, as cells do, so a tap is a product of two runs of numbers.
 */
#include <string.h>

#include "worker/backend/cpu/ops/cpu_ops.h"
#include "worker/plan/float_dot.h"

/* The map of one tile. */
struct map {
    const struct cpu_step *step;
    plan_tensor_id x;
    struct row_cells cells;
    uint32_t lines;
    uint32_t columns;
    uint32_t first_row; /* of the tile */
    uint32_t width;     /* of the tile, patches */
    uint32_t side;      /* of merged squares */
};

/* The number of a patch among its tile's rows. */
static uint32_t row_in_tile(const struct map *p, uint32_t y, uint32_t x)
{
    uint32_t square = y / p->side * (p->width / p->side) + x / p->side;
    return (square * p->side + y % p->side) * p->side + x % p->side;
}

static struct map map_of(const struct cpu_step *step, plan_tensor_id x, struct row_cells cells,
                         uint32_t row)
{
    const struct model_vision *vision = &step->program->plan->vision;
    const struct patch_place *place = &step->patches->places[row];
    const struct patch_tile *tile = &step->patches->tiles[place->tile];
    uint32_t unit = model_vision_sound_step(vision);
    struct map p = {.step = step,
                    .x = x,
                    .cells = cells,
                    .lines = tile->height * cells.lines,
                    .columns = tile->width * cells.columns,
                    .width = tile->width,
                    .side = vision->mels > 0 ? 1 : vision->merge_side};
    if (vision->mels > 0)
        p.lines = (tile->image.shape.height * cells.lines + unit - 1) / unit;
    p.first_row = row - row_in_tile(&p, place->y, place->x);
    return p;
}

/* The channels of a point; NULL: beyond the map. */
static const float *point_of(const struct map *p, int64_t line, int64_t column)
{
    if (line < 0 || column < 0 || line >= p->lines || column >= p->columns)
        return NULL;
    uint32_t y = (uint32_t)line, x = (uint32_t)column;
    uint32_t row = row_in_tile(p, y / p->cells.lines, x / p->cells.columns);
    uint32_t cell = y % p->cells.lines * p->cells.columns + x % p->cells.columns;
    return cpu_step_row(p->step, p->x, p->first_row + row) + (size_t)cell * p->cells.channels;
}

/* Adds to out[channels] the products of tap `tap` with its point. */
static void add_tap(const struct conv_2d_params *shape, bool depthwise, const float *kernel,
                    uint32_t tap, const float *point, float *out)
{
    uint32_t taps = shape->taps_y * shape->taps_x, channels = shape->in.channels;
    if (depthwise) {
        for (uint32_t c = 0; c < channels; c++)
            out[c] += kernel[(size_t)c * taps + tap] * point[c];
        return;
    }
    for (uint32_t o = 0; o < shape->out.channels; o++)
        out[o] += float_dot(kernel + ((size_t)o * taps + tap) * channels, point, channels);
}

static void convolve_row(const struct cpu_step *step, const struct plan_op *op,
                         const struct conv_2d_params *shape, bool depthwise, uint32_t row)
{
    const struct patch_place *place = &step->patches->places[row];
    const struct map p = map_of(step, op->inputs[0], shape->in, row);
    const float *kernel = step->program->vectors[op->weights[0]];
    uint32_t step_y = shape->in.lines / shape->out.lines;
    uint32_t step_x = (shape->in.columns + shape->out.columns - 1) / shape->out.columns;
    uint32_t cells = shape->out.lines * shape->out.columns;
    float *out = cpu_step_row(step, op->output, row);
    memset(out, 0, (size_t)cells * shape->out.channels * sizeof *out);
    for (uint32_t cell = 0; cell < cells; cell++, out += shape->out.channels) {
        int64_t y = (int64_t)place->y * shape->out.lines + cell / shape->out.columns;
        int64_t x = (int64_t)place->x * shape->out.columns + cell % shape->out.columns;
        for (uint32_t tap = 0; tap < shape->taps_y * shape->taps_x; tap++) {
            const float *point = point_of(&p, y * step_y + tap / shape->taps_x - shape->before_y,
                                          x * step_x + tap % shape->taps_x - shape->before_x);
            if (point)
                add_tap(shape, depthwise, kernel, tap, point, out);
        }
    }
}

static void convolve(const struct cpu_step *step, uint32_t index,
                     const struct conv_2d_params *shape, bool depthwise)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece >= cpu_step_rows(step, PLAN_ROWS_PATCHES))
            return;
        convolve_row(step, op, shape, depthwise,
                     cpu_step_first_row(step, PLAN_ROWS_PATCHES) + piece);
    }
}

void cpu_conv_2d(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    convolve(step, index, &step->program->plan->ops[index].params.conv_2d, false);
}

void cpu_conv_depthwise(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    convolve(step, index, &step->program->plan->ops[index].params.conv_depthwise.shape, true);
}
