/*
 * The ops of vision towers against their formulas, every tier: images of two sizes and two tiles
 * in one batch, windows cut by edges of tiles, tables of positions in all forms.
 *
 * A sketched tower of one op runs like other towers (cpu_image_encoder.h); its input is
 * written to the tensor by the test; patch_rows, the first stage, does not touch it.
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

#define SIDE     2u /* of a patch, pixels */
#define MERGE    2u
#define WINDOW   2u /* squares */
#define COLUMNS  36u
#define HEADS    3u
#define HEAD_DIM 12u
#define TABLE    6u
#define ROWS_MAX 256u

#define PIXEL_BYTES (3 * 12 * 8 + 3 * 2 * 4 * 12) /* of the images */

struct trial {
    struct plan_sketch *sketch;
    struct thread_pool *pool;
    struct cpu_image_encoder vision;
    plan_tensor_id pixels, x, out;
    plan_weight_id table;
    uint8_t *bytes;
    struct encode_image images[2];
};

/* The first stage is patch_rows, the second the op. */
static void open_trial(struct trial *t, struct plan_op op, enum cpu_tier tier)
{
    struct error_text error = {""};
    struct plan *plan = plan_sketch_plan(t->sketch);
    plan_sketch_stages(t->sketch, t->pixels, 2, op);
    const struct backend_options options = {
        .vision = plan, .max_patch_rows = ROWS_MAX, .feature_rows = ROWS_MAX};
    must(thread_pool_create(2, &t->pool, &error) == RESULT_OK);
    must(cpu_image_encoder_init(&t->vision, &options, cpu_kernels_choose(tier), t->pool, NULL, NULL,
                                &error) == RESULT_OK);
    cpu_image_encoder_begin(&t->vision, &(const struct encode_batch){2, t->images});
}

static void begin_trial(struct trial *t)
{
    *t = (struct trial){.sketch = plan_sketch_create(7)};
    struct plan *plan = plan_sketch_plan(t->sketch);
    plan->vision = (struct model_vision){.patch_side = SIDE,
                                         .merge_side = MERGE,
                                         .max_side = TABLE,
                                         .window_side = WINDOW,
                                         .hidden = COLUMNS,
                                         .text_hidden = COLUMNS,
                                         .stages = 1};
    t->pixels = plan_sketch_tensor(t->sketch, PLAN_ROWS_PATCHES, 3 * 2 * SIDE * SIDE);
    t->table = plan_sketch_weight(t->sketch, GGML_F32, TABLE * TABLE, COLUMNS);
    static const struct image_shape shapes[] = {{1, 12, 8, 1, 0}, {2, 4, 12, 1, 0}};
    t->bytes = must_alloc(PIXEL_BYTES, 1);
    for (uint32_t i = 0; i < PIXEL_BYTES; i++)
        t->bytes[i] = (uint8_t)(i * 37 % 251);
    for (uint32_t p = 0; p < 2; p++)
        t->images[p] = (struct encode_image){.shape = shapes[p],
                                             .pixels = t->bytes + (p == 0 ? 0 : 3 * 12 * 8),
                                             .scale = {0.5f, 0.25f, 0.125f},
                                             .bias = {-1.0f, 0.0f, 1.0f},
                                             .first_feature = p == 0 ? 40 : 3};
}

/* Both stages, over some rows at a time. */
static void run(struct trial *t)
{
    while (cpu_image_encoder_run(&t->vision, 1) > 0)
        continue;
}

static void end_trial(struct trial *t)
{
    cpu_image_encoder_fini(&t->vision);
    thread_pool_destroy(t->pool);
    plan_sketch_destroy(t->sketch);
    free(t->bytes);
}

static float *row_of(const struct trial *t, plan_tensor_id tensor, uint32_t row)
{
    return cpu_step_row(&t->vision.step, tensor, row);
}

static void fill(struct trial *t, plan_tensor_id tensor, uint32_t rows)
{
    uint32_t columns = t->vision.program.tensors[tensor].columns;
    for (uint32_t i = 0; i < rows * columns; i++)
        row_of(t, tensor, 0)[i] = plan_sketch_uniform(t->sketch);
}

static struct plan_op op_of(enum op_stem stem, plan_tensor_id x, plan_tensor_id out)
{
    return (struct plan_op){.stem = stem,
                            .inputs = {x, PLAN_NONE},
                            .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                            .output = out};
}

