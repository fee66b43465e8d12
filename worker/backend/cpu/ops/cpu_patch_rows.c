/*
 * patch_rows and patch_positions: pixels and positions of patches.
 *
 * Pixels become floats here only: a byte times the channel's scale plus its bias. A patch is
 * unfolded in the order of the checkpoint's convolution kernel, so that the convolution is a matrix
 * product (op linear) over these rows.
 */
#include <math.h>
#include <string.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

#define CHANNELS 3u

/* The patch's first pixel, and the distances to the next line and frame. */
struct patch_source {
    const uint8_t *pixels;
    size_t line_bytes;
    size_t frame_bytes; /* 0: all frames are the same image */
    float scale[CHANNELS];
    float bias[CHANNELS];
};

static struct patch_source source_of(const struct cpu_step *step, uint32_t row,
                                     const struct patch_rows_params *params)
{
    const struct patch_place *place = &step->patches->places[row];
    const struct encode_image *image = &step->patches->tiles[place->tile].image;
    uint32_t side = step->patches->vision->patch_side;
    struct patch_source source = {.line_bytes = (size_t)image->shape.width * CHANNELS};
    source.frame_bytes = image->shape.frames > 1 ? source.line_bytes * image->shape.height : 0;
    source.pixels = image->pixels + params->first_frame * source.frame_bytes +
                    place->y * side * source.line_bytes + (size_t)place->x * side * CHANNELS;
    for (uint32_t c = 0; c < CHANNELS; c++) {
        source.scale[c] = image->scale[c] * params->gain;
        source.bias[c] = image->bias[c] * params->gain + params->shift;
    }
    return source;
}

static float value_at(const struct patch_source *source, uint32_t frame, uint32_t y, uint32_t x,
                      uint32_t channel)
{
    float pixel =
        (float)source
            ->pixels[frame * source->frame_bytes + y * source->line_bytes + x * CHANNELS + channel];
    return pixel * source->scale[channel] + source->bias[channel];
}

static float *unfold_channels_first(const struct patch_source *source, uint32_t side,
                                    uint32_t frames, float *out)
{
    for (uint32_t channel = 0; channel < CHANNELS; channel++)
        for (uint32_t frame = 0; frame < frames; frame++)
            for (uint32_t y = 0; y < side; y++)
                for (uint32_t x = 0; x < side; x++)
                    *out++ = value_at(source, frame, y, x, channel);
    return out;
}

static float *unfold_channels_last(const struct patch_source *source, uint32_t side,
                                   uint32_t frames, float *out)
{
    for (uint32_t frame = 0; frame < frames; frame++)
        for (uint32_t y = 0; y < side; y++)
            for (uint32_t x = 0; x < side; x++)
                for (uint32_t channel = 0; channel < CHANNELS; channel++)
                    *out++ = value_at(source, frame, y, x, channel);
    return out;
}

void cpu_patch_rows(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct patch_rows_params *params = &op->params.patch_rows;
    uint32_t side = step->patches->vision->patch_side;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_PATCHES, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        struct patch_source source = source_of(step, row, params);
        float *out = cpu_step_row(step, op->output, row);
        if (step->patches->places[row].lead)
            memset(out, 0, step->program->tensors[op->output].columns * sizeof(float));
        else if (params->channels_last)
            unfold_channels_last(&source, side, params->frames, out);
        else
            unfold_channels_first(&source, side, params->frames, out);
    }
}

/* --- positions -------------------------------------------------------------------------------- */

#define TAPS_MAX   16u
#define CUBIC_SIDE 4u
#define CUBIC_A    (-0.75f) /* torch's */
#define AVERAGED_A (-0.5f)  /* torch's with antialias */
#define CUBIC_ENDS 2.0f

struct position_taps {
    uint32_t count;
    uint32_t rows[TAPS_MAX]; /* of the table */
    float weights[TAPS_MAX];
};

