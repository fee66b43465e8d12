/*
 * Attention, and the kernels of heads before it, against formulas in double: head sizes, groups of
 * query heads, windows, splits, tiles; over a cache whose unseen places are NaN.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/tiled_places.h"
#include "tests/support/vulkan_fixture.h"
#include "tests/support/vulkan_heads_scene.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"
#include "worker/plan/kv_layout.h"
#include "worker/plan/model_config.h"

#define TOLERANCE 2e-3 /* op_list.h: attention */

/* Which tests take a case: a driver for the CPU compiles every kernel for seconds. LAYER: also
 * tests of matrix units and of the validation layer. */
enum case_use { DECODE = 1, PROMPT = 2, FUSED = 4, HEADS = 8, LAYER = 16 };
struct attention_case {
    uint32_t head_dim, heads, kv_heads, window;
    float soft_cap; /* low ones, because scores are about 1 */
    uint32_t uses;
};
static const struct attention_case cases[] = {
    {64, 9, 3, 0, 0, DECODE | PROMPT | FUSED},
    {128, 8, 2, 0, 0, PROMPT | FUSED | HEADS},
    {80, 4, 1, 0, 0, DECODE | HEADS},
    {48, 6, 2, 24, 0.5f, PROMPT | LAYER},
    {256, 4, 1, 40, 1.5f, DECODE | FUSED},
    {32, 16, 1, 0, 0, DECODE | PROMPT | HEADS | LAYER},
    {20, 6, 2, 0, 1, PROMPT | FUSED},
    {9, 2, 1, 17, 0, DECODE | HEADS},
    {512, 2, 1, 0, 0, DECODE},
    {8, 4, 4, 5, 0, FUSED | LAYER},
};
#define CASES (sizeof cases / sizeof cases[0])

static struct vulkan_attention_shape shape_of(const struct attention_case *c)
{
    uint32_t head_dim = c->head_dim, heads = c->heads, kv_heads = c->kv_heads, window = c->window;
    return (struct vulkan_attention_shape){
        .head_dim = head_dim,
        .heads = heads,
        .kv_heads = kv_heads,
        .window = window,
        .kv_group = window > 0 ? 1 : 0,
        .stride = (heads + 2 * kv_heads) * head_dim,
        .query_offset = 0,
        .key_offset = heads * head_dim,
        .value_offset = (heads + kv_heads) * head_dim,
        .scale = 1.0f / sqrtf((float)head_dim),
        .soft_cap = c->soft_cap,
        .pairing = ROPE_PAIRS_HALVES,
        .rope_dims = head_dim,
        .magnitude = 1.0f,
    };
}

struct outputs {
    uint32_t forms;
    const struct vulkan_buffer *f32, *f16, *q8, *q8_terms;
};

static struct outputs make_outputs(const struct heads_scene *scene)
{
    uint32_t columns = scene->shape.heads * scene->shape.head_dim;
    uint64_t cells = (uint64_t)scene->rows * columns;
    bool can_stage = columns % 128 == 0;
    size_t tiled = tiled_places_count(scene->rows, columns);
    size_t staged = can_stage ? staged_places_count(scene->rows, columns) : 0;
    /* Of the orders of halves, which lie in the same place, one. */
    uint32_t kept = can_stage && scene->rows % 2 == 0 ? VULKAN_FORM_STAGED
                    : scene->shape.heads % 4 == 0     ? VULKAN_FORM_TILED
                                                      : VULKAN_FORM_F16;
    uint32_t left_out = VULKAN_HALF_FORMS & ~kept;
    return (struct outputs){
        .forms = vulkan_attention_policy_forms(&scene->shape) & ~left_out,
        .f32 = vulkan_trial_buffer(scene->trial, NULL, cells * 4),
        .f16 = vulkan_trial_buffer(scene->trial, NULL, 2 * (tiled > staged ? tiled : staged)),
        .q8 = vulkan_trial_buffer(scene->trial, NULL, cells),
        .q8_terms = vulkan_trial_buffer(scene->trial, NULL, cells / 32 * 8 + 8),
    };
}

