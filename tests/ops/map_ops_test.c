/*
 * Ops that look at the rows around a row, against loops in double precision, at drawn shapes: convolutions over maps of
 * images (squares of patches, several tiles) and of sounds (of any number of mel rows), norms of parts of a row and of lines by
 * those before them, and attention to near rows. As in patch_ops_test.c, a sketched tower of one op runs; its input is written by the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "tests/support/op_fixture.h"
#include "worker/backend/cpu/cpu_image_encoder.h"

#define TRIALS   40u
#define ROWS_MAX 256u
#define MELS     5u
#define IMAGES   2u

struct trial {
    struct plan_sketch *sketch;
    struct thread_pool *pool;
    struct cpu_image_encoder encoder;
    plan_tensor_id x, out, start;
    const struct plan_op *then; /* a second op, or NULL */
    plan_weight_id weight;
    uint32_t x_columns, out_columns;
    struct encode_image images[IMAGES];
};

/* A number of [least, most]. */
static uint32_t draw(struct trial *t, uint32_t least, uint32_t most)
{
    double share = ((double)plan_sketch_uniform(t->sketch) + 1.0) / 2.0;
    uint32_t number = least + (uint32_t)(share * (most - least + 1));
    return number > most ? most : number;
}

static struct plan_op op_of(enum op_stem stem, plan_tensor_id x, plan_weight_id weight,
                            plan_tensor_id out)
{
    return (struct plan_op){.stem = stem,
                            .inputs = {x, PLAN_NONE},
                            .weights = {weight, PLAN_NONE, PLAN_NONE},
                            .output = out};
}

static void *zeros(size_t bytes)
{
    void *made = must_alloc(bytes, 1);
    memset(made, 0, bytes);
    return made;
}

static void draw_sounds(struct trial *t, struct model_vision *vision)
{
    vision->mels = MELS;
    vision->sound_step = 4;
    vision->sound_ends = vision->row_features = true;
    vision->sound_rows = 24;
    for (uint32_t i = 0; i < IMAGES; i++) {
        uint32_t rows = draw(t, 1, 60);
        t->images[i] =
            (struct encode_image){.shape = {.tiles = 1, .width = MELS, .height = rows, .sound = 1},
                                  .pixels = zeros((size_t)rows * MELS * sizeof(float))};
    }
}

static void draw_images(struct trial *t, struct model_vision *vision)
{
    vision->merge_side = draw(t, 1, 2);
    for (uint32_t i = 0; i < IMAGES; i++) {
        uint32_t width = vision->merge_side * draw(t, 1, 3);
        uint32_t height = vision->merge_side * draw(t, 1, 3);
        t->images[i] =
            (struct encode_image){.shape = {.tiles = i + 1, .width = width, .height = height},
                                  .pixels = zeros((size_t)(i + 1) * 3 * width * height)};
    }
}

/* The tower of the trial's images or sounds, with tensors of so many columns. */
static void begin_trial(struct trial *t, uint32_t seed, bool sounds)
{
    *t = (struct trial){.sketch = plan_sketch_create(seed)};
    struct plan *plan = plan_sketch_plan(t->sketch);
    plan->vision = (struct model_vision){
        .patch_side = 1, .merge_side = 1, .hidden = 4, .text_hidden = 4, .stages = 1};
    if (sounds)
        draw_sounds(t, &plan->vision);
    else
        draw_images(t, &plan->vision);
    t->start = plan_sketch_tensor(t->sketch, PLAN_ROWS_PATCHES, sounds ? 4 * MELS : 3);
    for (uint32_t i = 0, row = 0; i < IMAGES; i++) {
        t->images[i].first_feature = row;
        row += model_vision_feature_rows(&plan->vision, t->images[i].shape);
    }
}

static void add_tensors(struct trial *t, uint32_t x_columns, uint32_t out_columns)
{
    t->x_columns = x_columns;
    t->out_columns = out_columns;
    t->x = plan_sketch_tensor(t->sketch, PLAN_ROWS_PATCHES, x_columns);
    t->out = plan_sketch_tensor(t->sketch, PLAN_ROWS_PATCHES, out_columns);
}

