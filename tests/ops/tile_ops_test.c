/*
 * The ops over the tiles of towers of two resolutions (SAM, then CLIP) against their formulas in double precision: tiles of
 * two shapes that begin with a lead row, squares of two by two patches, windows that reach beyond a tile.
 *
 * Runs as patch_ops_test.c: a sketched tower of one op, whose input the test writes.
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
#include "worker/plan/plan_check.h"

#define SIDE     2u /* of a patch, pixels */
#define MERGE    2u
#define SQUARE   (MERGE * MERGE)
#define MOST     6u /* patches of a tile's side */
#define COLUMNS  36u
#define HEADS    3u
#define HEAD_DIM 12u
#define WINDOW   3u
#define TABLE    5u
#define ROWS_MAX 256u

struct trial {
    struct plan_sketch *sketch;
    struct thread_pool *pool;
    struct cpu_image_encoder vision;
    plan_tensor_id pixels, x, out;
    uint8_t bytes[3 * 3 * SIDE * MOST * SIDE * MOST];
    struct encode_image images[2];
};

/* One tile of 6 x 4 patches and two of 2 x 6. */
static void begin_trial(struct trial *t)
{
    static const struct image_shape shapes[] = {{1, 12, 8, 1, 0}, {2, 4, 12, 1, 0}};
    *t = (struct trial){.sketch = plan_sketch_create(9)};
    plan_sketch_plan(t->sketch)->vision = (struct model_vision){.patch_side = SIDE,
                                                                .merge_side = MERGE,
                                                                .max_side = MOST,
                                                                .lead_row = true,
                                                                .hidden = COLUMNS,
                                                                .text_hidden = COLUMNS,
                                                                .stages = 1};
    t->pixels = plan_sketch_tensor(t->sketch, PLAN_ROWS_PATCHES, 3 * SIDE * SIDE);
    for (uint32_t p = 0; p < 2; p++)
        t->images[p] = (struct encode_image){.shape = shapes[p],
                                             .pixels = t->bytes,
                                             .scale = {1, 1, 1},
                                             .first_feature = p == 0 ? 40 : 3};
}

