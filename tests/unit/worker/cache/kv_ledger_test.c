/*
 * The next worker's prefix cache is the last one's: after random operations on pools and prefix cache
 * with steps under way, what is restored from the ledger is exactly what was kept and whose steps
 * were done, in the same eviction order. Damaged records are dropped, and nothing is restored that
 * was not committed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/cache/kv_pools.h"
#include "worker/cache/prefix_cache.h"

#define BLOCKS   24u
#define WINDOWED 10u
#define SLOTS    5u
#define PREFIXES 60u
#define RECORDS  (BLOCKS + WINDOWED + SLOTS)

static const uint32_t counts[PREFIX_STORES] = {
    [0] = BLOCKS, [1] = WINDOWED, [PREFIX_CHECKPOINT] = SLOTS};
static const uint32_t stores[] = {0, 1, PREFIX_CHECKPOINT};

struct scene {
    struct kv_ledger_record records[RECORDS];
    struct kv_layout layout;
    struct kv_ledger *ledger;
    struct kv_pools pools;
    struct prefix_block blocks[PREFIXES];
    /* Of each prefix and store: number of launched steps when it was kept, 0 if it is not. */
    uint64_t kept_at[PREFIXES][PREFIX_STORES];
    uint64_t launched, finished;
    struct test_random random;
};

static struct kv_block_pool *pool_of(struct scene *scene, uint32_t store)
{
    return store == PREFIX_CHECKPOINT ? scene->pools.checkpoints : scene->pools.group[store];
}

/* A worker on the records that the scene has. */
static void open_worker(struct scene *scene)
{
    struct kv_ledger_memory memory = {.records = scene->records, .key = {{3, 4}}};
    memcpy(memory.counts, counts, sizeof counts);
    scene->launched = scene->finished = 0;
    assert_int_equal(kv_ledger_create(&memory, &scene->ledger), RESULT_OK);
    struct kv_pools_options options = {.layout = &scene->layout,
                                       .blocks = {BLOCKS, WINDOWED},
                                       .state_slots = 2,
                                       .checkpoint_slots = SLOTS,
                                       .keeps_prefixes = true,
                                       .ledger = scene->ledger};
    assert_int_equal(kv_pools_init(&scene->pools, &options), RESULT_OK);
}

static void close_worker(struct scene *scene)
{
    prefix_cache_detach(scene->pools.prefixes);
    kv_pools_fini(&scene->pools);
    kv_ledger_destroy(scene->ledger);
}

static void open_scene(struct scene *scene, uint64_t seed)
{
    *scene = (struct scene){.random = {.state = seed}, .layout = {.group_count = 2}};
    scene->layout.groups[0].kind = KV_FULL;
    scene->layout.groups[1] = (struct kv_group){.kind = KV_SLIDING, .window = 32};
    for (uint32_t i = 0; i < PREFIXES; i++)
        scene->blocks[i].tokens[0] = i + 1;
    open_worker(scene);
}

static uint32_t find(struct scene *scene, uint32_t prefix)
{
    const struct prefix_block *block = &scene->blocks[prefix];
    return prefix_cache_find(scene->pools.prefixes, prefix_cache_name(scene->pools.prefixes, block),
                             block);
}

static bool is_kept(struct scene *scene, uint32_t prefix, uint32_t store)
{
    struct kv_block_ref ref;
    uint32_t place = find(scene, prefix);
    return place != PREFIX_PLACE_NONE &&
           prefix_cache_has(scene->pools.prefixes, place, store, &ref);
}

/* Eviction drops more than one block at times, so the list is made to agree afterwards. */
static void follow(struct scene *scene)
{
    for (uint32_t i = 0; i < PREFIXES; i++)
        for (uint32_t s = 0; s < 3; s++)
            if (!is_kept(scene, i, stores[s]))
                scene->kept_at[i][stores[s]] = 0;
}

static void keep(struct scene *scene, uint32_t prefix, uint32_t store)
{
    struct kv_block_ref ref;
    struct kv_block_pool *pool = pool_of(scene, store);
    if (is_kept(scene, prefix, store))
        return;
    if (kv_block_pool_free(pool) == 0)
        assert_true(prefix_cache_evict(scene->pools.prefixes, store));
    follow(scene);
    assert_int_equal(kv_block_pool_take(pool, &ref), RESULT_OK);
    uint32_t place = prefix_cache_add(
        scene->pools.prefixes, prefix_cache_name(scene->pools.prefixes, &scene->blocks[prefix]),
        &scene->blocks[prefix]);
    prefix_cache_keep(scene->pools.prefixes, place, store, ref);
    kv_block_pool_give(pool, ref, KV_EVICT_LAST);
    scene->kept_at[prefix][store] = scene->launched;
}

