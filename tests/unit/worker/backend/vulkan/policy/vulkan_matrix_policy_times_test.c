/*
 * Tiles and splits that take the least time by what was measured on an H200, over drawn shapes. The
 * measured figures stand here a second time, so that a change of one is a decision.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

enum { DRAWS = 60000 };

static struct vulkan_facts device(enum vulkan_tier tier, uint32_t units)
{
    return (struct vulkan_facts){.tier = tier,
                                 .matrix_khr = true,
                                 .matrix_nv2 = true,
                                 .matrix_registers = true,
                                 .matrix_shape_count = 1,
                                 .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 16, 16}},
                                 .subgroup_size = 32,
                                 .max_invocations = 1024,
                                 .shared_bytes = 65536,
                                 .compute_units = units};
}

static uint64_t rounds_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static bool is_gated(const struct vulkan_matrix_request *request)
{
    return request->epilogue == VULKAN_LINEAR_GATE_SILU ||
           request->epilogue == VULKAN_LINEAR_GATE_GELU;
}

/* Outputs of a tile of so many columns cover those of the request. */
static uint64_t tiles_of(const struct vulkan_matrix_request *request, uint32_t rows,
                         uint32_t columns)
{
    uint32_t halves = is_gated(request) ? 2 : 1;
    return rounds_up(request->rows, rows) * rounds_up(request->n / halves, columns / halves);
}

static uint32_t drawn_units(struct test_random *random)
{
    return test_random_below(random, 4) ? 132 : test_random_below(random, 3);
}

/* --- kernels in PTX ------------------------------------------------------------------------------ */

/* Rows of a tile, and hundredths of microseconds that 128 columns of it take. */
static const struct {
    uint32_t rows, step;
} ptx_tiles[] = {{16, 85}, {32, 108}, {64, 130}, {128, 190}};
static const uint32_t ptx_group_time = 600;     /* a workgroup's begin and end */
static const uint32_t ptx_fold_time = 250;      /* of a split, in the workgroup of its tile */
static const uint32_t ptx_sum_time = 400;       /* of the kernel that adds splits, and */
static const uint32_t ptx_sum_rows_percent = 7; /* for each of their rows */

static uint64_t ptx_time(const struct vulkan_facts *facts,
                         const struct vulkan_matrix_request *request, size_t tile, uint32_t splits,
                         bool folded)
{
    uint64_t units = facts->compute_units ? facts->compute_units : 64;
    uint64_t tiles = tiles_of(request, ptx_tiles[tile].rows, 256), steps = request->k / 128;
    uint64_t groups = folded ? tiles : tiles * splits;
    uint64_t group_steps = folded ? steps : rounds_up(steps, splits);
    uint64_t group_time =
        group_steps * ptx_tiles[tile].step + ptx_group_time + (folded ? ptx_fold_time * splits : 0);
    uint64_t sum = ptx_sum_time + groups * ptx_tiles[tile].rows * ptx_sum_rows_percent / 100;
    return rounds_up(groups, units) * group_time + (splits > 1 && !folded ? sum : 0);
}

static bool has_small_tiles(enum vulkan_weight_kind kind)
{
    return kind != VULKAN_WEIGHT_F32 && kind != VULKAN_WEIGHT_F16 && kind != VULKAN_WEIGHT_BF16;
}

static size_t ptx_tile(const struct vulkan_matrix_request *request)
{
    size_t smallest = has_small_tiles(request->kind) ? 0 : 2;
    size_t tile = request->rows <= 16 ? 0 : request->rows <= 32 ? 1 : request->rows <= 64 ? 2 : 3;
    return tile > smallest ? tile : smallest;
}

/* Of equally fast ones the fewest. */
static uint32_t fastest_splits(const struct vulkan_facts *facts,
                               const struct vulkan_matrix_request *request)
{
    uint32_t best = 1, steps = request->k / 128;
    for (uint32_t splits = 2; splits <= 16 && splits <= steps; splits++)
        if (ptx_time(facts, request, ptx_tile(request), splits, false) <
            ptx_time(facts, request, ptx_tile(request), best, false))
            best = splits;
    return best;
}

static struct vulkan_matrix_request drawn_ptx(struct test_random *random, bool invariant)
{
    static const enum vulkan_weight_kind kinds[] = {VULKAN_WEIGHT_Q4_0, VULKAN_WEIGHT_F8_32,
                                                    VULKAN_WEIGHT_F16, VULKAN_WEIGHT_F32};
    static const uint32_t most_rows[] = {8, 140, 4000};
    enum vulkan_weight_kind kind = kinds[test_random_below(random, 4)];
    uint32_t fewest = invariant ? 1 : has_small_tiles(kind) ? 25 : 33;
    return (struct vulkan_matrix_request){
        .kind = kind,
        .rows = fewest + test_random_below(random, most_rows[test_random_below(random, 3)]),
        .n = 2 * (1 + test_random_below(random, test_random_below(random, 2) ? 4000 : 20000)),
        .k = 128 * (1 + test_random_below(random, test_random_below(random, 2) ? 20 : 600)),
        .epilogue = test_random_below(random, 2) ? VULKAN_LINEAR_STORE : VULKAN_LINEAR_GATE_GELU,
        .forms = VULKAN_FORM_F32,
        .staged = true};
}