static void expect_near(double expected, float found, double most)
{
    if (!(fabs(expected - (double)found) <= most))
        fail_msg("%g, not %g", (double)found, expected);
}

/* --- order and pixels ------------------------------------------------------------------------- */

/* Expected order of rows: windows, squares in them, patches in those, each line by line. */
static uint32_t row_at(uint32_t high, uint32_t wide, uint32_t y, uint32_t x)
{
    uint32_t row = 0, unit = WINDOW * MERGE;
    for (uint32_t y2 = 0; y2 < high; y2++) {
        for (uint32_t x2 = 0; x2 < wide; x2++) {
            uint32_t mine[] = {y / unit, x / unit, y / MERGE, x / MERGE, y, x};
            uint32_t other[] = {y2 / unit, x2 / unit, y2 / MERGE, x2 / MERGE, y2, x2};
            uint32_t i = 0;
            while (i < 6 && mine[i] == other[i])
                i++;
            row += i < 6 && other[i] < mine[i];
        }
    }
    return row;
}

static void check_tile_pixels(const struct trial *t, const struct encode_image *image,
                              uint32_t tile, uint32_t first_row)
{
    uint32_t high = image->shape.height / SIDE, wide = image->shape.width / SIDE;
    const uint8_t *pixels =
        image->pixels + (size_t)tile * 3 * image->shape.height * image->shape.width;
    for (uint32_t y = 0; y < image->shape.height; y++) {
        for (uint32_t x = 0; x < image->shape.width * 3; x++) {
            uint32_t column = x / 3, c = x % 3;
            const float *row =
                row_of(t, t->pixels, first_row + row_at(high, wide, y / SIDE, column / SIDE));
            float byte = (float)pixels[(size_t)y * image->shape.width * 3 + x];
            for (uint32_t frame = 0; frame < 2; frame++)
                expect_near((double)(byte * image->scale[c] + image->bias[c]),
                            row[((c * 2 + frame) * SIDE + y % SIDE) * SIDE + column % SIDE], 1e-5);
        }
    }
}

static void test_patch_rows(void **state)
{
    (void)state;
    struct trial t;
    begin_trial(&t);
    t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, COLUMNS);
    struct plan_op op = op_of(OP_activate, t.x, t.x);
    open_trial(&t, op, CPU_TIER_BEST);
    assert_int_equal(t.vision.patches.rows, 24 + 2 * 12);
    assert_int_equal(t.vision.patches.features, 6 + 2 * 3);
    assert_int_equal(t.vision.patches.whole.count, 3);
    assert_int_equal(t.vision.patches.windows.count, 2 + 2 * 2);
    uint8_t pixels[PIXEL_BYTES]; /* released before the encoder runs */
    memcpy(pixels, t.bytes, PIXEL_BYTES);
    memset(t.bytes, 0, PIXEL_BYTES);
    run(&t);
    memcpy(t.bytes, pixels, PIXEL_BYTES);
    check_tile_pixels(&t, &t.images[0], 0, 0);
    check_tile_pixels(&t, &t.images[1], 0, 24);
    check_tile_pixels(&t, &t.images[1], 1, 36);
    end_trial(&t);
}

/* --- positions -------------------------------------------------------------------------------- */

static double table_at(const struct trial *t, uint32_t row, uint32_t column)
{
    float values[COLUMNS];
    plan_sketch_weight_row(t->sketch, t->table, row, values);
    return (double)values[column];
}

static double along(uint32_t at, uint32_t count)
{
    return count > 1 ? (double)at * (TABLE - 1) / (count - 1) : 0.0;
}

/* Torch's cubic kernel. */
static double convolution(double distance)
{
    const double a = -0.75;
    double d = fabs(distance);
    if (d <= 1)
        return (a + 2) * pow(d, 3) - (a + 3) * pow(d, 2) + 1;
    return d < 2 ? a * pow(d, 3) - 5 * a * pow(d, 2) + 8 * a * d - 4 * a : 0;
}

static uint32_t clamped(int32_t row)
{
    return row < 0 ? 0 : row < (int32_t)TABLE ? (uint32_t)row : TABLE - 1;
}