static void run_choice(const struct heads_scene *scene, const struct outputs *outputs,
                       const struct vulkan_attention_choice *choice, uint64_t items)
{
    struct vulkan_attention_rows_push push = heads_scene_attention_push(scene);
    const struct vulkan_buffer *partials =
        vulkan_trial_buffer(scene->trial, NULL, choice->partial_bytes + 16);
    const struct vulkan_buffer *counters =
        vulkan_trial_buffer(scene->trial, NULL, choice->counter_bytes + 16);
    memset(counters->mapped, 0, counters->bytes);
    push.items = items;
    push.partials = partials->address;
    push.counters = counters->address;
    push.outputs = (struct vulkan_outputs_push){outputs->f32->address, outputs->f16->address,
                                                outputs->q8->address, outputs->q8_terms->address};
    vulkan_trial_run(scene->trial, choice->shader, &choice->specialization, &push, sizeof push,
                     choice->grid);
    for (uint64_t i = 0; i < choice->counter_bytes / 4; i++)
        assert_int_equal(((const uint32_t *)counters->mapped)[i], 0);
}

static void attend(const struct heads_scene *scene, const struct outputs *outputs, bool tiles,
                   uint32_t fuse)
{
    struct vulkan_attention_task task = {
        .shape = scene->shape,
        .tiles = tiles,
        .items = scene->part_count + 1,
        .forms = outputs->forms,
        .fuse = fuse,
    };
    uint64_t items = 0;
    const struct vulkan_facts *facts = &scene->trial->device->facts;
    if (tiles)
        items =
            vulkan_trial_tiles(scene->trial, scene->sequences->mapped, scene->part_count,
                               vulkan_attention_policy_tile_rows(facts, &scene->shape), &task.items)
                ->address;
    struct vulkan_attention_choice choice = vulkan_attention_policy_choose(facts, &task);
    run_choice(scene, outputs, &choice, items);
}

static void expect_close(const char *what, uint32_t row, uint32_t at, double got, double expected,
                         double slack)
{
    if (!(fabs(got - expected) <= slack))
        fail_msg("%s of row %u at %u: %.9g, not %.9g", what, row, at, got, expected);
}

static void check_forms(const struct outputs *outputs, uint32_t row, uint32_t columns,
                        const float *f32)
{
    const uint16_t *f16 = (const uint16_t *)outputs->f16->mapped;
    uint32_t order = outputs->forms & VULKAN_HALF_FORMS;
    const int8_t *q8 = (const int8_t *)outputs->q8->mapped + (size_t)row * columns;
    const float *terms = (const float *)outputs->q8_terms->mapped + (size_t)row * columns / 16;
    for (uint32_t i = 0; order != 0 && i < columns; i++) {
        size_t at = order == VULKAN_FORM_TILED    ? tiled_places_find(row, i, columns)
                    : order == VULKAN_FORM_STAGED ? staged_places_find(row, i, columns)
                                                  : (size_t)row * columns + i;
        expect_close(order == VULKAN_FORM_F16 ? "f16" : "half in its own order", row, i,
                     (double)ggml_f16_to_f32(f16[at]), (double)f32[i],
                     fabs((double)f32[i]) / 2048 + 1e-7);
    }
    if ((outputs->forms & VULKAN_FORM_Q8) == 0)
        return;
    for (uint32_t i = 0; i < columns; i++) {
        double d = (double)terms[i / 32 * 2];
        expect_close("q8", row, i, d * q8[i], (double)f32[i], 0.501 * d);
    }
}

/* Rows of sequences with one row only (`single`), of the others only, or of all. */
enum which { SINGLE_ROWS = 1, SEVERAL_ROWS = 2, ALL_ROWS = 3 };
static void check_outputs(const struct heads_scene *scene, const struct outputs *outputs,
                          enum which which)
{
    uint32_t columns = scene->shape.heads * scene->shape.head_dim;
    double *expected = calloc(columns, sizeof *expected);
    for (uint32_t row = 0; row < scene->rows; row++) {
        bool single = scene->parts[heads_scene_part_of(scene, row)].rows == 1;
        if (((uint32_t)which & (single ? SINGLE_ROWS : SEVERAL_ROWS)) == 0)
            continue;
        const float *f32 = (const float *)outputs->f32->mapped + (size_t)row * columns;
        double largest = 0.0;
        heads_scene_attend(scene, row, expected);
        for (uint32_t i = 0; i < columns; i++)
            largest = fmax(largest, fabs(expected[i]));
        for (uint32_t i = 0; i < columns; i++)
            expect_close("attended", row, i, (double)f32[i], expected[i], TOLERANCE * largest);
        check_forms(outputs, row, columns, f32);
    }
    free(expected);
}