static void expect_ptx(const struct vulkan_matrix_tiling *tiling, size_t tile, uint32_t splits,
                       bool folded)
{
    assert_int_equal(tiling->path, VULKAN_MATRIX_PTX);
    assert_int_equal(tiling->rows, ptx_tiles[tile].rows);
    assert_int_equal(tiling->columns, 256);
    assert_int_equal(tiling->k, 128);
    assert_int_equal(tiling->invocations, 512);
    assert_int_equal(tiling->splits, splits);
    assert_int_equal(tiling->folded, folded);
}

static void ptx_splits_take_the_least_time(void **state)
{
    (void)state;
    struct test_random random = {31};
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct vulkan_facts facts = device(VULKAN_PTX, drawn_units(&random));
        struct vulkan_matrix_request request = drawn_ptx(&random, false);
        struct vulkan_matrix_tiling tiling = vulkan_matrix_tiling_choose(&facts, &request);
        expect_ptx(&tiling, ptx_tile(&request), fastest_splits(&facts, &request), false);
    }
}

/* The splits of one row for any number of rows; of floats, which have no folded tiles, at most four. */
static void invariant_ptx_splits_are_those_of_one_row(void **state)
{
    (void)state;
    struct test_random random = {32};
    uint32_t folded_count = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct vulkan_facts facts = device(VULKAN_PTX, drawn_units(&random));
        facts.batch_invariant = true;
        struct vulkan_matrix_request request = drawn_ptx(&random, true), one = request;
        one.rows = 1;
        uint32_t splits = fastest_splits(&facts, &one);
        bool packed = has_small_tiles(request.kind);
        splits = packed || splits < 4 ? splits : 4;
        size_t tile = ptx_tile(&request);
        bool folded = packed && tile == 3 && splits > 1 &&
                      ptx_time(&facts, &request, tile, splits, true) <
                          ptx_time(&facts, &request, tile, splits, false);
        struct vulkan_matrix_tiling tiling = vulkan_matrix_tiling_choose(&facts, &request);
        expect_ptx(&tiling, tile, splits, folded);
        folded_count += folded;
    }
    assert_in_range(folded_count, DRAWS / 50, DRAWS / 2);
}

/* Shapes whose folded tiles are faster by less than a hundredth of a microsecond a round. */
static void tiles_are_folded_where_that_is_just_faster(void **state)
{
    (void)state;
    static const uint32_t cases[][4] = {
        {1920, 9216, 16128, 3}, {1920, 13824, 20224, 2}, {2176, 512, 2176, 9}};
    struct vulkan_facts facts = device(VULKAN_PTX, 132);
    facts.batch_invariant = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct vulkan_matrix_request request = {.kind = VULKAN_WEIGHT_Q4_0,
                                                      .rows = cases[i][0],
                                                      .n = cases[i][1],
                                                      .k = cases[i][2],
                                                      .forms = VULKAN_FORM_F32,
                                                      .staged = true};
        struct vulkan_matrix_tiling tiling = vulkan_matrix_tiling_choose(&facts, &request);
        expect_ptx(&tiling, 3, cases[i][3], true);
    }
}

static void ptx_needs_staged_rows_whole_steps_and_its_tier(void **state)
{
    (void)state;
    for (uint32_t invariant = 0; invariant < 2; invariant++) {
        struct vulkan_facts facts = device(VULKAN_PTX, 132);
        facts.batch_invariant = invariant;
        struct vulkan_matrix_request request = {.kind = VULKAN_WEIGHT_Q4_0,
                                                .rows = 64,
                                                .n = 4096,
                                                .k = 4096,
                                                .forms = VULKAN_FORM_F32,
                                                .staged = true};
        assert_int_equal(vulkan_matrix_tiling_choose(&facts, &request).path, VULKAN_MATRIX_PTX);
        request.staged = false;
        assert_int_equal(vulkan_matrix_tiling_choose(&facts, &request).path,
                         VULKAN_MATRIX_FRAGMENT);
        request.staged = true;
        request.k += 32;
        assert_int_equal(vulkan_matrix_tiling_choose(&facts, &request).path,
                         VULKAN_MATRIX_FRAGMENT);
        request.k -= 32;
        facts.tier = VULKAN_NV_MATRIX2;
        assert_int_equal(vulkan_matrix_tiling_choose(&facts, &request).path,
                         VULKAN_MATRIX_FRAGMENT);
    }
}

/* --- matrices of workgroups ---------------------------------------------------------------------- */

/* Sizes, and per cent of the largest one's speed that they reach. */
static const struct {
    uint32_t rows, columns, invocations, percent;
} nv2_tiles[] = {{128, 256, 256, 100}, {128, 128, 256, 98}, {64, 128, 128, 68}, {64, 64, 128, 68}};