/* A triangle's height at `row`, whose middle is patch `at` of `count`. */
static double triangle(enum position_form form, uint32_t at, uint32_t count, uint32_t row)
{
    double share = (double)TABLE / count;
    double reach = form == POSITIONS_AVERAGED && share > 1 ? share : 1;
    double away = fabs((at + 0.5) * share - 0.5 - row) / reach;
    return away < 1 ? 1 - away : 0;
}

static double weighted_position(const struct trial *t, enum position_form form, uint32_t row,
                                uint32_t column)
{
    const struct patch_place *place = &t->vision.patches.places[row];
    const struct patch_tile *tile = &t->vision.patches.tiles[place->tile];
    double sum = 0, weights = 0;
    for (uint32_t i = 0; i < TABLE * TABLE; i++) {
        double weight = triangle(form, place->y, tile->height, i / TABLE) *
                        triangle(form, place->x, tile->width, i % TABLE);
        sum += weight * table_at(t, i, column);
        weights += weight;
    }
    return sum / weights;
}

/* The table interpolated at y, x: a sum over all rows, weighted by distance. */
static double expected_position(const struct trial *t, enum position_form form, uint32_t row,
                                uint32_t column)
{
    const struct patch_place *place = &t->vision.patches.places[row];
    const struct patch_tile *tile = &t->vision.patches.tiles[place->tile];
    if (form == POSITIONS_EXACT)
        return table_at(t, place->y * TABLE + place->x, column);
    if (form == POSITIONS_AXES)
        return table_at(t, place->x, column) + table_at(t, TABLE + place->y, column);
    double sum = 0;
    if (form == POSITIONS_CUBIC) {
        double line = (place->y + 0.5) / tile->height * TABLE - 0.5;
        double across = (place->x + 0.5) / tile->width * TABLE - 0.5;
        for (int32_t y = -9; y < 9 + (int32_t)TABLE; y++)
            for (int32_t x = -9; x < 9 + (int32_t)TABLE; x++)
                sum += convolution(line - y) * convolution(across - x) *
                       table_at(t, clamped(y) * TABLE + clamped(x), column);
        return sum;
    }
    if (form == POSITIONS_MIDDLES || form == POSITIONS_AVERAGED)
        return weighted_position(t, form, row, column);
    for (uint32_t i = 0; i < TABLE * TABLE; i++) {
        double y = fabs(along(place->y, tile->height) - i / TABLE);
        double x = fabs(along(place->x, tile->width) - i % TABLE);
        if (y < 1 && x < 1)
            sum += (1 - y) * (1 - x) * table_at(t, i, column);
    }
    return sum;
}

static void test_patch_positions(void **state)
{
    (void)state;
    static const enum position_form forms[] = {POSITIONS_EXACT,   POSITIONS_LINEAR,
                                               POSITIONS_AXES,    POSITIONS_CUBIC,
                                               POSITIONS_MIDDLES, POSITIONS_AVERAGED};
    for (uint32_t f = 0; f < 6; f++) {
        struct trial t;
        float before[ROWS_MAX][COLUMNS];
        begin_trial(&t);
        t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, COLUMNS);
        struct plan_op op = op_of(OP_patch_positions, t.x, t.x);
        op.weights[0] = t.table;
        op.params.patch_positions = (struct patch_positions_params){forms[f], TABLE, false};
        open_trial(&t, op, CPU_TIER_BEST);
        uint32_t rows = t.vision.patches.rows;
        fill(&t, t.x, rows);
        memcpy(before, row_of(&t, t.x, 0), rows * sizeof before[0]);
        run(&t);
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t c = 0; c < COLUMNS; c++)
                expect_near((double)before[r][c] + expected_position(&t, forms[f], r, c),
                            row_of(&t, t.x, r)[c], 1e-5);
        end_trial(&t);
    }
}

/* The tower of test_lead_row: both images in tiles of one size, no windows. */
static void use_lead_row(struct trial *t)
{
    struct model_vision *vision = &plan_sketch_plan(t->sketch)->vision;
    vision->lead_row = true;
    vision->fixed_side = TABLE;
    vision->max_side = vision->window_side = 0;
    t->table = plan_sketch_weight(t->sketch, GGML_F32, TABLE * TABLE + 1, COLUMNS);
    free(t->bytes);
    t->bytes = must_alloc((size_t)3 * 3 * SIDE * TABLE * SIDE * TABLE, 1);
    for (uint32_t p = 0; p < 2; p++) {
        t->images[p].shape = (struct image_shape){p + 1, SIDE * TABLE, SIDE * TABLE, 1, 0};
        t->images[p].pixels = t->bytes + (size_t)p * 3 * SIDE * TABLE * SIDE * TABLE;
    }
}

