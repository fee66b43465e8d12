/*
 * The ops of towers that hear against their formulas: two sounds in one batch, of odd and of even rows.
 * As in patch_ops_test.c, a sketched tower of one op runs; its input is written by the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "tests/support/op_fixture.h"
#include "worker/backend/cpu/cpu_image_encoder.h"

#define MELS     5u
#define COLUMNS  7u
#define TABLE    12u
#define ROWS_MAX 64u
#define SOUNDS   2u

static const uint32_t mel_rows[SOUNDS] = {2 * 7 + 1, 2 * 4 + 1}; /* the tower has 7 and 4 rows */

struct trial {
    struct plan_sketch *sketch;
    struct thread_pool *pool;
    struct cpu_image_encoder encoder;
    plan_tensor_id rows, x, out;
    plan_weight_id table;
    float values[SOUNDS][2 * TABLE + 1][MELS];
    struct encode_image sounds[SOUNDS];
};

static struct plan_op op_of(enum op_stem stem, plan_tensor_id x, plan_tensor_id out)
{
    return (struct plan_op){.stem = stem,
                            .inputs = {x, PLAN_NONE},
                            .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                            .output = out};
}

static void begin_trial(struct trial *t)
{
    *t = (struct trial){.sketch = plan_sketch_create(9)};
    struct plan *plan = plan_sketch_plan(t->sketch);
    plan->vision = (struct model_vision){.mels = MELS,
                                         .sound_rows = TABLE,
                                         .patch_side = 1,
                                         .merge_side = 1,
                                         .hidden = COLUMNS,
                                         .text_hidden = COLUMNS,
                                         .stages = 1};
    t->rows = plan_sketch_tensor(t->sketch, PLAN_ROWS_PATCHES, SOUND_TAPS * MELS);
    t->x = plan_sketch_tensor(t->sketch, PLAN_ROWS_PATCHES, COLUMNS);
    t->out = plan_sketch_tensor(t->sketch, PLAN_ROWS_PATCHES, SOUND_TAPS * COLUMNS);
    t->table = plan_sketch_weight(t->sketch, GGML_F32, TABLE, COLUMNS);
    for (uint32_t s = 0; s < SOUNDS; s++) {
        for (uint32_t at = 0; at < mel_rows[s]; at++)
            for (uint32_t mel = 0; mel < MELS; mel++)
                t->values[s][at][mel] = plan_sketch_uniform(t->sketch);
        t->sounds[s] = (struct encode_image){
            .shape = {.tiles = 1, .width = MELS, .height = mel_rows[s], .sound = 1},
            .pixels = (const uint8_t *)t->values[s],
            .first_feature = s == 0 ? 20 : 3};
    }
}

/* The first stage is sound_rows of `tap`, the second the op. */
static void open_trial(struct trial *t, uint32_t tap, struct plan_op op)
{
    struct error_text error = {""};
    struct plan *plan = plan_sketch_plan(t->sketch);
    struct plan_op rows = op_of(OP_sound_rows, PLAN_NONE, t->rows);
    rows.params.sound_rows.tap = tap;
    plan_sketch_append(t->sketch, rows);
    plan_sketch_append(t->sketch, op);
    plan->logits = PLAN_NONE;
    plan->stage_ends[0] = 1;
    plan->stage_ends[1] = 2;
    const struct backend_options options = {
        .vision = plan, .max_patch_rows = ROWS_MAX, .feature_rows = ROWS_MAX};
    must(thread_pool_create(2, &t->pool, &error) == RESULT_OK);
    must(cpu_image_encoder_init(&t->encoder, &options, cpu_kernels_choose(CPU_TIER_BEST), t->pool,
                                NULL, NULL, &error) == RESULT_OK);
    cpu_image_encoder_begin(&t->encoder, &(const struct encode_batch){SOUNDS, t->sounds});
}

static float *row_of(const struct trial *t, plan_tensor_id tensor, uint32_t row)
{
    return cpu_step_row(&t->encoder.step, tensor, row);
}

static void fill(struct trial *t, plan_tensor_id tensor, uint32_t columns)
{
    for (uint32_t i = 0; i < t->encoder.patches.rows * columns; i++)
        row_of(t, tensor, 0)[i] = plan_sketch_uniform(t->sketch);
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
}

/* Row `at` of a sound, or zero beyond it. */
static float mel_at(const struct trial *t, uint32_t sound, int64_t at, uint32_t mel)
{
    return at < 0 || at >= mel_rows[sound] ? 0.0f : t->values[sound][at][mel];
}

