/*
 * Every tile that products of many rows have, with all its fields: which device and which shape get
 * it, at both sides of each limit, and into how many parts its columns are split.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "tests/support/vulkan_matrix_device.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

static const struct vulkan_facts device = MATRIX_DEVICE_FACTS;

static struct vulkan_matrix_request request_of(enum vulkan_weight_kind kind, uint32_t rows,
                                               uint32_t n, uint32_t k)
{
    return (struct vulkan_matrix_request){.kind = kind,
                                          .rows = rows,
                                          .n = n,
                                          .k = k,
                                          .epilogue = VULKAN_LINEAR_STORE,
                                          .forms = VULKAN_FORM_F32};
}

static void expect_tiling(const struct vulkan_facts *facts,
                          const struct vulkan_matrix_request *request,
                          struct vulkan_matrix_tiling expected)
{
    struct vulkan_matrix_tiling tiling = vulkan_matrix_tiling_choose(facts, request);
    assert_int_equal(tiling.path, expected.path);
    assert_int_equal(tiling.rows, expected.rows);
    assert_int_equal(tiling.columns, expected.columns);
    assert_int_equal(tiling.k, expected.k);
    assert_int_equal(tiling.part_rows, expected.part_rows);
    assert_int_equal(tiling.part_columns, expected.part_columns);
    assert_int_equal(tiling.stages, expected.stages);
    assert_int_equal(tiling.splits, expected.splits);
    assert_int_equal(tiling.invocations, expected.invocations);
    assert_int_equal(tiling.depth, expected.depth);
    assert_int_equal(tiling.folded, expected.folded);
}

static struct vulkan_matrix_tiling khr(uint32_t rows, uint32_t columns, uint32_t k,
                                       uint32_t part_rows, uint32_t part_columns, uint32_t splits)
{
    return (struct vulkan_matrix_tiling){.path = VULKAN_MATRIX_KHR,
                                         .rows = rows,
                                         .columns = columns,
                                         .k = k,
                                         .part_rows = part_rows,
                                         .part_columns = part_columns,
                                         .stages = 1,
                                         .splits = splits};
}

/* --- matrix units of subgroups ----------------------------------------------------------------- */

/* Both operands lie in shared memory, with 8 columns of f16 to fill each row up, beside 64 bytes.
 * The largest tile for the rows that fits is taken, and 64 x 64 x 32 if none does. So many outputs
 * need no splits. */