static void open_trial(struct trial *t, struct plan_op op, enum cpu_tier tier)
{
    struct error_text error = {""};
    struct plan *plan = plan_sketch_plan(t->sketch);
    plan_sketch_stages(t->sketch, t->pixels, 1, op);
    if (plan_op_check(plan, &op, 1, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    const struct backend_options options = {
        .vision = plan, .max_patch_rows = ROWS_MAX, .feature_rows = ROWS_MAX};
    must(thread_pool_create(2, &t->pool, &error) == RESULT_OK);
    must(cpu_image_encoder_init(&t->vision, &options, cpu_kernels_choose(tier), t->pool, NULL, NULL,
                                &error) == RESULT_OK);
    cpu_image_encoder_begin(&t->vision, &(const struct encode_batch){2, t->images});
}

static void end_trial(struct trial *t)
{
    cpu_image_encoder_fini(&t->vision);
    thread_pool_destroy(t->pool);
    plan_sketch_destroy(t->sketch);
}

static float *row_of(const struct trial *t, plan_tensor_id tensor, uint32_t row)
{
    return cpu_step_row(&t->vision.step, tensor, row);
}

static void fill_and_run(struct trial *t)
{
    uint32_t columns = t->vision.program.tensors[t->x].columns;
    bool features = t->vision.program.tensors[t->x].rows == PLAN_ROWS_FEATURES;
    uint32_t rows = features ? t->vision.patches.features : t->vision.patches.rows;
    for (uint32_t i = 0; i < rows * columns; i++)
        row_of(t, t->x, 0)[i] = plan_sketch_uniform(t->sketch);
    for (uint32_t i = 0; i < rows * columns / 3 && t->out != t->x; i++)
        row_of(t, t->out, 0)[i] = 7.0f;
    while (cpu_image_encoder_run(&t->vision, 1) > 0)
        continue;
}

static struct plan_op op_of(enum op_stem stem, const struct trial *t)
{
    return (struct plan_op){.stem = stem,
                            .inputs = {t->x, PLAN_NONE},
                            .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                            .output = t->out};
}

static void expect_near(double expected, float found, double most)
{
    if (!(fabs(expected - (double)found) <= most))
        fail_msg("%g, not %g", (double)found, expected);
}

/* The row of a patch in the same tile as patch row `row`; ROWS_MAX beyond the tile. */
static uint32_t neighbour(const struct trial *t, uint32_t row, int32_t y, int32_t x)
{
    const struct image_patches *patches = &t->vision.patches;
    for (uint32_t r = 0; r < patches->rows; r++) {
        const struct patch_place *place = &patches->places[r];
        if (!place->lead && place->tile == patches->places[row].tile && (int32_t)place->y == y &&
            (int32_t)place->x == x)
            return r;
    }
    return ROWS_MAX;
}

/* --- tile_attention --------------------------------------------------------------------------- */

/* Column `d` of a table that is resized to 2 * n - 1 rows. */
static double resized(const struct trial *t, plan_weight_id table, uint32_t rows, uint32_t n,
                      int32_t row, uint32_t d)
{
    float low[HEAD_DIM], high[HEAD_DIM];
    double where = fmax(0, (row + 0.5) * rows / (2 * n - 1) - 0.5);
    uint32_t first = (uint32_t)where;
    plan_sketch_weight_row(t->sketch, table, first, low);
    plan_sketch_weight_row(t->sketch, table, first + 1 < rows ? first + 1 : first, high);
    return (double)low[d] + (where - first) * ((double)high[d] - (double)low[d]);
}

struct attended {
    double whole;
    double sums[HEAD_DIM];
};

/* Adds a key and value; `bias` is that of the position. */
static void add_key(struct attended *sum, const float *query, const float *qkv, uint32_t head,
                    double bias)
{
    double score = 0;
    for (uint32_t d = 0; d < HEAD_DIM; d++)
        score += (double)query[d] * (double)qkv[COLUMNS + head * HEAD_DIM + d];
    double weight = exp(0.5 * score + bias);
    sum->whole += weight;
    for (uint32_t d = 0; d < HEAD_DIM; d++)
        sum->sums[d] += weight * (double)qkv[2 * COLUMNS + head * HEAD_DIM + d];
}

static void check_patch(const struct trial *t, const struct plan_op *op, uint32_t row,
                        uint32_t head)
{
    const struct patch_place *place = &t->vision.patches.places[row];
    const struct patch_tile *tile = &t->vision.patches.tiles[place->tile];
    const float *query = row_of(t, t->x, row) + head * HEAD_DIM;
    const float *pad = t->vision.program.vectors[op->weights[2]];
    uint32_t window = op->params.tile_attention.window;
    uint32_t top = window ? place->y / window * window : 0,
             left = window ? place->x / window * window : 0;
    uint32_t high = window ? window : tile->height, wide = window ? window : tile->width;
    struct attended sum = {0};
    for (uint32_t p = 0; p < high * wide; p++) {
        uint32_t y = top + p / wide, x = left + p % wide;
        uint32_t other = neighbour(t, row, (int32_t)y, (int32_t)x);
        double bias = 0;
        for (uint32_t d = 0; d < HEAD_DIM; d++)
            bias += (double)query[d] * (resized(t, op->weights[0], TABLE, high,
                                                (int32_t)(place->y + high - 1 - y), d) +
                                        resized(t, op->weights[1], TABLE + 4, wide,
                                                (int32_t)(place->x + wide - 1 - x), d));
        add_key(&sum, query, other == ROWS_MAX ? pad : row_of(t, t->x, other), head, bias);
    }
    for (uint32_t d = 0; d < HEAD_DIM; d++)
        expect_near(place->lead ? 0 : sum.sums[d] / sum.whole,
                    row_of(t, t->out, row)[head * HEAD_DIM + d], 2e-5);
}

static void test_patches_attend(void **state)
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
        struct plan_op op = op_of(OP_tile_attention, &t);
        op.weights[0] = plan_sketch_weight(t.sketch, GGML_F32, TABLE, HEAD_DIM);
        op.weights[1] = plan_sketch_weight(t.sketch, GGML_F32, TABLE + 4, HEAD_DIM);
        op.weights[2] = plan_sketch_weight(t.sketch, GGML_F32, 1, 3 * COLUMNS);
        op.params.tile_attention = (struct tile_attention_params){
            {0, HEADS, HEAD_DIM}, COLUMNS, 2 * COLUMNS, i % 2 ? WINDOW : 0, 0.5f};
        open_trial(&t, op, tier);
        fill_and_run(&t);
        assert_int_equal(t.vision.patches.rows, 24 + 2 * 12 + 3 * SQUARE);
        for (uint32_t row = 0; row < t.vision.patches.rows; row++)
            for (uint32_t head = 0; head < HEADS; head++)
                check_patch(&t, &op, row, head);
        end_trial(&t);
    }
}