/* The first stage reads pixels, the second is the op. Fills x. */
static void open_trial(struct trial *t, struct plan_op op)
{
    struct error_text error = {""};
    struct plan *plan = plan_sketch_plan(t->sketch);
    bool sounds = plan->vision.mels > 0;
    struct plan_op first =
        op_of(sounds ? OP_sound_rows : OP_patch_rows, PLAN_NONE, PLAN_NONE, t->start);
    if (sounds)
        first.params.sound_rows.lines = 4;
    else
        first.params.patch_rows = (struct patch_rows_params){.frames = 1, .gain = 1.0f};
    plan_sketch_append(t->sketch, first);
    plan_sketch_append(t->sketch, op);
    if (t->then)
        plan_sketch_append(t->sketch, *t->then);
    plan->logits = PLAN_NONE;
    plan->stage_ends[0] = 1;
    plan->stage_ends[1] = t->then ? 3 : 2;
    const struct backend_options options = {
        .vision = plan, .max_patch_rows = ROWS_MAX, .feature_rows = ROWS_MAX};
    must(thread_pool_create(2, &t->pool, &error) == RESULT_OK);
    must(cpu_image_encoder_init(&t->encoder, &options, cpu_kernels_choose(CPU_TIER_BEST), t->pool,
                                NULL, NULL, &error) == RESULT_OK);
    cpu_image_encoder_begin(&t->encoder, &(const struct encode_batch){IMAGES, t->images});
    float *x = cpu_step_row(&t->encoder.step, t->x, 0);
    for (uint32_t i = 0; i < t->encoder.patches.rows * t->x_columns; i++)
        x[i] = plan_sketch_uniform(t->sketch);
}

static void run(struct trial *t)
{
    while (cpu_image_encoder_run(&t->encoder, 1) > 0)
        continue;
}

static void end_trial(struct trial *t)
{
    cpu_image_encoder_fini(&t->encoder);
    thread_pool_destroy(t->pool);
    plan_sketch_destroy(t->sketch);
    for (uint32_t i = 0; i < IMAGES; i++)
        free((void *)t->images[i].pixels);
}

static float value(const struct trial *t, plan_tensor_id tensor, uint32_t row, uint32_t column)
{
    return cpu_step_row(&t->encoder.step, tensor, row)[column];
}

static float weight(const struct trial *t, uint32_t row, uint32_t column)
{
    static float values[4096];
    plan_sketch_weight_row(t->sketch, t->weight, row, values);
    return values[column];
}

/* --- convolutions ----------------------------------------------------------------------------- */

/* X(y, x, c) of the op, found by looking for the row of that place. */
static double point(const struct trial *t, const struct row_cells *cells, uint32_t tile, int64_t y,
                    int64_t x, uint32_t c)
{
    const struct image_patches *patches = &t->encoder.patches;
    const struct image_shape *shape = &patches->tiles[tile].image.shape;
    uint32_t unit = patches->vision->sound_step;
    uint64_t lines = shape->sound ? ((uint64_t)shape->height * cells->lines + unit - 1) / unit
                                  : (uint64_t)shape->height * cells->lines;
    uint64_t columns = (uint64_t)(shape->sound ? 1 : shape->width) * cells->columns;
    if (y < 0 || x < 0 || (uint64_t)y >= lines || (uint64_t)x >= columns)
        return 0;
    for (uint32_t row = 0; row < patches->rows; row++) {
        const struct patch_place *place = &patches->places[row];
        if (place->tile == tile && place->y == (uint64_t)y / cells->lines &&
            place->x == (uint64_t)x / cells->columns)
            return (double)value(
                t, t->x, row,
                ((uint32_t)(y % cells->lines) * cells->columns + (uint32_t)(x % cells->columns)) *
                        cells->channels +
                    c);
    }
    fail_msg("no row has line %ld, column %ld", (long)y, (long)x);
    return 0;
}

static double convolved(const struct trial *t, const struct conv_2d_params *p, bool depthwise,
                        uint32_t row, uint32_t column)
{
    const struct patch_place *place = &t->encoder.patches.places[row];
    uint32_t o = column % p->out.channels, cell = column / p->out.channels;
    int64_t y = (int64_t)place->y * p->out.lines + cell / p->out.columns;
    int64_t x = (int64_t)place->x * p->out.columns + cell % p->out.columns;
    uint32_t channels = depthwise ? 1 : p->in.channels;
    double sum = 0;
    for (uint32_t i = 0; i < p->taps_y; i++)
        for (uint32_t j = 0; j < p->taps_x; j++)
            for (uint32_t c = 0; c < channels; c++)
                sum += (double)weight(t, o, (i * p->taps_x + j) * channels + c) *
                       point(t, &p->in, place->tile,
                             y * (p->in.lines / p->out.lines) + i - p->before_y,
                             x * ((p->in.columns + p->out.columns - 1) / p->out.columns) + j -
                                 p->before_x,
                             depthwise ? o : c);
    return sum;
}

