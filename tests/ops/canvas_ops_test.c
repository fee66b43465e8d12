/*
 * Rows of canvases (model_vision.h) on the CPU: their order and pixels, the rows of tables that they get, and which of
 * them attend to which, against the formulas. Two images in one batch, of two squares and of one, of at most three.
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

#define SIDE      2u /* of a patch, pixels */
#define CANVAS    2u /* of a square, patches */
#define TILES     3u
#define COLUMNS   300u /* more than are read at a time */
#define HEADS     2u
#define HEAD_DIM  6u
#define TILE_ROWS (CANVAS * CANVAS + 1)
#define PAD_ROWS  3u /* up to 8 */
#define ROWS      (TILES * (TILE_ROWS + PAD_ROWS))
#define PIXELS    (SIDE * CANVAS)

struct trial {
    struct plan_sketch *sketch;
    struct thread_pool *pool;
    struct cpu_image_encoder vision;
    plan_tensor_id pixels, x, out;
    uint8_t bytes[2][3 * 2 * PIXELS * PIXELS];
    struct encode_image images[2];
};

/* Two squares, one below the other, and one. The canvases of three are 1 x 1, 1 x 2, 1 x 3, 2 x 1 and 3 x 1. */
static const struct image_shape shapes[2] = {{1, PIXELS, 2 * PIXELS, 1, 0},
                                             {1, PIXELS, PIXELS, 1, 0}};
static const uint32_t aspects[2] = {4, 1}, seen[2] = {2 * TILE_ROWS, TILE_ROWS};

static void begin_trial(struct trial *t)
{
    *t = (struct trial){.sketch = plan_sketch_create(11)};
    plan_sketch_plan(t->sketch)->vision = (struct model_vision){.patch_side = SIDE,
                                                                .merge_side = 1,
                                                                .canvas_side = CANVAS,
                                                                .canvas_tiles = TILES,
                                                                .hidden = COLUMNS,
                                                                .text_hidden = COLUMNS,
                                                                .stages = 1};
    t->pixels = plan_sketch_tensor(t->sketch, PLAN_ROWS_PATCHES, 3 * SIDE * SIDE);
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t i = 0; i < sizeof t->bytes[p]; i++)
            t->bytes[p][i] = (uint8_t)(1 + (i * 37 + p) % 250);
        t->images[p] = (struct encode_image){.shape = shapes[p],
                                             .pixels = t->bytes[p],
                                             .scale = {1, 1, 1},
                                             .first_feature = p == 0 ? 20 : 2};
    }
}

static void run_trial(struct trial *t, struct plan_op op, bool fills)
{
    struct error_text error = {""};
    struct plan *plan = plan_sketch_plan(t->sketch);
    plan_sketch_stages(t->sketch, t->pixels, 1, op);
    const struct backend_options options = {
        .vision = plan, .max_patch_rows = 2 * ROWS, .feature_rows = 20 + TILES * TILE_ROWS};
    must(thread_pool_create(2, &t->pool, &error) == RESULT_OK);
    must(cpu_image_encoder_init(&t->vision, &options, cpu_kernels_choose(CPU_TIER_BEST), t->pool,
                                NULL, NULL, &error) == RESULT_OK);
    cpu_image_encoder_begin(&t->vision, &(const struct encode_batch){2, t->images});
    uint32_t columns = t->vision.program.tensors[t->x].columns;
    for (uint32_t i = 0; fills && i < 2 * ROWS * columns; i++)
        cpu_step_row(&t->vision.step, t->x, 0)[i] = plan_sketch_uniform(t->sketch);
}

static void end_trial(struct trial *t)
{
    cpu_image_encoder_fini(&t->vision);
    thread_pool_destroy(t->pool);
    plan_sketch_destroy(t->sketch);
}

static void run(struct trial *t)
{
    while (cpu_image_encoder_run(&t->vision, 1) > 0)
        continue;
}

static const float *row_of(const struct trial *t, plan_tensor_id tensor, uint32_t row)
{
    return cpu_step_row(&t->vision.step, tensor, row);
}

static void expect_near(double expected, float found, double most)
{
    if (!(fabs(expected - (double)found) <= most))
        fail_msg("%g, not %g", (double)found, expected);
}

/* What row `at` of an image is: its square, and its place there, TILE_ROWS for padding. */
static void place_of(uint32_t at, uint32_t *tile, uint32_t *place)
{
    bool pads = at >= TILES * TILE_ROWS;
    *tile = pads ? (at - TILES * TILE_ROWS) / PAD_ROWS : at / TILE_ROWS;
    *place = pads ? TILE_ROWS : at % TILE_ROWS;
}

static float pixel_at(const struct trial *t, uint32_t p, uint32_t at, uint32_t i)
{
    uint32_t tile, place;
    place_of(at, &tile, &place);
    if (place == 0 || place == TILE_ROWS || tile >= shapes[p].height / PIXELS)
        return 0.0f;
    uint32_t channel = i / (SIDE * SIDE), pixel = i % (SIDE * SIDE);
    uint32_t y = tile * PIXELS + (place - 1) / CANVAS * SIDE + pixel / SIDE;
    uint32_t x = (place - 1) % CANVAS * SIDE + pixel % SIDE;
    return (float)t->bytes[p][(y * PIXELS + x) * 3 + channel];
}