/* The two nearest rows of the table along one axis, `count` patches laid over `side` rows. */
static float neighbours(uint32_t at, uint32_t count, uint32_t side, uint32_t *low, uint32_t *high)
{
    float where = count > 1 ? (float)at * (float)(side - 1) / (float)(count - 1) : 0.0f;
    float floor = floorf(where);
    *low = (uint32_t)floor;
    *high = *low + 1 < side ? *low + 1 : side - 1;
    return where - floor;
}

static struct position_taps linear_taps(const struct patch_place *place,
                                        const struct patch_tile *tile, uint32_t side)
{
    uint32_t top, bottom, left, right;
    float down = neighbours(place->y, tile->height, side, &top, &bottom);
    float along = neighbours(place->x, tile->width, side, &left, &right);
    return (struct position_taps){
        .count = 4,
        .rows = {top * side + left, top * side + right, bottom * side + left,
                 bottom * side + right},
        .weights = {(1.0f - down) * (1.0f - along), (1.0f - down) * along, down * (1.0f - along),
                    down * along},
    };
}

/* Keys' cubic convolution at a distance of less than 2. */
static float cubic_weight(float distance, float a)
{
    float d = fabsf(distance);
    return d <= 1.0f ? ((a + 2.0f) * d - (a + 3.0f)) * d * d + 1.0f
                     : ((a * d - 5.0f * a) * d + 8.0f * a) * d - 4.0f * a;
}

/* The four rows of the table around a patch along one axis, and their weights. */
static void cubic_axis(uint32_t at, uint32_t count, uint32_t side, uint32_t rows[CUBIC_SIDE],
                       float weights[CUBIC_SIDE])
{
    float where = ((float)at + 0.5f) / (float)count * (float)side - 0.5f;
    float first = floorf(where) - 1.0f;
    for (uint32_t i = 0; i < CUBIC_SIDE; i++) {
        float row = first + (float)i;
        weights[i] = cubic_weight(where - row, CUBIC_A);
        rows[i] = (uint32_t)fminf(fmaxf(row, 0.0f), (float)(side - 1));
    }
}

static struct position_taps cubic_taps(const struct patch_place *place,
                                       const struct patch_tile *tile, uint32_t side)
{
    uint32_t lines[CUBIC_SIDE], columns[CUBIC_SIDE];
    float down[CUBIC_SIDE], along[CUBIC_SIDE];
    struct position_taps taps = {.count = TAPS_MAX};
    cubic_axis(place->y, tile->height, side, lines, down);
    cubic_axis(place->x, tile->width, side, columns, along);
    for (uint32_t i = 0; i < TAPS_MAX; i++) {
        taps.rows[i] = lines[i / CUBIC_SIDE] * side + columns[i % CUBIC_SIDE];
        taps.weights[i] = down[i / CUBIC_SIDE] * along[i % CUBIC_SIDE];
    }
    return taps;
}

/* The table's rows along one axis: weights fall from the patch's middle to 0 at `unit`, or twice that if cubic. */
struct position_span {
    uint32_t first;
    uint32_t last;
    float middle;
    float unit;
    bool cubic;
    float sum; /* of the weights */
};

static float span_weight(const struct position_span *span, uint32_t row)
{
    float distance = fabsf((float)row - span->middle) / span->unit;
    if (span->cubic)
        return distance < CUBIC_ENDS ? cubic_weight(distance, AVERAGED_A) : 0.0f;
    return fmaxf(1.0f - distance, 0.0f);
}

static struct position_span span_of(uint32_t at, uint32_t count, uint32_t side,
                                    enum position_form form)
{
    float share = (float)side / (float)count, top = (float)(side - 1);
    struct position_span span = {.middle = ((float)at + 0.5f) * share - 0.5f,
                                 .unit = form == POSITIONS_MIDDLES ? 1.0f : fmaxf(share, 1.0f),
                                 .cubic = form == POSITIONS_CUBIC_AVERAGED};
    float reach = span.cubic ? CUBIC_ENDS * span.unit : span.unit;
    span.first = (uint32_t)fminf(fmaxf(ceilf(span.middle - reach), 0.0f), top);
    span.last = (uint32_t)fminf(fmaxf(floorf(span.middle + reach), 0.0f), top);
    for (uint32_t row = span.first; row <= span.last; row++)
        span.sum += span_weight(&span, row);
    return span;
}