static void use_again(struct scene *scene, uint32_t prefix, uint32_t store)
{
    struct kv_block_ref ref;
    if (!is_kept(scene, prefix, store))
        return;
    (void)prefix_cache_has(scene->pools.prefixes, find(scene, prefix), store, &ref);
    kv_block_pool_share(pool_of(scene, store), ref);
    kv_block_pool_give(pool_of(scene, store), ref, KV_EVICT_LAST);
}

static void step(struct scene *scene)
{
    bool launch = scene->launched == scene->finished ||
                  (scene->launched < scene->finished + 2 && test_random_below(&scene->random, 2));
    if (launch) {
        kv_ledger_launched(scene->ledger);
        scene->launched++;
    } else {
        kv_ledger_finished(scene->ledger);
        scene->finished++;
    }
}

static void live(struct scene *scene, uint32_t operations)
{
    for (uint32_t i = 0; i < operations; i++) {
        uint32_t prefix = test_random_below(&scene->random, PREFIXES);
        uint32_t store = stores[test_random_below(&scene->random, 3)];
        switch (test_random_below(&scene->random, 5)) {
        case 0: step(scene); break;
        case 1: use_again(scene, prefix, store); break;
        case 2:
            if (is_kept(scene, prefix, store))
                prefix_cache_drop(scene->pools.prefixes, find(scene, prefix), store);
            break;
        default: keep(scene, prefix, store); break;
        }
        follow(scene);
    }
}

static bool is_committed(const struct scene *scene, uint32_t prefix, uint32_t store)
{
    return scene->kept_at[prefix][store] > 0 && scene->kept_at[prefix][store] <= scene->finished;
}

/* Evicts everything from a store and notes the order of prefixes. */
static uint32_t evict_all(struct scene *scene, uint32_t store, uint32_t order[PREFIXES])
{
    uint32_t count = 0;
    for (;;) {
        bool before[PREFIXES];
        for (uint32_t i = 0; i < PREFIXES; i++)
            before[i] = is_kept(scene, i, store);
        if (!prefix_cache_evict(scene->pools.prefixes, store))
            return count;
        for (uint32_t i = 0; i < PREFIXES; i++)
            if (before[i] && !is_kept(scene, i, store))
                order[count++] = i;
    }
}

static void test_the_next_worker_has_what_was_committed(void **state)
{
    (void)state;
    static struct scene scene, before;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        open_scene(&scene, seed);
        step(&scene);
        live(&scene, 400);
        static struct kv_ledger_record left[RECORDS];
        memcpy(left, scene.records, sizeof left); /* the moment of death */
        before = scene;
        uint32_t orders[3][PREFIXES], in_order[3];
        for (uint32_t s = 0; s < 3; s++) {
            uint32_t all[PREFIXES], all_count = 0;
            /* Order as the dead worker would have evicted, without what is not committed. Evicting a
             * block of the full group drops others too, so that store comes last. */
            uint32_t store = stores[2 - s];
            all_count = evict_all(&scene, store, all);
            in_order[2 - s] = 0;
            for (uint32_t i = 0; i < all_count; i++)
                if (is_committed(&before, all[i], store))
                    orders[2 - s][in_order[2 - s]++] = all[i];
        }
        close_worker(&scene);

        memcpy(scene.records, left, sizeof left);
        open_worker(&scene);
        struct prefix_restored restored = prefix_cache_restore(scene.pools.prefixes);
        uint32_t committed = 0;
        for (uint32_t i = 0; i < PREFIXES; i++)
            for (uint32_t s = 0; s < 3; s++) {
                bool is = is_committed(&before, i, stores[s]);
                committed += is;
                assert_int_equal(is_kept(&scene, i, stores[s]), is);
            }
        assert_true(committed > 5);
        assert_int_equal(restored.blocks, committed);
        assert_int_equal(restored.damaged + restored.redundant, 0);
        for (uint32_t s = 0; s < 3; s++) {
            uint32_t order[PREFIXES];
            assert_int_equal(evict_all(&scene, stores[2 - s], order), in_order[2 - s]);
            assert_memory_equal(order, orders[2 - s], in_order[2 - s] * sizeof order[0]);
        }
        /* Everything is evicted, so nothing is left for a third worker. */
        close_worker(&scene);
        open_worker(&scene);
        assert_int_equal(prefix_cache_restore(scene.pools.prefixes).blocks, 0);
        close_worker(&scene);
    }
}