static bool takes(const struct vulkan_trial *trial, const struct attention_case *c,
                  enum case_use use)
{
    bool layer = vulkan_fixture_share(trial->device) == VULKAN_SHARE_MATRIX;
    return (c->uses & (uint32_t)use) != 0 && (!layer || (c->uses & LAYER) != 0);
}

static void run_case(struct vulkan_trial *trial, struct test_random *random,
                     const struct attention_case *c, const struct heads_scene_part *parts,
                     uint32_t part_count, bool tiles)
{
    struct vulkan_attention_shape shape = shape_of(c);
    struct heads_scene *scene = heads_scene_create(trial, random, &shape, false, parts, part_count);
    struct outputs outputs = make_outputs(scene);
    heads_scene_write_rows(scene);
    attend(scene, &outputs, tiles, 0);
    check_outputs(scene, &outputs, tiles ? SEVERAL_ROWS : SINGLE_ROWS);
    heads_scene_destroy(scene);
    vulkan_trial_clear(trial);
}

static void attends_one_row_of_each_sequence(void **state)
{
    struct vulkan_trial trial;
    struct test_random random = {1};
    static const struct heads_scene_part parts[] = {{1, 0},  {1, 1},   {1, 15},  {3, 8},
                                                    {1, 16}, {1, 300}, {1, 1100}};
    vulkan_trial_init(&trial, *state);
    for (size_t i = 0; i < CASES; i++)
        if (takes(&trial, &cases[i], DECODE))
            run_case(&trial, &random, &cases[i], parts, 7, false);
    vulkan_trial_fini(&trial);
}

static void attends_rows_of_prompts(void **state)
{
    struct vulkan_trial trial;
    struct test_random random = {2};
    static const struct heads_scene_part parts[] = {
        {37, 0}, {1, 12}, {2, 70}, {19, 13}, {130, 128}};
    vulkan_trial_init(&trial, *state);
    for (size_t i = 0; i < CASES; i++)
        if (takes(&trial, &cases[i], PROMPT))
            run_case(&trial, &random, &cases[i], parts, i % 2 == 0 ? 5 : 4, true);
    vulkan_trial_fini(&trial);
}

/* What a kernel wrote in one order of halves, against the formula; nothing else was written. */
static void check_halves(const struct heads_scene *scene, const struct outputs *outputs)
{
    uint32_t columns = scene->shape.heads * scene->shape.head_dim;
    const uint16_t *f16 = (const uint16_t *)outputs->f16->mapped;
    double *expected = calloc(columns, sizeof *expected);
    for (uint32_t row = 0; row < scene->rows; row++) {
        double largest = 0.0;
        heads_scene_attend(scene, row, expected);
        for (uint32_t i = 0; i < columns; i++)
            largest = fmax(largest, fabs(expected[i]));
        for (uint32_t i = 0; i < columns; i++) {
            size_t at = outputs->forms == VULKAN_FORM_STAGED ? staged_places_find(row, i, columns)
                                                             : (size_t)row * columns + i;
            expect_close("half", row, i, (double)ggml_f16_to_f32(f16[at]), expected[i],
                         TOLERANCE * largest);
        }
    }
    for (uint64_t i = 0; i < outputs->f32->bytes; i++)
        assert_int_equal(((const uint8_t *)outputs->f32->mapped)[i], 0xff);
    free(expected);
}

static bool staged_fits(uint32_t head_dim, uint32_t heads)
{
    return head_dim * heads % 128 == 0;
}

/* Each output of the kernel in PTX alone and f32 with halves beside it, whole or in parts. */
static void attends_in_ptx(struct vulkan_trial *trial, struct test_random *random,
                           const struct attention_case *c, uint32_t forms, bool split)
{
    static const struct heads_scene_part parts[] = {{37, 0}, {2, 70}, {130, 900}, {19, 13}};
    struct vulkan_attention_shape shape = shape_of(c);
    struct heads_scene *scene = heads_scene_create(trial, random, &shape, false, parts, 4);
    struct outputs outputs = make_outputs(scene);
    outputs.forms = forms;
    memset(outputs.f32->mapped, 0xff, outputs.f32->bytes);
    memset(outputs.f16->mapped, 0xff, outputs.f16->bytes);
    heads_scene_write_rows(scene);
    struct vulkan_attention_task task = {.shape = shape, .tiles = true, .forms = forms};
    const struct vulkan_facts *facts = &trial->device->facts;
    uint32_t tile_rows = vulkan_attention_policy_tile_rows(facts, &shape);
    uint64_t items =
        vulkan_trial_tiles(trial, scene->sequences->mapped, 4, tile_rows, &task.items)->address;
    struct vulkan_attention_choice choice = vulkan_attention_policy_choose(facts, &task);
    assert_memory_equal(choice.shader, "attention_wgmma_", strlen("attention_wgmma_"));
    assert_true(choice.grid.y > 1);
    if (!split)
        choice.grid.y = 1;
    run_choice(scene, &outputs, &choice, items);
    if ((forms & VULKAN_FORM_F32) != 0)
        check_outputs(scene, &outputs, ALL_ROWS);
    else
        check_halves(scene, &outputs);
    heads_scene_destroy(scene);
    vulkan_trial_clear(trial);
}