static void tiles_by_rows_and_shared_memory(void **state)
{
    (void)state;
    static const struct {
        uint32_t rows_from, rows_to, rows, k, part_rows,
            below; /* k of the tile when it does not fit */
    } cases[] = {
        {1, 16, 16, 128, 16, 64},   {1, 16, 16, 64, 16, 32},     {17, 32, 32, 128, 32, 64},
        {17, 32, 32, 64, 32, 32},   {33, 64, 64, 128, 32, 64},   {33, 64, 64, 64, 32, 32},
        {65, 128, 128, 64, 32, 32}, {129, 500, 128, 64, 32, 32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vulkan_facts facts = device;
        uint32_t next_rows = cases[i].below == 32 ? 64 : cases[i].rows;
        uint32_t next_part = cases[i].below == 32 ? 32 : cases[i].part_rows;
        for (uint32_t rows = cases[i].rows_from; rows <= cases[i].rows_to; rows++) {
            struct vulkan_matrix_request request =
                request_of(VULKAN_WEIGHT_F16, rows, 128256, 4096);
            facts.shared_bytes = (cases[i].rows + 64) * (cases[i].k + 8) * 2 + 64;
            expect_tiling(&facts, &request,
                          khr(cases[i].rows, 64, cases[i].k, cases[i].part_rows, 32, 1));
            facts.shared_bytes--;
            expect_tiling(&facts, &request, khr(next_rows, 64, cases[i].below, next_part, 32, 1));
        }
    }
}

/* Eight subgroups for 128 rows, four for 64. */
static void tiles_by_invocations(void **state)
{
    (void)state;
    struct vulkan_facts facts = device;
    struct vulkan_matrix_request request = request_of(VULKAN_WEIGHT_F16, 300, 128256, 4096);
    facts.max_invocations = 8 * 32;
    expect_tiling(&facts, &request, khr(128, 64, 64, 32, 32, 1));
    facts.max_invocations--;
    expect_tiling(&facts, &request, khr(64, 64, 32, 32, 32, 1));
    facts.subgroup_size = 64;
    facts.max_invocations = 2 * 64;
    request.rows = 16;
    expect_tiling(&facts, &request, khr(16, 64, 128, 16, 32, 1));
    facts.shared_bytes = 1024; /* the last one if none fits */
    expect_tiling(&facts, &request, khr(64, 64, 32, 32, 32, 1));
}

/* A driver for the CPU, whose units are of 8 columns. */
static void tiles_of_small_units(void **state)
{
    (void)state;
    struct vulkan_facts facts = device;
    facts.matrix_shapes[0] = (struct vulkan_matrix_shape){VULKAN_MATRIX_F16_F32, 8, 8, 8};
    struct vulkan_matrix_request request = request_of(VULKAN_WEIGHT_F16, 16, 4096, 4096);
    expect_tiling(&facts, &request, khr(16, 32, 32, 8, 16, 2));
    request.k = 128; /* not the tile for small products */
    expect_tiling(&facts, &request, khr(16, 32, 32, 8, 16, 2));
    request.rows = 17;
    expect_tiling(&facts, &request, khr(32, 32, 32, 8, 16, 1));
    request.rows = 1000;
    expect_tiling(&facts, &request, khr(32, 32, 32, 8, 16, 1));
}

/* Units are used if whole numbers of them make up 16 x 16 x 32, with at least 8 columns of each
 * operand; of several the largest, of equal ones the first. */
static void units_that_are_used(void **state)
{
    (void)state;
    static const struct {
        struct vulkan_matrix_shape shape;
        bool used;
    } cases[] = {
        {{VULKAN_MATRIX_F16_F32, 16, 16, 16}, true},  {{VULKAN_MATRIX_F16_F32, 16, 16, 32}, true},
        {{VULKAN_MATRIX_F16_F32, 16, 16, 8}, true},   {{VULKAN_MATRIX_F16_F32, 16, 8, 16}, true},
        {{VULKAN_MATRIX_F16_F32, 1, 8, 8}, true},     {{VULKAN_MATRIX_F16_F32, 16, 16, 64}, false},
        {{VULKAN_MATRIX_F16_F32, 32, 16, 16}, false}, {{VULKAN_MATRIX_F16_F32, 16, 32, 16}, false},
        {{VULKAN_MATRIX_F16_F32, 12, 16, 16}, false}, {{VULKAN_MATRIX_F16_F32, 16, 12, 16}, false},
        {{VULKAN_MATRIX_F16_F32, 16, 16, 24}, false}, {{VULKAN_MATRIX_F16_F32, 16, 4, 16}, false},
        {{VULKAN_MATRIX_F16_F32, 16, 16, 4}, false},  {{VULKAN_MATRIX_F16_F32, 17, 16, 16}, false},
        {{VULKAN_MATRIX_F16_F32, 16, 16, 33}, false},
    };
    struct vulkan_facts facts = device;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        facts.matrix_shapes[0] = cases[i].shape;
        assert_int_equal(vulkan_matrix_has_units(&facts), cases[i].used);
        facts.tier = VULKAN_DOT;
        assert_false(vulkan_matrix_has_units(&facts));
        facts.tier = VULKAN_KHR_MATRIX;
        facts.matrix_shapes[0].type = (enum vulkan_matrix_type)(VULKAN_MATRIX_F16_F32 + 1);
        assert_false(vulkan_matrix_has_units(&facts));
    }
}

static void the_largest_unit_is_taken(void **state)
{
    (void)state;
    static const struct {
        struct vulkan_matrix_shape shapes[3];
        uint32_t taken;
    } cases[] = {
        {{{VULKAN_MATRIX_F16_F32, 16, 8, 16},
          {VULKAN_MATRIX_F16_F32, 16, 16, 16},
          {VULKAN_MATRIX_F16_F32, 16, 16, 8}},
         1},
        {{{VULKAN_MATRIX_F16_F32, 16, 8, 16},
          {VULKAN_MATRIX_F16_F32, 8, 16, 16},
          {VULKAN_MATRIX_F16_F32, 8, 8, 32}},
         0},
        {{{VULKAN_MATRIX_F16_F32, 8, 8, 16},
          {VULKAN_MATRIX_F16_F32, 32, 16, 16},
          {VULKAN_MATRIX_F16_F32, 8, 8, 32}},
         2},
        {{{VULKAN_MATRIX_F16_F32, 8, 16, 16},
          {VULKAN_MATRIX_F16_F32, 1, 8, 32},
          {VULKAN_MATRIX_F16_F32, 16, 8, 8}},
         0},
    };
    const struct vulkan_matrix_request request = request_of(VULKAN_WEIGHT_F16, 16, 4096, 4096);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vulkan_facts facts = device;
        facts.matrix_shape_count = 3;
        for (size_t s = 0; s < 3; s++)
            facts.matrix_shapes[s] = cases[i].shapes[s];
        struct vulkan_matrix_choice choice;
        vulkan_matrix_choose(&facts, &request, &choice);
        const struct vulkan_matrix_shape *taken = &cases[i].shapes[cases[i].taken];
        const uint32_t *values = choice.product.constants.values;
        assert_int_equal(values[VULKAN_LINEAR_MATRIX_UNIT_ROWS], taken->m);
        assert_int_equal(values[VULKAN_LINEAR_MATRIX_UNIT_COLUMNS], taken->n);
        assert_int_equal(values[VULKAN_LINEAR_MATRIX_UNIT_K], taken->k);
    }
}