static void test_order_and_pixels(void **state)
{
    (void)state;
    struct trial t;
    begin_trial(&t);
    t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, COLUMNS);
    run_trial(&t,
              (struct plan_op){.stem = OP_activate,
                               .inputs = {t.x, PLAN_NONE},
                               .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                               .output = t.x},
              true);
    const struct image_patches *patches = &t.vision.patches;
    run(&t);
    assert_int_equal(patches->rows, 2 * ROWS);
    assert_int_equal(patches->features, 2 * ROWS);
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t at = 0; at < ROWS; at++) {
            uint32_t feature = patches->feature_rows[p * ROWS + at];
            bool pads = at >= TILES * TILE_ROWS;
            assert_int_equal(feature, pads ? PATCH_FEATURE_NONE : t.images[p].first_feature + at);
            for (uint32_t i = 0; i < 3 * SIDE * SIDE; i++)
                expect_near((double)pixel_at(&t, p, at, i), row_of(&t, t.pixels, p * ROWS + at)[i],
                            1e-6);
        }
    }
    end_trial(&t);
}

/* x += scale * the table's row, of each of the params' forms. */
static void check_table(struct patch_table_params params)
{
    struct trial t;
    uint32_t count = (params.tiles ? 6 * TILES : 1) * (params.places > 0 ? TILE_ROWS : 1);
    static float before[2 * ROWS][COLUMNS];
    float values[COLUMNS];
    begin_trial(&t);
    t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, COLUMNS);
    plan_weight_id table = plan_sketch_weight(t.sketch, GGML_F32, count, COLUMNS);
    run_trial(&t,
              (struct plan_op){.stem = OP_patch_table,
                               .inputs = {t.x, PLAN_NONE},
                               .weights = {table, PLAN_NONE, PLAN_NONE},
                               .output = t.x,
                               .params.patch_table = params},
              true);
    memcpy(before, row_of(&t, t.x, 0), sizeof before);
    run(&t);
    for (uint32_t row = 0; row < 2 * ROWS; row++) {
        uint32_t tile, place, p = row / ROWS, at;
        place_of(row % ROWS, &tile, &place);
        at = params.tiles ? aspects[p] * TILES + tile : 0;
        at = params.places > 0 ? at * TILE_ROWS + place : at;
        bool takes = place == TILE_ROWS ? params.pads : place == 0 ? params.leads : params.patches;
        plan_sketch_weight_row(t.sketch, table, takes ? at : 0, values);
        for (uint32_t c = 0; c < COLUMNS; c++)
            expect_near((double)before[row][c] +
                            (takes ? (double)params.scale * (double)values[c] : 0),
                        row_of(&t, t.x, row)[c], 1e-6);
    }
    end_trial(&t);
}

static void test_tables(void **state)
{
    (void)state;
    check_table((struct patch_table_params){.scale = 1.0f, .leads = true});
    check_table((struct patch_table_params){.scale = -0.5f, .tiles = true, .patches = true});
    check_table((struct patch_table_params){
        .scale = 0.25f, .places = TILE_ROWS, .leads = true, .patches = true});
    check_table((struct patch_table_params){
        .scale = 0.75f, .tiles = true, .places = TILE_ROWS, .leads = true, .patches = true});
    check_table((struct patch_table_params){
        .scale = 2.0f, .tiles = true, .leads = true, .patches = true, .pads = true});
}

/* Rows of squares with pixels attend to all of their image, others to those. */
static void test_attention(void **state)
{
    (void)state;
    const uint32_t wide = HEADS * HEAD_DIM;
    struct trial t;
    begin_trial(&t);
    t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, 3 * wide);
    t.out = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, wide);
    run_trial(&t,
              (struct plan_op){
                  .stem = OP_patch_attention,
                  .inputs = {t.x, PLAN_NONE},
                  .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                  .output = t.out,
                  .params.patch_attention = {{0, HEADS, HEAD_DIM}, wide, 2 * wide, false, 1.5f}},
              true);
    run(&t);
    for (uint32_t row = 0; row < 2 * ROWS; row++) {
        uint32_t p = row / ROWS, first = p * ROWS;
        uint32_t end = row % ROWS < seen[p] ? ROWS : seen[p];
        for (uint32_t c = 0; c < wide; c++) {
            uint32_t head = c / HEAD_DIM;
            double sum = 0, whole = 0;
            for (uint32_t other = first; other < first + end; other++) {
                double score = 0;
                for (uint32_t d = head * HEAD_DIM; d < (head + 1) * HEAD_DIM; d++)
                    score +=
                        (double)row_of(&t, t.x, row)[d] * (double)row_of(&t, t.x, other)[wide + d];
                double weight = exp(1.5 * score);
                whole += weight;
                sum += weight * (double)row_of(&t, t.x, other)[2 * wide + c];
            }
            expect_near(sum / whole, row_of(&t, t.out, row)[c], 1e-4);
        }
    }
    end_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_and_pixels),
                                       cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_attention)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