static void attends_rows_of_prompts_in_ptx(void **state)
{
    static const struct attention_case ptx_cases[] = {{64, 8, 2, 0, 0, PROMPT},
                                                      {80, 8, 8, 0, 0, PROMPT},
                                                      {128, 4, 1, 0, 0, PROMPT},
                                                      {64, 9, 3, 0, 0, PROMPT},
                                                      {128, 8, 2, 40, 0.5f, PROMPT}};
    static const uint32_t forms[] = {VULKAN_FORM_F32, VULKAN_FORM_F32 | VULKAN_FORM_F16,
                                     VULKAN_FORM_F32 | VULKAN_FORM_STAGED, VULKAN_FORM_F16,
                                     VULKAN_FORM_STAGED};
    struct vulkan_device *device = *state;
    struct vulkan_trial trial;
    struct test_random random = {8};
    if (device->facts.tier < VULKAN_PTX)
        vulkan_fixture_skip("the device has no PTX");
    vulkan_trial_init(&trial, device);
    for (size_t i = 0; i < sizeof ptx_cases / sizeof *ptx_cases; i++) {
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            if ((forms[f] & VULKAN_FORM_STAGED) != 0 &&
                !staged_fits(ptx_cases[i].head_dim, ptx_cases[i].heads))
                continue;
            attends_in_ptx(&trial, &random, &ptx_cases[i], forms[f], true);
            attends_in_ptx(&trial, &random, &ptx_cases[i], forms[f], false);
        }
    }
    vulkan_trial_fini(&trial);
}

/* The number of times that kv_ahead reads the first word of each line. */
static uint32_t sum_lines(const struct vulkan_heads_choice *choice, uint32_t invocation,
                          const uint8_t *keys, const uint8_t *values)
{
    uint32_t bytes = choice->specialization.values[VULKAN_KV_AHEAD_BLOCK_BYTES];
    uint32_t stride = 32 * choice->specialization.values[VULKAN_KV_AHEAD_INVOCATIONS], sum = 0;
    for (uint32_t i = 32 * invocation; i < bytes; i += 4 * stride) {
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t at = i + j * stride < bytes - 32 ? i + j * stride : bytes - 32, k, v;
            memcpy(&k, keys + at, sizeof k);
            memcpy(&v, values + at, sizeof v);
            sum += k + v;
        }
    }
    return sum;
}

static void reads_ahead_the_blocks_of_a_context(void **state)
{
    enum { POSITION = 70, BLOCK = POSITION / KV_BLOCK_TOKENS, INVOCATION = 3, MARKS = 64 * 128 };
    static const struct heads_scene_part parts[] = {{1, POSITION}};
    const struct vulkan_facts gpu = {.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU};
    struct vulkan_trial trial;
    struct test_random random = {7};
    struct vulkan_heads_choice choice;
    struct vulkan_attention_shape shape =
        shape_of(&(struct attention_case){64, 4, 2, 0, 0, DECODE});
    vulkan_trial_init(&trial, *state);
    struct heads_scene *scene = heads_scene_create(&trial, &random, &shape, false, parts, 1);
    assert_false(vulkan_attention_policy_ahead(&trial.device->facts, &shape, 1, &choice) &&
                 trial.device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU);
    assert_false(vulkan_attention_policy_ahead(&gpu, &shape, 2, &choice));
    assert_true(vulkan_attention_policy_ahead(&gpu, &shape, 1, &choice));
    const struct vulkan_buffer *marks = vulkan_trial_buffer(&trial, NULL, MARKS * 4);
    memset(marks->mapped, 0, MARKS * 4);
    size_t at =
        (size_t)scene->tables[0][BLOCK] * choice.specialization.values[VULKAN_KV_AHEAD_BLOCK_BYTES];
    const struct vulkan_kv_ahead_push push = {
        .keys = scene->keys->address,
        .values = scene->values->address,
        .sequences = scene->sequences->address,
        .tables = scene->block_tables->address,
        .marks = marks->address,
        .wanted = sum_lines(&choice, INVOCATION, (const uint8_t *)scene->keys->mapped + at,
                            (const uint8_t *)scene->values->mapped + at)};
    vulkan_trial_run(&trial, choice.shader, &choice.specialization, &push, sizeof push,
                     choice.grid);
    const uint32_t *marked = (const uint32_t *)marks->mapped;
    assert_int_equal(marked[BLOCK * 128 + INVOCATION], 1);
    for (uint32_t i = (BLOCK + 1) * 128; i < MARKS; i++) /* behind the context */
        assert_int_equal(marked[i], 0);
    heads_scene_destroy(scene);
    vulkan_trial_fini(&trial);
}