/* Bytes of the decoded matrix: gate rows, then outputs filled up to whole tiles. */
static uint64_t nv2_unpacked_bytes(const struct vulkan_matrix_request *request, uint32_t columns)
{
    uint64_t halves = is_gated(request) ? 2 : 1, outputs = request->n / halves;
    uint64_t tiled = rounds_up(outputs, columns / halves) * (columns / halves);
    return (request->n - outputs + tiled) * request->k * 2;
}

static bool nv2_is_unpacked(const struct vulkan_matrix_request *request, uint32_t columns)
{
    uint64_t bytes = nv2_unpacked_bytes(request, columns);
    return bytes <= request->scratch_bytes ||
           (request->kind == VULKAN_WEIGHT_F16 && bytes == 2ull * request->n * request->k);
}

static void check_nv2(const struct vulkan_facts *facts, const struct vulkan_matrix_request *request)
{
    uint64_t units = facts->compute_units ? facts->compute_units : 64, best_time = UINT64_MAX;
    size_t best = 4;
    for (size_t i = 0; i < 4; i++) {
        bool unpacked = nv2_is_unpacked(request, nv2_tiles[i].columns);
        if (!unpacked && request->kind == VULKAN_WEIGHT_F16)
            continue; /* no kernel reads it without whole tiles */
        if (!unpacked && i == 0)
            continue; /* decoding takes twice the time there */
        uint64_t sums = (uint64_t)nv2_tiles[i].rows * nv2_tiles[i].columns;
        uint64_t rounds =
            rounds_up(tiles_of(request, nv2_tiles[i].rows, nv2_tiles[i].columns), units);
        uint64_t time = rounds * sums * 100 / nv2_tiles[i].percent;
        if (time < best_time) {
            best_time = time;
            best = i;
        }
    }
    struct vulkan_matrix_tiling tiling = vulkan_matrix_tiling_choose(facts, request);
    if (best == 4) {
        assert_int_equal(tiling.path, VULKAN_MATRIX_KHR);
        return;
    }
    bool unpacked = nv2_is_unpacked(request, nv2_tiles[best].columns);
    assert_int_equal(tiling.path, unpacked ? VULKAN_MATRIX_NV2_UNPACKED : VULKAN_MATRIX_NV2_PACKED);
    assert_int_equal(tiling.rows, nv2_tiles[best].rows);
    assert_int_equal(tiling.columns, nv2_tiles[best].columns);
    assert_int_equal(tiling.invocations, nv2_tiles[best].invocations);
    assert_int_equal(tiling.k, 64);
    assert_int_equal(tiling.splits, 1);
}

static void workgroups_tiles_take_the_least_time(void **state)
{
    (void)state;
    struct test_random random = {33};
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct vulkan_facts facts = device(VULKAN_NV_MATRIX2, drawn_units(&random));
        struct vulkan_matrix_request request = {
            .kind = i % 3 ? VULKAN_WEIGHT_Q4_0 : VULKAN_WEIGHT_F16,
            .rows = 129 + test_random_below(&random, 1500),
            .n = 2 * (1 + test_random_below(&random, 12000)),
            .k = 32 * (1 + test_random_below(&random, 200)),
            .epilogue = i % 5 ? VULKAN_LINEAR_STORE : VULKAN_LINEAR_GATE_SILU,
            .forms = VULKAN_FORM_F32,
        };
        if (i % 4 == 0)
            request.n = request.n / 64 * 64 + 64;
        /* No room, enough for whole tiles of one size, or one byte less. */
        uint32_t columns = nv2_tiles[test_random_below(&random, 4)].columns;
        uint32_t room = test_random_below(&random, 3);
        request.scratch_bytes = room ? nv2_unpacked_bytes(&request, columns) - (room - 1) : 0;
        check_nv2(&facts, &request);
    }
}

static void workgroups_tiles_are_for_more_than_128_rows(void **state)
{
    (void)state;
    struct vulkan_facts facts = device(VULKAN_NV_MATRIX2, 132);
    struct vulkan_matrix_request request = {.kind = VULKAN_WEIGHT_Q4_0,
                                            .rows = 128,
                                            .n = 4096,
                                            .k = 4096,
                                            .forms = VULKAN_FORM_F32,
                                            .scratch_bytes = 1u << 30};
    assert_int_equal(vulkan_matrix_tiling_choose(&facts, &request).path, VULKAN_MATRIX_FRAGMENT);
    request.rows++;
    assert_int_equal(vulkan_matrix_tiling_choose(&facts, &request).path,
                     VULKAN_MATRIX_NV2_UNPACKED);
    facts.tier = VULKAN_KHR_MATRIX;
    assert_int_equal(vulkan_matrix_tiling_choose(&facts, &request).path, VULKAN_MATRIX_KHR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ptx_splits_take_the_least_time),
        cmocka_unit_test(invariant_ptx_splits_are_those_of_one_row),
        cmocka_unit_test(tiles_are_folded_where_that_is_just_faster),
        cmocka_unit_test(ptx_needs_staged_rows_whole_steps_and_its_tier),
        cmocka_unit_test(workgroups_tiles_take_the_least_time),
        cmocka_unit_test(workgroups_tiles_are_for_more_than_128_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