/* Two workgroups a compute unit (of 64 if their number is unknown), at least four steps of k a
 * split, at most 16 splits; more than 128 rows have none. */
static void splits_fill_the_units(void **state)
{
    (void)state;
    static const uint32_t units[] = {0, 1, 2, 3, 20, 64, 132};
    struct test_random random = {5};
    for (uint32_t i = 0; i < 3000; i++) {
        struct vulkan_facts facts = device;
        facts.compute_units = units[i % 7];
        uint32_t rows = 1 + test_random_below(&random, 140);
        uint32_t n = 2 * (1 + test_random_below(&random, 8000));
        struct vulkan_matrix_request request =
            request_of(VULKAN_WEIGHT_F16, rows, n, 1024 + 32 * test_random_below(&random, 400));
        request.epilogue = i % 3 ? VULKAN_LINEAR_STORE : VULKAN_LINEAR_GATE_GELU;
        uint32_t tile_rows = rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= 64 ? 64 : 128;
        uint32_t tile_k = tile_rows == 128 ? 64 : 128;
        uint32_t tiles = (rows + tile_rows - 1) / tile_rows * ((n + 63) / 64);
        uint32_t splits = 2 * (facts.compute_units ? facts.compute_units : 64) / tiles;
        uint32_t max = (request.k + tile_k - 1) / tile_k / 4;
        splits = splits > max ? max : splits;
        splits = splits > 16 ? 16 : splits < 1 ? 1 : splits;
        expect_tiling(
            &facts, &request,
            khr(tile_rows, 64, tile_k, tile_rows == 16 ? 16 : 32, 32, rows > 128 ? 1 : splits));
    }
}

/* Fewer than eight steps of k in tiles of 32 outputs that all run at once. */
static void small_products_have_small_tiles(void **state)
{
    (void)state;
    struct vulkan_facts facts = device;
    struct vulkan_matrix_request request = request_of(VULKAN_WEIGHT_F16, 128, 33 * 32, 896);
    const struct vulkan_matrix_tiling small = khr(16, 32, 128, 16, 16, 1);
    expect_tiling(&facts, &request, small);
    request.n++;
    expect_tiling(&facts, &request, khr(128, 64, 64, 32, 32, 3));
    request.n--;
    request.k += 32;
    expect_tiling(&facts, &request, khr(128, 64, 64, 32, 32, 3));
    request.k -= 32;
    request.rows++;
    request.n = 32;
    expect_tiling(&facts, &request, khr(128, 64, 64, 32, 32, 1));
    request.rows = 16;
    facts.shared_bytes = (16 + 32) * 136 * 2 + 64;
    expect_tiling(&facts, &request, small);
    facts.shared_bytes--;
    expect_tiling(&facts, &request, khr(16, 64, 64, 16, 32, 3));
    facts = device;
    facts.max_invocations = 64;
    expect_tiling(&facts, &request, small);
    for (uint32_t units = 0; units < 3; units++) {
        facts.compute_units = units;
        request.n = 32 * 2 * (units ? units : 64);
        expect_tiling(&facts, &request, small);
        request.n++;
        assert_int_equal(vulkan_matrix_tiling_choose(&facts, &request).columns, 64);
    }
}

/* --- fragments in registers --------------------------------------------------------------------- */

static struct vulkan_matrix_tiling fragment(uint32_t rows, uint32_t part_columns, uint32_t splits)
{
    return (struct vulkan_matrix_tiling){.path = VULKAN_MATRIX_FRAGMENT,
                                         .rows = rows,
                                         .columns = 128,
                                         .k = 128,
                                         .part_rows = rows,
                                         .part_columns = part_columns,
                                         .splits = splits};
}