/* The ends of the positions are the same, so every sum is the same. */
static void leaves_out_splits_that_brief_contexts_never_need(void **state)
{
    const struct vulkan_facts facts = {
        .subgroup_size = 32, .max_invocations = 1024, .shared_bytes = 49152, .compute_units = 132};
    uint32_t fewer = 0;
    (void)state;
    for (uint32_t items = 1; items <= 64; items++) {
        struct vulkan_attention_task task = {
            .shape = shape_of(&(struct attention_case){128, 16, 2, 0, 0, DECODE}),
            .items = items,
            .forms = VULKAN_FORM_F32};
        struct vulkan_attention_choice any = vulkan_attention_policy_choose(&facts, &task);
        task.reach = VULKAN_REACH_SHORT;
        struct vulkan_attention_choice brief = vulkan_attention_policy_choose(&facts, &task);
        uint32_t *splits = &brief.specialization.values[VULKAN_ATTENTION_ROWS_SPLITS];
        uint32_t tokens = brief.specialization.values[VULKAN_ATTENTION_ROWS_SPLIT_TOKENS];
        assert_int_equal(*splits, brief.grid.y);
        if (brief.grid.y < any.grid.y) {
            assert_true(brief.grid.y * tokens >= VULKAN_SHORT_CONTEXT);
            fewer++;
        }
        *splits = any.specialization.values[VULKAN_ATTENTION_ROWS_SPLITS];
        assert_memory_equal(brief.specialization.values, any.specialization.values,
                            brief.specialization.count * sizeof *splits);
    }
    assert_in_range(fewer, 1, 16); /* only few rows leave room for many splits */
}

/* Choices of the policy for GPUs only: several positions in flight in a lane, wider workgroups, a
 * fixed number of splits. */
static void attends_with_other_tunings(void **state)
{
    static const struct heads_scene_part parts[] = {{1, 0}, {1, 77}, {1, 400}};
    static const struct tuning {
        uint32_t unroll, lanes, subgroups, splits, split_tokens, fuse;
    } tunings[] = {
        {4, 8, 4, 1, 32, VULKAN_ATTENTION_FUSE_ROPE}, {2, 4, 8, 3, 16, 0}, {2, 8, 1, 30, 16, 0}};
    struct vulkan_trial trial;
    struct test_random random = {6};
    struct vulkan_attention_shape shape =
        shape_of(&(struct attention_case){64, 2, 1, 0, 0, DECODE});
    if (vulkan_fixture_share(*state) == VULKAN_SHARE_MATRIX)
        vulkan_fixture_skip("the driver without matrix units runs this");
    vulkan_trial_init(&trial, *state);
    struct vulkan_facts unknown = trial.device->facts;
    const struct vulkan_facts *facts = &unknown;
    unknown.matrix_registers = false;
    for (size_t i = 0; i < sizeof tunings / sizeof tunings[0]; i++) {
        struct heads_scene *scene = heads_scene_create(&trial, &random, &shape, false, parts, 3);
        struct outputs outputs = make_outputs(scene);
        struct vulkan_attention_task task = {
            .shape = shape, .items = 3, .forms = outputs.forms, .fuse = tunings[i].fuse};
        if (tunings[i].fuse == 0)
            heads_scene_write_rows(scene);
        struct vulkan_attention_choice choice = vulkan_attention_policy_choose(facts, &task);
        uint32_t *values = choice.specialization.values;
        values[VULKAN_ATTENTION_ROWS_UNROLL] = tunings[i].unroll;
        values[VULKAN_ATTENTION_ROWS_LANES] = tunings[i].lanes;
        values[VULKAN_ATTENTION_ROWS_SUBGROUPS] = tunings[i].subgroups;
        values[VULKAN_ATTENTION_ROWS_INVOCATIONS] = tunings[i].subgroups * facts->subgroup_size;
        values[VULKAN_ATTENTION_ROWS_SPLIT_TOKENS] = tunings[i].split_tokens;
        values[VULKAN_ATTENTION_ROWS_SPLITS] = choice.grid.y = tunings[i].splits;
        choice.partial_bytes = 16384ull * tunings[i].splits;
        choice.counter_bytes = 256;
        run_choice(scene, &outputs, &choice, 0);
        check_outputs(scene, &outputs, ALL_ROWS);
        heads_scene_destroy(scene);
        vulkan_trial_clear(&trial);
    }
    vulkan_trial_fini(&trial);
}