/* A tile's features and its lead row attend to each other. */
static void test_features_attend(void **state)
{
    (void)state;
    struct trial t;
    begin_trial(&t);
    t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_FEATURES, 3 * COLUMNS);
    t.out = plan_sketch_tensor(t.sketch, PLAN_ROWS_FEATURES, COLUMNS);
    struct plan_op op = op_of(OP_tile_attention, &t);
    op.params.tile_attention =
        (struct tile_attention_params){{0, HEADS, HEAD_DIM}, COLUMNS, 2 * COLUMNS, 0, 0.5f};
    open_trial(&t, op, CPU_TIER_BEST);
    fill_and_run(&t);
    const struct image_patches *patches = &t.vision.patches;
    assert_int_equal(patches->features, 7 + 2 * 4);
    for (uint32_t f = 0; f < patches->features * HEADS; f++) {
        uint32_t row = f / HEADS, head = f % HEADS;
        struct attended sum = {0};
        for (uint32_t other = 0; other < patches->features; other++)
            if (patches->places[other * SQUARE].tile == patches->places[row * SQUARE].tile)
                add_key(&sum, row_of(&t, t.x, row) + head * HEAD_DIM, row_of(&t, t.x, other), head,
                        0);
        for (uint32_t d = 0; d < HEAD_DIM; d++)
            expect_near(sum.sums[d] / sum.whole, row_of(&t, t.out, row)[head * HEAD_DIM + d], 2e-5);
    }
    end_trial(&t);
}

/* --- neighbour_rows --------------------------------------------------------------------------- */

static void test_neighbour_rows(void **state)
{
    (void)state;
    for (uint32_t features = 0; features < 2; features++) {
        struct trial t;
        begin_trial(&t);
        t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_PATCHES, COLUMNS);
        t.out = plan_sketch_tensor(t.sketch, features ? PLAN_ROWS_FEATURES : PLAN_ROWS_PATCHES,
                                   NEIGHBOURS * COLUMNS);
        struct plan_op op = op_of(OP_neighbour_rows, &t);
        int32_t step = features ? 2 : 1;
        op.params.neighbour_rows.step = (uint32_t)step;
        open_trial(&t, op, CPU_TIER_BEST);
        fill_and_run(&t);
        const struct image_patches *patches = &t.vision.patches;
        uint32_t rows = features ? patches->features : patches->rows;
        for (uint32_t r = 0; r < rows * NEIGHBOURS; r++) {
            uint32_t row = r / NEIGHBOURS * (features ? SQUARE : 1), tap = r % NEIGHBOURS;
            const struct patch_place *place = &patches->places[row];
            uint32_t from = neighbour(&t, row, (int32_t)place->y + ((int32_t)(tap / 3) - 1) * step,
                                      (int32_t)place->x + ((int32_t)(tap % 3) - 1) * step);
            const float *found = row_of(&t, t.out, r / NEIGHBOURS) + tap * COLUMNS;
            for (uint32_t c = 0; c < COLUMNS; c++)
                expect_near(place->lead || from == ROWS_MAX ? 0 : (double)row_of(&t, t.x, from)[c],
                            found[c], 0);
        }
        end_trial(&t);
    }
}

/* --- positions -------------------------------------------------------------------------------- */

/* Keys' kernel, a = -0.5. */
static double convolution(double distance)
{
    double d = fabs(distance), a = -0.5;
    if (d <= 1)
        return (a + 2) * pow(d, 3) - (a + 3) * pow(d, 2) + 1;
    return d < 2 ? a * pow(d, 3) - 5 * a * pow(d, 2) + 8 * a * d - 4 * a : 0;
}

static double axis_weight(uint32_t at, uint32_t count, uint32_t row)
{
    double share = (double)TABLE / count;
    return convolution(((at + 0.5) * share - 0.5 - row) / fmax(share, 1));
}