/* A tile begins with a square of rows of which the last is the lead row: pixels are zeros there,
 * positions replace it, it attends with the patches, and the square's feature is dropped. */
static void test_lead_row(void **state)
{
    (void)state;
    const uint32_t square = MERGE * MERGE, tile_rows = square + TABLE * TABLE;
    struct trial t;
    float before[ROWS_MAX][COLUMNS];
    begin_trial(&t);
    use_lead_row(&t);
    t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, COLUMNS);
    plan_weight_id lead = plan_sketch_weight(t.sketch, GGML_F32, 1, COLUMNS);
    struct plan_op op = op_of(OP_patch_positions, t.x, t.x);
    op.weights[0] = t.table;
    op.weights[1] = lead;
    op.params.patch_positions = (struct patch_positions_params){POSITIONS_EXACT, TABLE, true};
    open_trial(&t, op, CPU_TIER_BEST);
    const struct image_patches *patches = &t.vision.patches;
    assert_int_equal(patches->rows, 3 * tile_rows);
    assert_int_equal(patches->features * square, patches->rows);
    assert_int_equal(patches->whole.count, 2 * 3);
    fill(&t, t.x, patches->rows);
    memcpy(before, row_of(&t, t.x, 0), patches->rows * sizeof before[0]);
    run(&t);
    float leading[COLUMNS];
    plan_sketch_weight_row(t.sketch, lead, 0, leading);
    for (uint32_t r = 0; r < patches->rows; r++) {
        const struct patch_place *place = &patches->places[r];
        bool is_lead = r % tile_rows < square;
        assert_int_equal(place->lead, is_lead);
        assert_int_equal(patches->feature_rows[r / square] == PATCH_FEATURE_NONE, is_lead);
        for (uint32_t i = 0; is_lead && i < 3 * 2 * SIDE * SIDE; i++)
            assert_true(row_of(&t, t.pixels, r)[i] == 0.0f);
        for (uint32_t c = 0; c < COLUMNS; c++)
            expect_near(is_lead ? (double)leading[c] + table_at(&t, 0, c)
                                : (double)before[r][c] +
                                      table_at(&t, 1 + place->y * TABLE + place->x, c),
                        row_of(&t, t.x, r)[c], 1e-5);
    }
    for (uint32_t s = 0; s < patches->whole.count; s++) {
        const struct patch_span *span = &patches->whole.spans[s];
        assert_int_equal(span->first_row, s / 2 * tile_rows + (s % 2 ? square - 1 : 0));
        assert_int_equal(span->rows, s % 2 ? 1 + TABLE * TABLE : square - 1);
    }
    end_trial(&t);
}

/* --- attention -------------------------------------------------------------------------------- */

static bool sees(const struct trial *t, bool windowed, uint32_t row, uint32_t other)
{
    const struct patch_place *a = &t->vision.patches.places[row];
    const struct patch_place *b = &t->vision.patches.places[other];
    uint32_t unit = WINDOW * MERGE;
    return a->tile == b->tile &&
           (!windowed || (a->y / unit == b->y / unit && a->x / unit == b->x / unit));
}

static double score(const struct trial *t, uint32_t row, uint32_t other, uint32_t head)
{
    double sum = 0;
    for (uint32_t d = 0; d < HEAD_DIM; d++)
        sum += (double)row_of(t, t->x, row)[head * HEAD_DIM + d] *
               (double)row_of(t, t->x, other)[COLUMNS + head * HEAD_DIM + d];
    return exp(2.0 * sum);
}

static void check_attended(const struct trial *t, bool windowed, uint32_t row)
{
    for (uint32_t head = 0; head < HEADS; head++) {
        double whole = 0, sums[HEAD_DIM] = {0};
        for (uint32_t other = 0; other < t->vision.patches.rows; other++) {
            if (!sees(t, windowed, row, other))
                continue;
            double weight = score(t, row, other, head);
            whole += weight;
            for (uint32_t d = 0; d < HEAD_DIM; d++)
                sums[d] +=
                    weight * (double)row_of(t, t->x, other)[2 * COLUMNS + head * HEAD_DIM + d];
        }
        for (uint32_t d = 0; d < HEAD_DIM; d++)
            expect_near(sums[d] / whole, row_of(t, t->out, row)[head * HEAD_DIM + d], 1e-4);
    }
}