static void rotates_writes_and_attends_at_once(void **state)
{
    struct vulkan_trial trial;
    struct test_random random = {3};
    static const struct heads_scene_part parts[] = {{1, 0}, {1, 31}, {1, 32}, {1, 511}, {1, 90}};
    vulkan_trial_init(&trial, *state);
    for (size_t i = 0; i < CASES; i++) {
        if (!takes(&trial, &cases[i], FUSED))
            continue;
        enum heads_scene_norm norm = i % 4 == 1   ? HEADS_SCENE_NORM
                                     : i % 4 == 3 ? HEADS_SCENE_NORM_VALUES
                                                  : HEADS_SCENE_PLAIN;
        struct vulkan_attention_shape shape = shape_of(&cases[i]);
        shape.pairing = i % 3 == 0 ? ROPE_PAIRS_ADJACENT : ROPE_PAIRS_HALVES;
        shape.rope_dims = i % 4 == 3 ? shape.head_dim / 4 * 2 : shape.head_dim / 2 * 2;
        shape.magnitude = i % 5 == 4 ? 1.25f : 1.0f;
        struct heads_scene *scene = heads_scene_create(&trial, &random, &shape, norm, parts, 5);
        struct outputs outputs = make_outputs(scene);
        attend(scene, &outputs, false,
               VULKAN_ATTENTION_FUSE_ROPE | (norm ? VULKAN_ATTENTION_FUSE_NORM : 0u) |
                   (norm == HEADS_SCENE_NORM_VALUES ? VULKAN_ATTENTION_FUSE_NORM_VALUES : 0u));
        heads_scene_check_written(scene, false);
        check_outputs(scene, &outputs, ALL_ROWS);
        heads_scene_destroy(scene);
        vulkan_trial_clear(&trial);
    }
    vulkan_trial_fini(&trial);
}

static void norms_rotates_and_writes(void **state)
{
    struct vulkan_trial trial;
    struct test_random random = {4};
    static const struct heads_scene_part parts[] = {{1, 0}, {17, 3}, {2, 64}, {60, 15}};
    vulkan_trial_init(&trial, *state);
    for (size_t i = 0; i < CASES; i++) {
        if (!takes(&trial, &cases[i], HEADS))
            continue;
        enum heads_scene_norm norm = i % 4 == 0   ? HEADS_SCENE_NORM
                                     : i % 4 == 2 ? HEADS_SCENE_NORM_VALUES
                                                  : HEADS_SCENE_PLAIN;
        struct vulkan_attention_shape shape = shape_of(&cases[i]);
        shape.pairing = i % 3 == 0 ? ROPE_PAIRS_ADJACENT : ROPE_PAIRS_HALVES;
        shape.rope_dims = i % 4 == 3 ? shape.head_dim / 4 * 2 : shape.head_dim / 2 * 2;
        shape.magnitude = i % 5 == 4 ? 1.25f : 1.0f;
        struct heads_scene *scene =
            heads_scene_create(&trial, &random, &shape, norm, parts, i % 4 == 0 ? 4 : 3);
        struct vulkan_rope_kv_write_push push = heads_scene_heads_push(scene);
        struct vulkan_heads_task task = {
            .parts = VULKAN_HEADS_ROPE | VULKAN_HEADS_WRITE | (norm ? VULKAN_HEADS_NORM : 0u) |
                     (norm == HEADS_SCENE_NORM_VALUES ? VULKAN_HEADS_NORM_VALUES : 0u),
            .rows = scene->rows,
            .head_dim = shape.head_dim,
            .heads = shape.heads,
            .kv_heads = shape.kv_heads,
            .pairing = shape.pairing,
            .rope_dims = shape.rope_dims,
            .kv_group = shape.kv_group,
        };
        struct vulkan_heads_choice choice =
            vulkan_attention_policy_heads(&trial.device->facts, &task);
        vulkan_trial_run(&trial, choice.shader, &choice.specialization, &push, sizeof push,
                         choice.grid);
        heads_scene_check_written(scene, true);
        heads_scene_destroy(scene);
        vulkan_trial_clear(&trial);
    }
    vulkan_trial_fini(&trial);
}