/* A table of five by five rows over tiles of more and of fewer patches, or features after a first row. */
static void test_resized_positions(void **state)
{
    (void)state;
    for (uint32_t features = 0; features < 2; features++) {
        static float before[ROWS_MAX][COLUMNS], table[TABLE * TABLE + 1][COLUMNS], lead[COLUMNS];
        struct trial t;
        uint32_t unit = features ? MERGE : 1;
        begin_trial(&t);
        t.x = t.out = plan_sketch_tensor(
            t.sketch, features ? PLAN_ROWS_FEATURES : PLAN_ROWS_PATCHES, COLUMNS);
        struct plan_op op = op_of(OP_patch_positions, &t);
        op.weights[0] = plan_sketch_weight(t.sketch, GGML_F32, TABLE * TABLE + features, COLUMNS);
        for (uint32_t r = 0; r < TABLE * TABLE + features; r++)
            plan_sketch_weight_row(t.sketch, op.weights[0], r, table[r]);
        if (features) {
            op.weights[1] = plan_sketch_weight(t.sketch, GGML_F32, 1, COLUMNS);
            plan_sketch_weight_row(t.sketch, op.weights[1], 0, lead);
        }
        op.params.patch_positions =
            (struct patch_positions_params){POSITIONS_CUBIC_AVERAGED, TABLE, features == 1};
        open_trial(&t, op, CPU_TIER_BEST);
        const struct image_patches *patches = &t.vision.patches;
        uint32_t rows = features ? patches->features : patches->rows;
        memset(row_of(&t, t.x, 0), 0, rows * sizeof before[0]);
        fill_and_run(&t);
        memcpy(before, row_of(&t, t.x, 0), rows * sizeof before[0]);
        cpu_image_encoder_begin(&t.vision, &(const struct encode_batch){2, t.images});
        while (cpu_image_encoder_run(&t.vision, 1) > 0)
            continue;
        for (uint32_t r = 0; r < rows; r++) {
            const struct patch_place *place = &patches->places[r * unit * unit];
            const struct patch_tile *tile = &patches->tiles[place->tile];
            for (uint32_t c = 0; c < COLUMNS; c++) {
                double sum = 0, all = 0;
                for (uint32_t i = 0; i < TABLE * TABLE; i++) {
                    double weight = axis_weight(place->y / unit, tile->height / unit, i / TABLE) *
                                    axis_weight(place->x / unit, tile->width / unit, i % TABLE);
                    sum += weight * (double)table[i + features][c];
                    all += weight;
                }
                double wanted = (double)before[r][c] + (place->lead ? 0 : sum / all);
                if (place->lead && features)
                    wanted = (double)lead[c] + (double)table[0][c];
                expect_near(wanted, row_of(&t, t.x, r)[c], 1e-5);
            }
        }
        end_trial(&t);
    }
}

/* --- views ------------------------------------------------------------------------------------ */

/* The second image's two tiles side by side as lines of two features, and a learned row after each; the first one's tile
 * with one more learned row after it. */
static void test_split_views(void **state)
{
    (void)state;
    for (uint32_t between = 0; between < 2; between++) {
        struct trial t;
        begin_trial(&t);
        struct model_vision *vision = &plan_sketch_plan(t.sketch)->vision;
        vision->mosaic = vision->split_views = true;
        t.images[1].mosaic = (struct image_mosaic){1, 2, 3, 2, 3, 2};
        t.x = plan_sketch_tensor(t.sketch, PLAN_ROWS_FEATURES, COLUMNS);
        t.out = PLAN_NONE;
        struct plan_op op = op_of(OP_feature_place, &t);
        op.weights[0] = plan_sketch_weight(t.sketch, GGML_F32, 1, COLUMNS);
        op.params.feature_place.kind = between ? FEATURE_BETWEEN_VIEWS : FEATURE_OF_SQUARE;
        open_trial(&t, op, CPU_TIER_BEST);
        for (uint32_t i = 0; i < t.vision.patches.features * COLUMNS; i++)
            row_of(&t, t.x, 0)[i] = plan_sketch_uniform(t.sketch);
        for (uint32_t row = 0; row < 60; row++)
            cpu_feature_pool_row(&t.vision.features, row)[0] = -7;
        while (cpu_image_encoder_run(&t.vision, 1) > 0)
            continue;
        const float *learned = t.vision.program.vectors[op.weights[0]];
        for (uint32_t i = 0; i < 9 + 9; i++) {
            uint32_t wide = i < 9 ? 3 : 2, at = i < 9 ? i : i - 9;
            uint32_t line = at / (wide + 1), column = at % (wide + 1);
            const float *found =
                cpu_feature_pool_row(&t.vision.features, i < 9 ? 40 + i : 3 + i - 9);
            uint32_t feature = i < 9 ? 1 + line * 3 + column : 7 + 1 + 4 * column + line;
            const float *wanted = column == wide || i == 8 ? learned : row_of(&t, t.x, feature);
            if ((i == 8) != (between == 1))
                expect_near(-7, found[0], 0);
            else
                assert_memory_equal(found, wanted, COLUMNS * sizeof(float));
        }
        end_trial(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patches_attend), cmocka_unit_test(test_features_attend),
        cmocka_unit_test(test_neighbour_rows), cmocka_unit_test(test_resized_positions),
        cmocka_unit_test(test_split_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