/* Seven rows and one that completes the last pair, then four. Rows of a sound attend to each other, the
 * further one to itself. */
static void test_order(void **state)
{
    (void)state;
    struct trial t;
    begin_trial(&t);
    open_trial(&t, 0, op_of(OP_activate, t.x, t.x));
    const struct image_patches *patches = &t.encoder.patches;
    static const uint32_t spans[3][2] = {{0, 7}, {7, 1}, {8, 4}};
    static const uint32_t features[] = {20, 21, 22, PATCH_FEATURE_NONE, 3, 4};
    assert_int_equal(patches->rows, 8 + 4);
    assert_int_equal(patches->features, 6);
    assert_int_equal(patches->whole.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(patches->whole.spans[i].first_row, spans[i][0]);
        assert_int_equal(patches->whole.spans[i].rows, spans[i][1]);
    }
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(patches->feature_rows[i], features[i]);
    for (uint32_t row = 0; row < patches->rows; row++) {
        assert_int_equal(patches->places[row].tile, row / 8);
        assert_int_equal(patches->places[row].y, row % 8);
    }
    run(&t);
    end_trial(&t);
}

static void test_sound_rows(void **state)
{
    (void)state;
    for (uint32_t tap = 0; tap < SOUND_TAPS; tap++) {
        struct trial t;
        begin_trial(&t);
        open_trial(&t, tap, op_of(OP_activate, t.x, t.x));
        float values[SOUNDS][2 * TABLE + 1][MELS]; /* released before the encoder runs */
        memcpy(values, t.values, sizeof values);
        memset(t.values, 0, sizeof t.values);
        run(&t);
        memcpy(t.values, values, sizeof values);
        for (uint32_t row = 0; row < t.encoder.patches.rows; row++)
            for (uint32_t mel = 0; mel < MELS; mel++)
                for (uint32_t i = 0; i < SOUND_TAPS; i++)
                    assert_true(row_of(&t, t.rows, row)[SOUND_TAPS * mel + i] ==
                                mel_at(&t, row / 8, 2 * (int64_t)(row % 8) + tap + i - 2, mel));
        end_trial(&t);
    }
}

static void test_sound_taps(void **state)
{
    (void)state;
    for (uint32_t tap = 0; tap < SOUND_TAPS; tap++) {
        struct trial t;
        float x[ROWS_MAX][COLUMNS], before[ROWS_MAX][SOUND_TAPS * COLUMNS];
        begin_trial(&t);
        struct plan_op op = op_of(OP_sound_taps, t.x, t.out);
        op.params.sound_taps.tap = tap;
        open_trial(&t, 0, op);
        uint32_t rows = t.encoder.patches.rows;
        fill(&t, t.x, COLUMNS);
        fill(&t, t.out, SOUND_TAPS * COLUMNS);
        memcpy(x, row_of(&t, t.x, 0), rows * sizeof x[0]);
        memcpy(before, row_of(&t, t.out, 0), rows * sizeof before[0]);
        run(&t);
        for (uint32_t row = 0; row < rows; row++) {
            int64_t at = 2 * (int64_t)(row % 8) + tap - 1;
            bool heard = at >= 0 && at < mel_rows[row / 8];
            for (uint32_t c = 0; c < SOUND_TAPS * COLUMNS; c++) {
                float other = heard ? x[row][c / SOUND_TAPS] : 0.0f;
                assert_true(row_of(&t, t.out, row)[c] ==
                            (c % SOUND_TAPS == tap ? other : before[row][c]));
            }
        }
        end_trial(&t);
    }
}

static void test_positions(void **state)
{
    (void)state;
    struct trial t;
    float before[ROWS_MAX][COLUMNS], place[COLUMNS];
    begin_trial(&t);
    struct plan_op op = op_of(OP_patch_positions, t.x, t.x);
    op.weights[0] = t.table;
    op.params.patch_positions = (struct patch_positions_params){POSITIONS_LINE, TABLE, false};
    open_trial(&t, 0, op);
    fill(&t, t.x, COLUMNS);
    memcpy(before, row_of(&t, t.x, 0), t.encoder.patches.rows * sizeof before[0]);
    run(&t);
    for (uint32_t row = 0; row < t.encoder.patches.rows; row++) {
        plan_sketch_weight_row(t.sketch, t.table, row % 8, place);
        for (uint32_t c = 0; c < COLUMNS; c++)
            assert_true(row_of(&t, t.x, row)[c] == before[row][c] + place[c]);
    }
    end_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_sound_rows),
        cmocka_unit_test(test_sound_taps),
        cmocka_unit_test(test_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