static void test_patch_attention(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * OP_FIXTURE_TIERS; i++) {
        struct trial t;
        enum cpu_tier tier = op_fixture_tier(i / 2);
        if (!cpu_kernels_choose(tier))
            continue;
        begin_trial(&t);
        t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, 3 * COLUMNS);
        t.out = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, COLUMNS);
        struct plan_op op = op_of(OP_patch_attention, t.x, t.out);
        op.params.patch_attention = (struct patch_attention_params){
            {0, HEADS, HEAD_DIM}, COLUMNS, 2 * COLUMNS, i % 2 == 1, 2.0f};
        open_trial(&t, op, tier);
        fill(&t, t.x, t.vision.patches.rows);
        run(&t);
        for (uint32_t row = 0; row < t.vision.patches.rows; row++)
            check_attended(&t, i % 2 == 1, row);
        end_trial(&t);
    }
}

/* --- activations ------------------------------------------------------------------------------ */

static const struct xielu_params xielu = {0.8125f, 1.3125f, 0.5f, -1e-6f};

static double activated(enum activation activation, double x)
{
    switch (activation) {
    case ACTIVATION_XIELU:
        return (double)xielu.linear * x +
               (x > 0 ? (double)xielu.positive * x * x
                      : (double)xielu.negative * (expm1(fmin(x, (double)xielu.least)) - x));
    case ACTIVATION_SILU: return x / (1 + exp(-x));
    case ACTIVATION_GELU_QUICK: return x / (1 + exp(-1.702 * x));
    case ACTIVATION_RELU2: return x > 0 ? x * x : 0;
    case ACTIVATION_GELU_ERF: return 0.5 * x * (1 + erf(x / sqrt(2.0)));
    default: return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
    }
}

static void test_activate(void **state)
{
    (void)state;
    for (uint32_t a = 0; a <= ACTIVATION_XIELU; a++) {
        struct trial t;
        begin_trial(&t);
        t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, 2 * COLUMNS + 1);
        t.out = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, 2 * COLUMNS + 1);
        struct plan_op op = op_of(OP_activate, t.x, t.out);
        op.params.activate = (struct activate_params){(enum activation)a, xielu};
        open_trial(&t, op, CPU_TIER_BEST);
        uint32_t count = t.vision.patches.rows * (2 * COLUMNS + 1);
        fill(&t, t.x, t.vision.patches.rows);
        for (uint32_t i = 0; i < count; i++)
            row_of(&t, t.x, 0)[i] *= 6.0f;
        run(&t);
        for (uint32_t i = 0; i < count; i++)
            expect_near(activated((enum activation)a, (double)row_of(&t, t.x, 0)[i]),
                        row_of(&t, t.out, 0)[i], 1e-5);
        end_trial(&t);
    }
}

/* One bound is infinite; the output's columns follow each other in the middle of a wider tensor, or go apart. */
static void check_clip_columns(uint32_t stride)
{
    const uint32_t offset = 5, last = offset + stride * (COLUMNS - 1), wide = last + 4;
    struct trial t;
    begin_trial(&t);
    t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, COLUMNS);
    t.out = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, wide);
    struct plan_op op = op_of(OP_clip_columns, t.x, t.out);
    op.params.clip_columns = (struct clip_columns_params){
        .offset = offset, .minimum = -0.25f, .maximum = INFINITY, .stride = stride};
    open_trial(&t, op, CPU_TIER_BEST);
    fill(&t, t.x, t.vision.patches.rows);
    for (uint32_t i = 0; i < t.vision.patches.rows * wide; i++)
        row_of(&t, t.out, 0)[i] = 7.0f;
    run(&t);
    for (uint32_t r = 0; r < t.vision.patches.rows; r++) {
        for (uint32_t c = 0; c < wide; c++) {
            bool inside = c >= offset && c <= last && (c - offset) % stride == 0;
            float value = inside ? row_of(&t, t.x, r)[(c - offset) / stride] : 7.0f;
            assert_true(row_of(&t, t.out, r)[c] == (value < -0.25f ? -0.25f : value));
        }
    }
    end_trial(&t);
}