static struct conv_2d_params draw_convolution(struct trial *t, bool sounds, bool depthwise)
{
    static const uint32_t lines[] = {1, 2, 4};
    struct conv_2d_params p = {.taps_y = draw(t, 1, 5), .taps_x = draw(t, 1, 4)};
    uint32_t most = draw(t, 0, sounds ? 2 : 1);
    p.in = (struct row_cells){sounds ? lines[most] : draw(t, 1, 2) * lines[most], draw(t, 1, 6),
                              draw(t, 1, 20)};
    p.out = p.in;
    p.out.lines = p.in.lines / lines[draw(t, 0, most)];
    if ((p.in.columns % 2 == 0 || sounds) && draw(t, 0, 1))
        p.out.columns = (p.in.columns + 1) / 2;
    if (!depthwise)
        p.out.channels = draw(t, 1, 7);
    p.before_y = draw(t, 0, p.taps_y - 1);
    p.before_x = draw(t, 0, p.taps_x - 1);
    return p;
}

static uint32_t values_of(const struct row_cells *cells)
{
    return cells->lines * cells->columns * cells->channels;
}

static void check_convolution(uint32_t seed)
{
    bool sounds = seed % 2 == 0, depthwise = seed / 2 % 2 == 0;
    struct trial t;
    begin_trial(&t, seed, sounds);
    struct conv_2d_params p = draw_convolution(&t, sounds, depthwise);
    add_tensors(&t, values_of(&p.in), values_of(&p.out));
    t.weight = plan_sketch_weight(t.sketch, GGML_F32, p.out.channels,
                                  p.taps_y * p.taps_x * (depthwise ? 1 : p.in.channels));
    struct plan_op op = op_of(depthwise ? OP_conv_depthwise : OP_conv_2d, t.x, t.weight, t.out);
    if (depthwise)
        op.params.conv_depthwise.shape = p;
    else
        op.params.conv_2d = p;
    open_trial(&t, op);
    run(&t);
    for (uint32_t row = 0; row < t.encoder.patches.rows; row++)
        for (uint32_t column = 0; column < t.out_columns; column++) {
            double expected = convolved(&t, &p, depthwise, row, column);
            if (fabs(expected - (double)value(&t, t.out, row, column)) > 1e-4)
                fail_msg("seed %u, row %u, column %u: %g, not %g", seed, row, column,
                         (double)value(&t, t.out, row, column), expected);
        }
    end_trial(&t);
}

static void test_convolutions(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < TRIALS; seed++)
        check_convolution(seed);
}

/* --- parts ------------------------------------------------------------------------------------ */

static void check_parts(uint32_t seed)
{
    struct trial t;
    begin_trial(&t, seed, seed % 2 == 0);
    uint32_t parts = draw(&t, 1, 9), columns = draw(&t, 2, 40);
    add_tensors(&t, parts * columns, 1);
    t.weight = plan_sketch_weight(t.sketch, GGML_F32, 1, columns);
    struct plan_op op = op_of(OP_part_norm, t.x, t.weight, t.x);
    op.params.part_norm = (struct part_norm_params){parts, 1e-3f};
    open_trial(&t, op);
    uint32_t rows = t.encoder.patches.rows;
    float *before = must_alloc((size_t)rows * parts * columns, sizeof *before);
    memcpy(before, cpu_step_row(&t.encoder.step, t.x, 0),
           (size_t)rows * parts * columns * sizeof *before);
    run(&t);
    for (uint32_t p = 0; p < rows * parts; p++) {
        const float *x = before + (size_t)p * columns;
        double mean = 0, squares = 0;
        for (uint32_t c = 0; c < columns; c++)
            mean += (double)x[c] / columns;
        for (uint32_t c = 0; c < columns; c++)
            squares += ((double)x[c] - mean) * ((double)x[c] - mean) / columns;
        for (uint32_t c = 0; c < columns; c++) {
            double expected =
                ((double)x[c] - mean) / sqrt(squares + 1e-3) * (double)weight(&t, 0, c);
            assert_true(
                fabs(expected - (double)value(&t, t.x, p / parts, p % parts * columns + c)) < 1e-4);
        }
    }
    free(before);
    end_trial(&t);
}

static void test_part_norm(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < TRIALS / 4; seed++)
        check_parts(seed);
}

/* --- norms of lines by those before them ------------------------------------------------------ */

/* Lines of a sound, one after the other: x [lines, values]. */
static void expect_lines(const struct trial *t, const struct past_norm_params *p, uint32_t first,
                         uint32_t rows, const float *x)
{
    uint32_t values = p->cells.columns * p->cells.channels, lines = rows * p->cells.lines;
    double sum = 0, squares = 0;
    for (uint32_t line = 0; line < lines; line++) {
        double count = (double)(line + 1) * values, here = 0;
        for (uint32_t v = 0; v < values; v++)
            sum += (double)x[(size_t)line * values + v];
        for (uint32_t v = 0; v < values; v++) {
            double away = (double)x[(size_t)line * values + v] - sum / count;
            here += away * away;
        }
        squares += here;
        for (uint32_t v = 0; v < values; v++) {
            double expected = ((double)x[(size_t)line * values + v] - sum / count) /
                              sqrt(squares / count + (double)p->epsilon) *
                              (double)weight(t, 0, v % p->cells.channels);
            double found = (double)value(t, t->x, first + line / p->cells.lines,
                                         line % p->cells.lines * values + v);
            if (fabs(expected - found) > 1e-4)
                fail_msg("line %u, value %u: %g, not %g", line, v, found, expected);
        }
    }
}