/* Rows of a patch along an axis of the row's grid: those of its square's sides for a feature. */
static uint32_t grid_unit(const struct cpu_step *step, const struct plan_op *op)
{
    bool features = step->program->tensors[op->output].rows == PLAN_ROWS_FEATURES;
    return features ? step->patches->vision->merge_side : 1;
}

/* MIDDLES, AVERAGED and CUBIC_AVERAGED. */
static void add_weighted(const struct cpu_step *step, const struct plan_op *op, uint32_t row)
{
    uint32_t unit = grid_unit(step, op);
    const struct patch_place *place = &step->patches->places[row * unit * unit];
    const struct patch_tile *tile = &step->patches->tiles[place->tile];
    uint32_t columns = step->program->tensors[op->output].columns;
    uint32_t side = op->params.patch_positions.side;
    enum position_form form = op->params.patch_positions.form;
    const float *table =
        step->program->vectors[op->weights[0]] + (op->params.patch_positions.lead ? columns : 0);
    struct position_span lines = span_of(place->y / unit, tile->height / unit, side, form);
    struct position_span across = span_of(place->x / unit, tile->width / unit, side, form);
    float *out = cpu_step_row(step, op->output, row), all = lines.sum * across.sum;
    for (uint32_t y = lines.first; y <= lines.last; y++) {
        for (uint32_t x = across.first; x <= across.last; x++) {
            float weight = span_weight(&lines, y) * span_weight(&across, x) / all;
            const float *from = table + ((size_t)y * side + x) * columns;
            for (uint32_t c = 0; c < columns; c++)
                out[c] += weight * from[c];
        }
    }
}

static struct position_taps taps_of(const struct cpu_step *step, uint32_t row,
                                    const struct patch_positions_params *params)
{
    const struct patch_place *place = &step->patches->places[row];
    switch (params->form) {
    case POSITIONS_LINEAR:
        return linear_taps(place, &step->patches->tiles[place->tile], params->side);
    case POSITIONS_CUBIC:
        return cubic_taps(place, &step->patches->tiles[place->tile], params->side);
    case POSITIONS_LINE: return (struct position_taps){1, {place->y}, {1.0f}};
    case POSITIONS_AXES:
        return (struct position_taps){2, {place->x, params->side + place->y}, {1.0f, 1.0f}};
    default:
        return (struct position_taps){
            1, {(params->lead ? 1 : 0) + place->y * params->side + place->x}, {1.0f}};
    }
}

/* The lead row and the table's first one. */
static void write_lead(const struct cpu_step *step, const struct plan_op *op, uint32_t row)
{
    const float *table = step->program->vectors[op->weights[0]];
    const float *lead = step->program->vectors[op->weights[1]];
    float *out = cpu_step_row(step, op->output, row);
    for (uint32_t c = 0; c < step->program->tensors[op->output].columns; c++)
        out[c] = lead[c] + table[c];
}

void cpu_patch_positions(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const float *table = step->program->vectors[op->weights[0]];
    uint32_t columns = step->program->tensors[op->output].columns;
    enum position_form form = op->params.patch_positions.form;
    uint32_t square = grid_unit(step, op) * grid_unit(step, op);
    struct row_share share = cpu_step_share(step, step->program->tensors[op->output].rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        if (step->patches->places[row * square].lead) {
            if (op->params.patch_positions.lead)
                write_lead(step, op, row);
            continue;
        }
        if (form == POSITIONS_MIDDLES || form == POSITIONS_AVERAGED ||
            form == POSITIONS_CUBIC_AVERAGED) {
            add_weighted(step, op, row);
            continue;
        }
        struct position_taps taps = taps_of(step, row, &op->params.patch_positions);
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t c = 0; c < columns; c++) {
            float sum = 0.0f;
            for (uint32_t t = 0; t < taps.count; t++)
                sum += taps.weights[t] * table[(size_t)taps.rows[t] * columns + c];
            out[c] += sum;
        }
    }
}