static void test_clip_columns(void **state)
{
    (void)state;
    check_clip_columns(1);
    check_clip_columns(3);
}

/* --- features --------------------------------------------------------------------------------- */

static void test_join_and_pool(void **state)
{
    (void)state;
    for (uint32_t pool = 0; pool < 2; pool++) {
        struct trial t;
        uint32_t square = MERGE * MERGE;
        begin_trial(&t);
        t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, COLUMNS);
        t.out = plan_sketch_tensor(t.sketch, PLAN_ROWS_FEATURES, pool ? COLUMNS : square * COLUMNS);
        struct plan_op op = op_of(pool ? OP_pool_rows : OP_join_rows, t.x, t.out);
        if (pool)
            op.params.pool_rows = (struct pool_rows_params){square, 0.25f};
        else
            op.params.join_rows.count = square;
        open_trial(&t, op, CPU_TIER_BEST);
        fill(&t, t.x, t.vision.patches.rows);
        run(&t);
        for (uint32_t f = 0; f < t.vision.patches.features; f++) {
            for (uint32_t c = 0; c < COLUMNS; c++) {
                double sum = 0;
                for (uint32_t i = 0; i < square; i++) {
                    float value = row_of(&t, t.x, f * square + i)[c];
                    sum += (double)value;
                    if (!pool)
                        assert_true(row_of(&t, t.out, f)[i * COLUMNS + c] == value);
                }
                if (pool)
                    expect_near(sum / 4, row_of(&t, t.out, f)[c], 1e-6);
            }
        }
        end_trial(&t);
    }
}

/* Features are written in the order of lines, whatever the windows are: of the first image's 3 x 2
 * squares the third in the tower's order is the first of the second line. */
static void test_feature_write(void **state)
{
    (void)state;
    static const uint32_t rows[] = {40, 41, 43, 44, 42, 45, 3, 4, 5, 6, 7, 8};
    struct trial t;
    begin_trial(&t);
    t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_FEATURES, COLUMNS);
    open_trial(&t, op_of(OP_feature_write, t.x, PLAN_NONE), CPU_TIER_BEST);
    fill(&t, t.x, t.vision.patches.features);
    run(&t);
    for (uint32_t f = 0; f < t.vision.patches.features; f++)
        assert_memory_equal(cpu_feature_pool_row(&t.vision.features, rows[f]), row_of(&t, t.x, f),
                            COLUMNS * sizeof(float));
    end_trial(&t);
}

/* Mosaics of one and two tiles, resized and not: each row is the mean of torch's samples between the
 * features around it, and the weight follows each line. Fills rows after the first tiles' 6 features. */
static void test_feature_place(void **state)
{
    (void)state;
    static const struct image_mosaic mosaics[] = {{1, 1, 2, 1, 1, 1}, {2, 1, 4, 3, 2, 2}};
    const uint32_t wide = 3, high = 2;
    struct trial t;
    begin_trial(&t);
    struct plan *plan = plan_sketch_plan(t.sketch);
    plan->vision.window_side = 0;
    plan->vision.mosaic = true;
    t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_FEATURES, COLUMNS);
    t.table = plan_sketch_weight(t.sketch, GGML_F32, 1, COLUMNS);
    struct plan_op op = op_of(OP_feature_place, t.x, PLAN_NONE);
    op.weights[0] = t.table;
    uint8_t *bytes = must_alloc(5 * 12 * 8 * 3, 1);
    for (uint32_t p = 0; p < 2; p++)
        t.images[p] = (struct encode_image){.shape = {p + 2, 12, 8, 1, 0},
                                            .mosaic = mosaics[p],
                                            .pixels = bytes,
                                            .scale = {1, 1, 1},
                                            .first_feature = p == 0 ? 40 : 3};
    open_trial(&t, op, CPU_TIER_BEST);
    fill(&t, t.x, t.vision.patches.features);
    run(&t);
    const float *newline = t.vision.program.vectors[t.table];
    for (uint32_t p = 0, first = 0; p < 2; first += (p + 2) * wide * high, p++) {
        const struct image_mosaic *m = &mosaics[p];
        uint32_t row = t.images[p].first_feature + wide * high;
        for (uint32_t y = 0; y < m->height; y++) {
            for (uint32_t x = 0; x <= m->width; x++, row++) {
                const float *found = cpu_feature_pool_row(&t.vision.features, row);
                for (uint32_t c = 0; c < COLUMNS; c++) {
                    double sum = 0, scale_y = (double)m->kept_height / m->height;
                    double scale_x = (double)m->kept_width / m->width;
                    for (uint32_t i = 0; i < m->kept_height * m->kept_width; i++) {
                        uint32_t line = i / m->kept_width, column = i % m->kept_width;
                        double at_y = fmax(0, (y + 0.5) * scale_y - 0.5);
                        double at_x = fmax(0, (x + 0.5) * scale_x - 0.5);
                        double weight =
                            fmax(0, 1 - fabs(at_y - line)) * fmax(0, 1 - fabs(at_x - column));
                        uint32_t top = (m->rows * high - m->kept_height) / 2 + line;
                        uint32_t left = (m->columns * wide - m->kept_width) / 2 + column;
                        uint32_t tile = 1 + top / high * m->columns + left / wide;
                        sum += weight * (double)row_of(&t, t.x,
                                                       first + tile * wide * high +
                                                           top % high * wide + left % wide)[c];
                    }
                    expect_near(x == m->width ? (double)newline[c] : sum, found[c], 1e-6);
                }
            }
        }
    }
    end_trial(&t);
    free(bytes);
}

