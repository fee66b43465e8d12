/*
 * Grids of moe_linear have room for every tile that routes can need, whatever they are, and up to
 * eight rows an expert is one tile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/backend/vulkan/vulkan_moe.h"

#define ROUTES 200u

/* Tiles of a random route; `crowd`: how many experts rows choose among at most. */
static uint32_t count_tiles(struct test_random *random, uint32_t rows, uint32_t chosen,
                            uint32_t crowd)
{
    uint32_t counts[LIMIT_EXPERTS] = {0}, tiles = 0;
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t first = (uint32_t)(test_random_next(random) % crowd);
        for (uint32_t j = 0; j < chosen; j++)
            counts[(first + j) % crowd]++;
    }
    uint32_t tile_rows = vulkan_moe_tile_rows(rows);
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
            uint32_t tiles = count_tiles(&random, rows[i], chosen, crowd);
            if (tiles > vulkan_moe_tile_bound(rows[i], chosen, experts))
                fail_msg("%u rows, %u of %u experts: %u tiles", rows[i], chosen, experts, tiles);
        }
    }
}

/* Rows that all choose alike fill tiles; the bound is met where each expert has one over. */
static void test_the_bound_is_met(void **state)
{
    (void)state;
    assert_int_equal(vulkan_moe_tile_bound(1, 8, 128), 8);
    assert_int_equal(vulkan_moe_tile_bound(8, 8, 128), 64);
    assert_int_equal(vulkan_moe_tile_bound(9, 1, 1), 2);
    assert_int_equal(vulkan_moe_tile_bound(9, 2, 2), 4);
    assert_int_equal(vulkan_moe_tile_bound(32, 8, 128), 128 + 128 / 8);
}

static void test_few_rows_are_one_tile(void **state)
{
    (void)state;
    for (uint32_t rows = 1; rows <= 8; rows++)
        assert_true(vulkan_moe_tile_rows(rows) >= rows);
    assert_int_equal(vulkan_moe_tile_rows(3), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_tile_has_room),
                                       cmocka_unit_test(test_the_bound_is_met),
                                       cmocka_unit_test(test_few_rows_are_one_tile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