/* Pairs {1, 0} become {cos, sin} of every angle: positions up to the maximum, frequencies from 1
 * down. */
static void rotates_by_large_angles_exactly(void **state)
{
    enum { POSITIONS = 64, PAIRS = 64 };
    struct vulkan_trial trial;
    struct test_random random = {5};
    vulkan_trial_init(&trial, *state);
    float *x = calloc((size_t)POSITIONS * 2 * PAIRS, sizeof *x);
    float frequencies[PAIRS];
    uint32_t rows[POSITIONS][4] = {{0}};
    for (uint32_t i = 0; i < PAIRS; i++)
        frequencies[i] = i == 0 ? 1.0f : powf(1e6f, -(float)i / (float)PAIRS) * 1.37f;
    for (uint32_t r = 0; r < POSITIONS; r++) {
        rows[r][1] = r < 4 ? LIMIT_CONTEXT_TOKENS - 1 - r : test_random_below(&random, 1u << 20);
        rows[r][1] >>= r % 3 == 2 ? 8 : 0;
        for (uint32_t i = 0; i < PAIRS; i++)
            x[(r * PAIRS + i) * 2] = 1.0f;
    }
    uint64_t bytes = (uint64_t)POSITIONS * PAIRS * 8;
    const struct vulkan_buffer *buffer = vulkan_trial_buffer(&trial, x, bytes);
    struct vulkan_rope_kv_write_push push = {
        .qkv = buffer->address,
        .frequencies = vulkan_trial_buffer(&trial, frequencies, sizeof frequencies)->address,
        .rows = vulkan_trial_buffer(&trial, rows, sizeof rows)->address,
        .stride = 2 * PAIRS,
        .magnitude = 1.0f,
    };
    struct vulkan_heads_task task = {.parts = VULKAN_HEADS_ROPE,
                                     .rows = POSITIONS,
                                     .head_dim = 2 * PAIRS,
                                     .heads = 1,
                                     .pairing = ROPE_PAIRS_ADJACENT,
                                     .rope_dims = 2 * PAIRS};
    struct vulkan_heads_choice choice = vulkan_attention_policy_heads(&trial.device->facts, &task);
    vulkan_trial_run(&trial, choice.shader, &choice.specialization, &push, sizeof push,
                     choice.grid);
    double worst = 0.0;
    for (uint32_t r = 0; r < POSITIONS; r++)
        for (uint32_t i = 0; i < PAIRS; i++) {
            const float *got = (const float *)buffer->mapped + (r * PAIRS + i) * 2;
            float angle = (float)rows[r][1] * frequencies[i];
            worst = fmax(worst, fabs((double)(got[0] - cosf(angle))));
            worst = fmax(worst, fabs((double)(got[1] - sinf(angle))));
        }
    print_message("largest error of a rotation: %.3g\n", worst);
    assert_true(worst < 1e-6);
    free(x);
    vulkan_trial_fini(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotates_by_large_angles_exactly),
        cmocka_unit_test(norms_rotates_and_writes),
        cmocka_unit_test(attends_one_row_of_each_sequence),
        cmocka_unit_test(attends_with_other_tunings),
        cmocka_unit_test(reads_ahead_the_blocks_of_a_context),
        cmocka_unit_test(leaves_out_splits_that_brief_contexts_never_need),
        cmocka_unit_test(attends_rows_of_prompts),
        cmocka_unit_test(attends_rows_of_prompts_in_ptx),
        cmocka_unit_test(rotates_writes_and_attends_at_once),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