/* Frames of two images: each op places the rows of its kind and leaves the others. */
static void test_framed_features(void **state)
{
    (void)state;
    const uint32_t wide = 3, high = 2, rows = 2 + high * (wide + 1);
    uint8_t *bytes = must_alloc(12 * 8 * 3, 1);
    for (uint32_t kind = 0; kind < FEATURE_FRAME_KINDS; kind++) {
        struct trial t;
        begin_trial(&t);
        struct plan *plan = plan_sketch_plan(t.sketch);
        plan->vision.window_side = 0;
        plan->vision.framed = true;
        t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_FEATURES, COLUMNS);
        struct plan_op op = op_of(OP_feature_place, t.x, PLAN_NONE);
        op.params.feature_place.kind = kind;
        for (uint32_t p = 0; p < 2; p++)
            t.images[p] = (struct encode_image){.shape = {1, 12, 8, 1, 0},
                                                .pixels = bytes,
                                                .scale = {1, 1, 1},
                                                .first_feature = p == 0 ? 20 : 3};
        open_trial(&t, op, CPU_TIER_BEST);
        fill(&t, t.x, t.vision.patches.features);
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t row = 0; row < rows; row++)
                cpu_feature_pool_row(&t.vision.features, t.images[p].first_feature + row)[0] = -7;
        run(&t);
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t row = 0; row < rows; row++) {
                const float *found =
                    cpu_feature_pool_row(&t.vision.features, t.images[p].first_feature + row);
                uint32_t line = (row - 1) / (wide + 1), column = (row - 1) % (wide + 1);
                enum feature_kind is = row == 0          ? FEATURE_BEFORE_IMAGE
                                       : row + 1 == rows ? FEATURE_AFTER_IMAGE
                                       : column == wide  ? FEATURE_AFTER_LINE
                                                         : FEATURE_OF_SQUARE;
                uint32_t feature = p * wide * high;
                if (is == FEATURE_OF_SQUARE)
                    feature += line * wide + column;
                if (is == kind)
                    assert_memory_equal(found, row_of(&t, t.x, feature), COLUMNS * sizeof(float));
                else
                    assert_true(found[0] == -7);
            }
        end_trial(&t);
    }
    free(bytes);
}

/* Tiles of five by five patches, of which an image has two, the other three. */
static uint8_t *begin_lined(struct trial *t)
{
    static const struct image_mosaic mosaics[] = {{1, 1, 3, 3, 3, 3}, {2, 1, 6, 3, 6, 3}};
    uint8_t *bytes = must_alloc(3 * 5 * SIDE * 5 * SIDE * 3, 1);
    begin_trial(t);
    struct model_vision *vision = &plan_sketch_plan(t->sketch)->vision;
    vision->window_side = vision->max_side = 0;
    vision->merge_side = 1;
    vision->fixed_side = 5;
    vision->join_side = 2;
    vision->mosaic = vision->lined = true;
    for (uint32_t p = 0; p < 2; p++)
        t->images[p] = (struct encode_image){.shape = {p + 2, 5 * SIDE, 5 * SIDE, 1, 0},
                                             .mosaic = mosaics[p],
                                             .pixels = bytes,
                                             .scale = {1, 1, 1},
                                             .first_feature = p == 0 ? 40 : 3};
    return bytes;
}

