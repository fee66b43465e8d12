/*
 * Grids of moe_linear have room for every tile of any route, and kernels are chosen by the number
 * of pairs per expert.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/backend/vulkan/program/vulkan_moe_way.h"

#define ROUTES 200u

/* Tiles of a random route; `crowd`: maximum number of experts that rows choose from. */
static uint32_t count_tiles(struct test_random *random, uint32_t rows, uint32_t chosen,
                            uint32_t crowd, uint32_t tile_rows)
{
    uint32_t counts[LIMIT_EXPERTS] = {0}, tiles = 0;
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t first = (uint32_t)(test_random_next(random) % crowd);
        for (uint32_t j = 0; j < chosen; j++)
            counts[(first + j) % crowd]++;
    }
    for (uint32_t e = 0; e < crowd; e++)
        tiles += (counts[e] + tile_rows - 1) / tile_rows;
    return tiles;
}

static void test_every_tile_has_room(void **state)
{
    static const uint32_t rows[] = {1, 2, 3, 7, 8, 9, 33, 127, 128, 1000};
    struct test_random random = {.state = 7};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (uint32_t r = 0; r < ROUTES; r++) {
            uint32_t experts = 1 + (uint32_t)(test_random_next(&random) % 300);
            uint32_t chosen = 1 + (uint32_t)(test_random_next(&random) % 8);
            chosen = chosen < experts ? chosen : experts;
            uint32_t crowd =
                chosen + (uint32_t)(test_random_next(&random) % (experts - chosen + 1));
            uint32_t tile_rows = 1u << test_random_next(&random) % 8;
            uint32_t tiles = count_tiles(&random, rows[i], chosen, crowd, tile_rows);
            if (tiles > vulkan_moe_tile_bound(rows[i] * chosen, experts, tile_rows))
                fail_msg("%u rows, %u of %u experts: %u tiles", rows[i], chosen, experts, tiles);
        }
    }
}

/* Rows with the same choice fill tiles; the bound is reached if each expert has one pair more. */
static void test_the_bound_is_met(void **state)
{
    (void)state;
    assert_int_equal(vulkan_moe_tile_bound(8, 128, 1), 8);
    assert_int_equal(vulkan_moe_tile_bound(64, 128, 8), 64);
    assert_int_equal(vulkan_moe_tile_bound(9, 1, 8), 2);
    assert_int_equal(vulkan_moe_tile_bound(18, 2, 8), 4);
    assert_int_equal(vulkan_moe_tile_bound(256, 128, 8), 128 + 128 / 8);
}

static const struct vulkan_facts large = {.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                          .tier = VULKAN_NV_MATRIX2,
                                          .integer_dot = true,
                                          .subgroup_size = 32,
                                          .max_invocations = 1024,
                                          .shared_bytes = 49152,
                                          .compute_units = 132,
                                          .matrix_shape_count = 1,
                                          .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 16, 16}}};

static struct vulkan_moe_choice choose(const struct vulkan_facts *facts, uint32_t rows, bool gated,
                                       bool combined)
{
    const struct vulkan_moe_request request = {.kind = VULKAN_WEIGHT_Q4_0,
                                               .rows = rows,
                                               .chosen = 8,
                                               .experts = 128,
                                               .n = 768,
                                               .k = 2048,
                                               .gated = gated,
                                               .combined = combined,
                                               .output = VULKAN_FORM_F32};
    struct vulkan_moe_choice choice;
    vulkan_moe_choose(facts, &request, &choice);
    return choice;
}

static void test_kernels_are_chosen_by_pairs(void **state)
{
    (void)state;
    assert_int_equal(choose(&large, 1, true, false).mode, VULKAN_MOE_PAIRS);
    assert_int_equal(choose(&large, 1, true, false).across, 768 / 32);
    assert_int_equal(choose(&large, 1, false, true).mode, VULKAN_MOE_ROWS);
    assert_int_equal(choose(&large, 32, true, false).mode, VULKAN_MOE_GROUPS);
    assert_int_equal(choose(&large, 2048, true, false).kernel, VULKAN_MOE_MATRIX);
    assert_true(choose(&large, 2048, true, false).tile_rows >= 64);
    assert_false(vulkan_moe_combines(VULKAN_MOE_MATRIX, 1));
}

static void test_devices_without_units_or_wide_subgroups(void **state)
{
    (void)state;
    struct vulkan_facts facts = large;
    facts.tier = VULKAN_SCALAR;
    assert_int_equal(choose(&facts, 8, true, false).kernel, VULKAN_MOE_DOT);
    assert_int_equal(choose(&facts, 2048, false, false).kernel, VULKAN_MOE_PLAIN);
    facts.subgroup_size = 4; /* too few lanes to write q8 */
    assert_int_equal(choose(&facts, 1, false, false).kernel, VULKAN_MOE_PLAIN);
    facts = large;
    facts.max_invocations = 128; /* 32 columns in half of the teams */
    struct vulkan_moe_choice small = choose(&facts, 1, true, false);
    assert_int_equal(small.constants.values[VULKAN_MOE_DOT_COLUMNS], 2);
    assert_int_equal(small.across, 768 / 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tile_has_room), cmocka_unit_test(test_the_bound_is_met),
        cmocka_unit_test(test_kernels_are_chosen_by_pairs),
        cmocka_unit_test(test_devices_without_units_or_wide_subgroups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
