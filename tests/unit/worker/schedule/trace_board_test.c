/*
 * The map of the KV cache is written once for each look; blocks share its cells evenly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/schedule/trace_board.h"

static struct kv_layout two_groups(void)
{
    struct kv_layout layout = {.group_count = 2};
    layout.groups[1] = (struct kv_group){.kind = KV_SLIDING, .window = 32};
    return layout;
}

static void few_blocks_have_a_cell_each(void **state)
{
    (void)state;
    const struct kv_layout layout = two_groups();
    struct kv_pools pools;
    const struct kv_pools_options options = {.layout = &layout, .blocks = {6, 9}};
    assert_int_equal(kv_pools_init(&pools, &options), RESULT_OK);
    struct kv_block_ref held[4];
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(kv_block_pool_take(pools.group[i > 0], &held[i]), RESULT_OK);
    static struct step_trace trace;
    struct trace_board board = {.trace = &trace};
    trace_board_show_cells(&board, &pools); /* before the first look */
    assert_int_equal(trace.cell_count, 0);
    trace.looks++;
    trace_board_show_cells(&board, &pools);
    assert_int_equal(trace.cell_count, 15);
    for (uint32_t i = 0; i < 15; i++)
        assert_int_equal(trace.cells[i], kv_pools_count(&pools, i, 1).used ? 0x0f : 0);
    trace.cells[0] = 0x77;
    trace_board_show_cells(&board, &pools);
    assert_int_equal(trace.cells[0], 0x77);
    for (uint32_t i = 0; i < 4; i++)
        kv_block_pool_give(pools.group[i > 0], held[i], KV_EVICT_LAST);
    kv_pools_fini(&pools);
}

static void many_blocks_share_cells(void **state)
{
    (void)state;
    const struct kv_layout layout = two_groups();
    struct kv_pools pools;
    const struct kv_pools_options options = {.layout = &layout, .blocks = {2000, 1001}};
    assert_int_equal(kv_pools_init(&pools, &options), RESULT_OK);
    static struct kv_block_ref held[2000];
    for (uint32_t i = 0; i < 2000; i++)
        assert_int_equal(kv_block_pool_take(pools.group[0], &held[i]), RESULT_OK);
    static struct step_trace trace;
    struct trace_board board = {.trace = &trace};
    trace.looks = UINT32_MAX;
    trace_board_show_cells(&board, &pools);
    assert_int_equal(trace.cell_count, STEP_TRACE_CELLS);
    uint32_t last = 2000u * STEP_TRACE_CELLS / 3001; /* holds blocks of both groups */
    for (uint32_t i = 0; i < STEP_TRACE_CELLS; i++) {
        if (i == last)
            assert_in_range(trace.cells[i], 1, 14);
        else
            assert_int_equal(trace.cells[i], i < last ? 15 : 0);
    }
    for (uint32_t i = 0; i < 2000; i++)
        kv_block_pool_give(pools.group[0], held[i], KV_EVICT_LAST);
    kv_pools_fini(&pools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_blocks_have_a_cell_each),
        cmocka_unit_test(many_blocks_share_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