/* Nine squares of two by two patches for each tile, with zeros for patches in a sixth line or column, and rows of zeros
 * after them. */
static void test_join_padded(void **state)
{
    (void)state;
    struct trial t;
    uint8_t *bytes = begin_lined(&t);
    t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, COLUMNS);
    t.out = plan_sketch_tensor(t.sketch, PLAN_ROWS_FEATURES, 4 * COLUMNS);
    struct plan_op op = op_of(OP_join_padded, t.x, t.out);
    op.params.join_padded = (struct join_padded_params){5, 2};
    open_trial(&t, op, CPU_TIER_BEST);
    assert_int_equal(t.vision.patches.rows, 5 * 25);
    assert_int_equal(t.vision.patches.features, 5 * 25);
    fill(&t, t.x, t.vision.patches.rows);
    run(&t);
    for (uint32_t f = 0; f < 5 * 25; f++)
        for (uint32_t i = 0; i < 4 * COLUMNS; i++) {
            uint32_t tile = f / 25, square = f % 25, part = i / COLUMNS;
            uint32_t y = 2 * (square / 3) + part / 2, x = 2 * (square % 3) + part % 2;
            float wanted = square < 9 && y < 5 && x < 5
                               ? row_of(&t, t.x, 25 * tile + 5 * y + x)[i % COLUMNS]
                               : 0.0f;
            assert_true(row_of(&t, t.out, f)[i] >= wanted && row_of(&t, t.out, f)[i] <= wanted);
        }
    end_trial(&t);
    free(bytes);
}

/* The first tile's three lines of three features, a learned row after each, another one, then the mosaic's lines, likewise.
 * Each op places the rows of its kind. */
static void test_lined_mosaics(void **state)
{
    (void)state;
    for (uint32_t between = 0; between < 2; between++) {
        struct trial t;
        uint8_t *bytes = begin_lined(&t);
        t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_FEATURES, COLUMNS);
        t.table = plan_sketch_weight(t.sketch, GGML_F32, 1, COLUMNS);
        struct plan_op op = op_of(OP_feature_place, t.x, PLAN_NONE);
        op.weights[0] = t.table;
        op.params.feature_place.kind = between ? FEATURE_BETWEEN_VIEWS : FEATURE_OF_SQUARE;
        open_trial(&t, op, CPU_TIER_BEST);
        fill(&t, t.x, t.vision.patches.features);
        const float *learned = t.vision.program.vectors[t.table];
        for (uint32_t p = 0; p < 2; p++) {
            uint32_t row = t.images[p].first_feature, rows = 13 + (p + 1) * 3 * 4;
            for (uint32_t i = 0; i < rows; i++)
                cpu_feature_pool_row(&t.vision.features, row + i)[0] = -7;
        }
        run(&t);
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t i = 0; i < 13 + (p + 1) * 3 * 4; i++) {
                const float *found =
                    cpu_feature_pool_row(&t.vision.features, t.images[p].first_feature + i);
                uint32_t at = i < 12 ? i : i - 13, line = at / 4, column = at % 4;
                uint32_t tile = (p == 0 ? 0 : 2) + (i < 12 ? 0 : 1 + line / 3);
                const float *wanted =
                    column == 3 ? learned : row_of(&t, t.x, 25 * tile + line % 3 * 3 + column);
                if ((i == 12) != (between == 1))
                    assert_true(found[0] <= -7 && found[0] >= -7);
                else
                    assert_memory_equal(found, i == 12 ? learned : wanted, COLUMNS * sizeof(float));
            }
        end_trial(&t);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patch_rows),      cmocka_unit_test(test_patch_positions),
        cmocka_unit_test(test_patch_attention), cmocka_unit_test(test_activate),
        cmocka_unit_test(test_join_and_pool),   cmocka_unit_test(test_feature_write),
        cmocka_unit_test(test_feature_place),   cmocka_unit_test(test_framed_features),
        cmocka_unit_test(test_clip_columns),    cmocka_unit_test(test_lead_row),
        cmocka_unit_test(test_join_padded),     cmocka_unit_test(test_lined_mosaics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