static void test_damage_is_found(void **state)
{
    (void)state;
    static struct scene scene, before;
    uint32_t damaged = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        open_scene(&scene, seed);
        step(&scene);
        live(&scene, 200);
        before = scene;
        close_worker(&scene);
        uint32_t flips = test_random_below(&scene.random, 30);
        for (uint32_t i = 0; i < flips; i++) {
            uint32_t bit = test_random_below(&scene.random, sizeof scene.records * 8);
            ((uint8_t *)scene.records)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        open_worker(&scene);
        struct prefix_restored restored = prefix_cache_restore(scene.pools.prefixes);
        assert_true(restored.damaged <= flips);
        damaged += restored.damaged;
        uint32_t found = 0;
        for (uint32_t i = 0; i < PREFIXES; i++)
            for (uint32_t s = 0; s < 3; s++) {
                if (!is_kept(&scene, i, stores[s]))
                    continue;
                found++;
                assert_true(is_committed(&before, i, stores[s]));
                struct kv_block_ref now;
                (void)prefix_cache_has(scene.pools.prefixes, find(&scene, i), stores[s], &now);
                const struct kv_ledger_record *record =
                    &kv_ledger_records(scene.ledger, stores[s])[now.block];
                assert_int_equal(record->block.tokens[0], i + 1);
            }
        assert_int_equal(found, restored.blocks);
        step(&scene);
        live(&scene, 100); /* and it can be used */
        close_worker(&scene);
    }
    assert_true(damaged > 100);
}

static uint32_t kept_number(struct scene *scene, uint32_t prefix, uint32_t store)
{
    struct kv_block_ref ref;
    assert_true(prefix_cache_has(scene->pools.prefixes, find(scene, prefix), store, &ref));
    return ref.block;
}

/* Two blocks with the same tokens, as a lying worker could record them: one is dropped. */
static void test_a_copy_is_redundant(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene, 1);
    kv_ledger_note(scene.ledger, 0, 3, &scene.blocks[7]);
    kv_ledger_note(scene.ledger, 0, 9, &scene.blocks[7]);
    close_worker(&scene);
    open_worker(&scene);
    struct prefix_restored restored = prefix_cache_restore(scene.pools.prefixes);
    assert_int_equal(restored.blocks, 1);
    assert_int_equal(restored.redundant, 1);
    assert_int_equal(kept_number(&scene, 7, 0), 3);
    close_worker(&scene);
    open_worker(&scene);
    restored = prefix_cache_restore(scene.pools.prefixes);
    assert_int_equal(restored.blocks, 1);
    assert_int_equal(restored.redundant, 0);
    assert_int_equal(kept_number(&scene, 7, 0), 3);
    close_worker(&scene);
}

static void test_equal_stamps_are_evicted_by_number(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene, 1);
    kv_ledger_note(scene.ledger, 0, 9, &scene.blocks[7]);
    kv_ledger_note(scene.ledger, 0, 3, &scene.blocks[8]);
    close_worker(&scene);
    open_worker(&scene);
    assert_int_equal(prefix_cache_restore(scene.pools.prefixes).blocks, 2);
    assert_true(prefix_cache_evict(scene.pools.prefixes, 0));
    assert_true(is_kept(&scene, 7, 0));
    assert_false(is_kept(&scene, 8, 0));
    close_worker(&scene);
}

static void test_a_block_is_recorded_once_committed(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene, 1);
    step(&scene);
    keep(&scene, 7, 0);
    uint32_t place = find(&scene, 7);
    assert_false(prefix_cache_is_recorded(scene.pools.prefixes, place, 0));
    kv_ledger_finished(scene.ledger);
    assert_true(prefix_cache_is_recorded(scene.pools.prefixes, place, 0));
    assert_false(prefix_cache_is_recorded(scene.pools.prefixes, place, 1)); /* no block there */
    close_worker(&scene);
}

static void test_a_block_is_committed_after_its_step(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene, 1);
    kv_ledger_launched(scene.ledger);
    kv_ledger_note(scene.ledger, 0, 3, &scene.blocks[7]);
    assert_false(kv_ledger_is_committed(scene.ledger, 0, 3));
    kv_ledger_launched(scene.ledger);
    kv_ledger_note(scene.ledger, 1, 3, &scene.blocks[7]);
    kv_ledger_finished(scene.ledger);
    assert_true(kv_ledger_is_committed(scene.ledger, 0, 3));
    assert_false(kv_ledger_is_committed(scene.ledger, 1, 3));
    kv_ledger_finished(scene.ledger);
    assert_true(kv_ledger_is_committed(scene.ledger, 1, 3));
    close_worker(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_next_worker_has_what_was_committed),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_a_copy_is_redundant),
        cmocka_unit_test(test_equal_stamps_are_evicted_by_number),
        cmocka_unit_test(test_a_block_is_recorded_once_committed),
        cmocka_unit_test(test_a_block_is_committed_after_its_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
