/*
 * The pools of one worker: which are made, what their sums count, and making room by eviction.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/cache/kv_pools.h"

static struct kv_layout two_groups(void)
{
    struct kv_layout layout = {.group_count = 2};
    layout.groups[1] = (struct kv_group){.kind = KV_SLIDING, .window = 32};
    return layout;
}

static void only_the_pools_asked_for_are_made(void **state)
{
    (void)state;
    const struct kv_layout layout = two_groups();
    for (uint32_t slots = 0; slots <= 2; slots++) {
        for (uint32_t checkpoints = 0; checkpoints <= 2; checkpoints++) {
            for (uint32_t keeps = 0; keeps <= 1; keeps++) {
                struct kv_pools pools;
                const struct kv_pools_options options = {.layout = &layout,
                                                         .blocks = {3, 5},
                                                         .state_slots = slots,
                                                         .checkpoint_slots = checkpoints,
                                                         .keeps_prefixes = keeps};
                assert_int_equal(kv_pools_init(&pools, &options), RESULT_OK);
                assert_ptr_equal(pools.layout, &layout);
                assert_int_equal(kv_block_pool_total(pools.group[0]), 3);
                assert_int_equal(kv_block_pool_total(pools.group[1]), 5);
                assert_null(pools.group[2]);
                assert_int_equal(pools.state != NULL, slots > 0);
                assert_int_equal(pools.checkpoints != NULL, checkpoints > 0);
                assert_int_equal(pools.prefixes != NULL, keeps);
                if (slots > 0)
                    assert_int_equal(kv_block_pool_total(pools.state), slots);
                if (checkpoints > 0)
                    assert_int_equal(kv_block_pool_total(pools.checkpoints), checkpoints);
                kv_pools_fini(&pools);
                assert_null(pools.group[0]);
                assert_null(pools.group[1]);
                assert_null(pools.state);
                assert_null(pools.checkpoints);
                assert_null(pools.prefixes);
            }
        }
    }
}

/* Takes a block of the group and leaves it to the prefix cache. */
static void keep_block(struct kv_pools *pools, uint32_t group, uint32_t number)
{
    struct prefix_block block = {.parent = {{number, group}}, .tokens = {number}};
    struct prefix_name name = prefix_cache_name(pools->prefixes, &block);
    struct kv_block_ref ref;
    assert_int_equal(kv_block_pool_take(pools->group[group], &ref), RESULT_OK);
    uint32_t place = prefix_cache_add(pools->prefixes, name, &block);
    prefix_cache_keep(pools->prefixes, place, group, ref);
    kv_block_pool_give(pools->group[group], ref, KV_EVICT_LAST);
}

static void parts_are_counted_over_the_groups(void **state)
{
    (void)state;
    const struct kv_layout layout = two_groups();
    struct kv_pools pools;
    const struct kv_pools_options options = {
        .layout = &layout, .blocks = {6, 9}, .keeps_prefixes = true};
    assert_int_equal(kv_pools_init(&pools, &options), RESULT_OK);
    for (uint32_t i = 0; i < 2; i++)
        keep_block(&pools, 0, i);
    keep_block(&pools, 1, 7);
    struct kv_block_ref held[4];
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(kv_block_pool_take(pools.group[i > 0], &held[i]), RESULT_OK);
    for (uint32_t first = 0; first <= 15; first++) {
        for (uint32_t count = 0; first + count <= 15; count++) {
            struct kv_pools_part part = kv_pools_count(&pools, first, count);
            uint32_t used = 0, cached = 0;
            for (uint32_t i = first; i < first + count; i++) {
                const struct kv_block_pool *pool = pools.group[i >= 6];
                used += kv_block_pool_references(pool, i < 6 ? i : i - 6) > 0;
                cached += kv_block_pool_is_idle(pool, i < 6 ? i : i - 6);
            }
            assert_int_equal(part.used, used);
            assert_int_equal(part.cached, cached);
        }
    }
    struct kv_pools_part all = kv_pools_count(&pools, 0, 15);
    assert_int_equal(all.used, 4);
    assert_int_equal(all.cached, 3);
    for (uint32_t i = 0; i < 4; i++)
        kv_block_pool_give(pools.group[i > 0], held[i], KV_EVICT_LAST);
    kv_pools_fini(&pools);
}

static void sums_count_held_and_kept_blocks_apart(void **state)
{
    (void)state;
    const struct kv_layout layout = two_groups();
    struct kv_pools pools;
    const struct kv_pools_options options = {
        .layout = &layout, .blocks = {6, 9}, .keeps_prefixes = true};
    assert_int_equal(kv_pools_init(&pools, &options), RESULT_OK);
    assert_int_equal(kv_pools_total(&pools), 15);
    assert_int_equal(kv_pools_used(&pools), 0);
    assert_int_equal(kv_pools_cached(&pools), 0);
    struct kv_block_ref held[3];
    assert_int_equal(kv_block_pool_take(pools.group[0], &held[0]), RESULT_OK);
    assert_int_equal(kv_block_pool_take(pools.group[1], &held[1]), RESULT_OK);
    assert_int_equal(kv_block_pool_take(pools.group[1], &held[2]), RESULT_OK);
    for (uint32_t i = 0; i < 3; i++)
        keep_block(&pools, 0, i);
    keep_block(&pools, 1, 7);
    assert_int_equal(kv_pools_total(&pools), 15);
    assert_int_equal(kv_pools_used(&pools), 3);
    assert_int_equal(kv_pools_cached(&pools), 4);
    assert_int_equal(kv_pools_available(&pools, 0), 5);
    assert_int_equal(kv_pools_available(&pools, 1), 7);

    /* Two are free: room for two evicts nothing, room for four evicts two, for all available all. */
    kv_pools_make_room(&pools, 0, 2);
    assert_int_equal(kv_block_pool_free(pools.group[0]), 2);
    assert_int_equal(kv_pools_cached(&pools), 4);
    kv_pools_make_room(&pools, 0, 4);
    assert_int_equal(kv_block_pool_free(pools.group[0]), 4);
    assert_int_equal(kv_pools_cached(&pools), 2);
    kv_pools_make_room(&pools, 0, 5);
    assert_int_equal(kv_block_pool_free(pools.group[0]), 5);
    assert_int_equal(kv_pools_cached(&pools), 1);
    assert_int_equal(kv_pools_available(&pools, 0), 5);
    assert_int_equal(kv_pools_used(&pools), 3);
    kv_block_pool_give(pools.group[0], held[0], KV_EVICT_LAST);
    kv_block_pool_give(pools.group[1], held[1], KV_EVICT_LAST);
    kv_block_pool_give(pools.group[1], held[2], KV_EVICT_LAST);
    assert_int_equal(kv_pools_used(&pools), 0);
    kv_pools_fini(&pools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_pools_asked_for_are_made),
        cmocka_unit_test(sums_count_held_and_kept_blocks_apart),
        cmocka_unit_test(parts_are_counted_over_the_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