static void fragments_are_narrow_where_outputs_are_few(void **state)
{
    (void)state;
    struct vulkan_facts facts = device;
    facts.matrix_registers = true;
    struct vulkan_matrix_request request = request_of(VULKAN_WEIGHT_Q4_0, 64, 8192, 512);
    expect_tiling(&facts, &request, fragment(64, 16, 1));
    request.n++;
    expect_tiling(&facts, &request, fragment(64, 32, 1));
    request.n--;
    request.epilogue = VULKAN_LINEAR_GATE_SILU;
    expect_tiling(&facts, &request, fragment(64, 32, 1));
    request.epilogue = VULKAN_LINEAR_ADD;
    request.rows = 49;
    expect_tiling(&facts, &request, fragment(64, 16, 1));
    request.rows = 48;
    expect_tiling(&facts, &request, fragment(48, 32, 1));
    request.rows = 65;
    expect_tiling(&facts, &request, fragment(64, 32, 1));
    request.rows = 128;
    expect_tiling(&facts, &request, fragment(64, 32, 1));
    request.rows = 129;
    expect_tiling(&facts, &request, khr(128, 64, 64, 32, 32, 1));
    request.rows = 16;
    request.k = 4096; /* 32 steps, 64 tiles: 264 / 64 */
    expect_tiling(&facts, &request, fragment(16, 32, 4));
    facts.batch_invariant = true; /* splits and subgroups of 64 rows, four splits at most */
    request.n = 2048;
    expect_tiling(&facts, &request, fragment(16, 32, 4));
    request.rows = 129;
    expect_tiling(&facts, &request, fragment(64, 32, 4));
    request.n = 16384;
    expect_tiling(&facts, &request, fragment(64, 32, 2));
    request.kind = VULKAN_WEIGHT_F16;
    request.n = 4096;
    expect_tiling(&facts, &request, khr(64, 64, 128, 32, 32, 4));
}

/* --- without matrix units ----------------------------------------------------------------------- */

/* A driver for the CPU with vector registers of 4 to 16 lanes. */
static void lanes_of_a_processor(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {3, 4, 5, 8, 16, 17};
    struct vulkan_facts facts = {
        .type = VK_PHYSICAL_DEVICE_TYPE_CPU, .tier = VULKAN_SCALAR, .shared_bytes = 32768};
    for (uint32_t i = 0; i < 24; i++) {
        facts.subgroup_size = sizes[i / 4];
        facts.max_invocations = 4 * facts.subgroup_size - (i % 4 == 1);
        facts.batch_invariant = i % 4 == 3;
        struct vulkan_matrix_request request =
            request_of(VULKAN_WEIGHT_F16, 40, 300, i % 4 == 2 ? 33 : 64);
        bool lanes =
            i % 4 != 1 && i % 4 != 2 && facts.subgroup_size >= 4 && facts.subgroup_size <= 16;
        if (lanes)
            expect_tiling(&facts, &request,
                          (struct vulkan_matrix_tiling){.path = VULKAN_MATRIX_PLAIN,
                                                        .rows = 8,
                                                        .columns = 8 * facts.subgroup_size,
                                                        .k = 32,
                                                        .part_rows = 8,
                                                        .part_columns = 2,
                                                        .splits = 1});
        else
            assert_int_equal(vulkan_matrix_tiling_choose(&facts, &request).path,
                             VULKAN_MATRIX_TILE);
    }
    facts.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    facts.subgroup_size = 8;
    facts.batch_invariant = false;
    struct vulkan_matrix_request request = request_of(VULKAN_WEIGHT_F16, 40, 300, 64);
    assert_int_equal(vulkan_matrix_tiling_choose(&facts, &request).path, VULKAN_MATRIX_TILE);
}

/* 16 KiB and 128 invocations are enough for 16 and 32 rows; where rows may not depend on each other
 * all have the tile of 64. */
static void tiles_without_units(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1, 16, 17, 32, 33, 1000};
    for (uint32_t i = 0; i < 24; i++) {
        struct vulkan_facts facts = {.tier = VULKAN_DOT,
                                     .subgroup_size = 32,
                                     .max_invocations = i / 6 == 1 ? 255 : 256,
                                     .shared_bytes = i / 6 == 2 ? 32767 : 32768,
                                     .batch_invariant = i / 6 == 3};
        bool small = i / 6 == 1 || i / 6 == 2, invariant = facts.batch_invariant;
        const struct vulkan_matrix_request request =
            request_of(VULKAN_WEIGHT_Q8_0, rows[i % 6], 300, 64);
        uint32_t tile = invariant                     ? 64
                        : request.rows <= 16          ? 16
                        : request.rows <= 32 || small ? 32
                                                      : 64;
        expect_tiling(&facts, &request,
                      (struct vulkan_matrix_tiling){.path = VULKAN_MATRIX_TILE,
                                                    .rows = tile,
                                                    .columns = 64,
                                                    .k = 32,
                                                    .part_rows = tile == 16 ? 2 : 4,
                                                    .part_columns = 4,
                                                    .splits = 1});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_by_rows_and_shared_memory),
        cmocka_unit_test(tiles_by_invocations),
        cmocka_unit_test(tiles_of_small_units),
        cmocka_unit_test(units_that_are_used),
        cmocka_unit_test(the_largest_unit_is_taken),
        cmocka_unit_test(splits_fill_the_units),
        cmocka_unit_test(small_products_have_small_tiles),
        cmocka_unit_test(fragments_are_narrow_where_outputs_are_few),
        cmocka_unit_test(lanes_of_a_processor),
        cmocka_unit_test(tiles_without_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