static void check_past(uint32_t seed)
{
    static const uint32_t lines[] = {1, 2, 4};
    struct trial t;
    begin_trial(&t, seed, true);
    struct past_norm_params p = {.cells = {lines[draw(&t, 0, 2)], draw(&t, 1, 6), draw(&t, 1, 7)},
                                 .epsilon = 1e-3f};
    uint32_t columns = values_of(&p.cells);
    add_tensors(&t, columns, 2 * p.cells.lines);
    t.weight = plan_sketch_weight(t.sketch, GGML_F32, 1, p.cells.channels);
    struct plan_op norm = op_of(OP_past_norm, t.x, t.weight, t.x);
    norm.inputs[1] = t.out;
    norm.params.past_norm = p;
    t.then = &norm;
    struct plan_op op = op_of(OP_line_moments, t.x, PLAN_NONE, t.out);
    op.params.line_moments.cells = p.cells;
    open_trial(&t, op);
    const struct image_patches *patches = &t.encoder.patches;
    float *before = must_alloc((size_t)patches->rows * columns, sizeof *before);
    memcpy(before, cpu_step_row(&t.encoder.step, t.x, 0),
           (size_t)patches->rows * columns * sizeof *before);
    run(&t);
    for (uint32_t s = 0; s < patches->whole.count; s++) {
        const struct patch_span *span = &patches->whole.spans[s];
        expect_lines(&t, &p, span->first_row, span->rows,
                     before + (size_t)span->first_row * columns);
    }
    free(before);
    end_trial(&t);
}

static void test_past_norm(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < TRIALS / 2; seed++)
        check_past(seed);
}

/* --- attention to near rows ------------------------------------------------------------------- */

static double near_score(const struct trial *t, const struct near_attention_params *p, uint32_t row,
                         uint32_t back, uint32_t head)
{
    uint32_t head_dim = p->queries.head_dim;
    double sum = 0;
    for (uint32_t d = 0; d < head_dim; d++) {
        double query = (double)value(t, t->x, row, p->queries.offset + head * head_dim + d);
        sum += query * ((double)p->scale *
                            (double)value(t, t->x, row - back, p->keys + head * head_dim + d) +
                        (double)weight(t, p->before - back, head * head_dim + d));
    }
    return p->soft_cap > 0.0f ? (double)p->soft_cap * tanh(sum / (double)p->soft_cap) : sum;
}

static void check_row(const struct trial *t, const struct near_attention_params *p, uint32_t row)
{
    uint32_t y = t->encoder.patches.places[row].y, head_dim = p->queries.head_dim;
    uint32_t seen = y < p->before ? y : p->before;
    for (uint32_t head = 0; head < p->queries.heads; head++)
        for (uint32_t d = 0; d < head_dim; d++) {
            double whole = 0, sum = 0;
            for (uint32_t back = 0; back <= seen; back++) {
                double share = exp(near_score(t, p, row, back, head));
                whole += share;
                sum += share * (double)value(t, t->x, row - back, p->values + head * head_dim + d);
            }
            assert_true(fabs(sum / whole - (double)value(t, t->out, row, head * head_dim + d)) <
                        1e-4);
        }
}

static void check_attention(uint32_t seed)
{
    struct trial t;
    begin_trial(&t, seed, true);
    uint32_t heads = draw(&t, 1, 4), head_dim = draw(&t, 1, 24), wide = heads * head_dim;
    struct near_attention_params p = {.queries = {0, heads, head_dim},
                                      .keys = wide,
                                      .values = 2 * wide,
                                      .before = draw(&t, 0, 12),
                                      .scale = 0.5f,
                                      .soft_cap = seed % 3 == 0 ? 0.0f : 1.5f};
    add_tensors(&t, 3 * wide, wide);
    t.weight = plan_sketch_weight(t.sketch, GGML_F32, p.before + 1, wide);
    struct plan_op op = op_of(OP_near_attention, t.x, t.weight, t.out);
    op.params.near_attention = p;
    open_trial(&t, op);
    run(&t);
    for (uint32_t row = 0; row < t.encoder.patches.rows; row++)
        check_row(&t, &p, row);
    end_trial(&t);
}

static void test_near_attention(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < TRIALS / 2; seed++)
        check_attention(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_part_norm),
        cmocka_unit_test(test_past_norm),
        cmocka_unit_test(test_near_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
