/*
 * The prefix cache compared with a list: kept blocks are found and nothing else is, the least
 * recently used are evicted, and no block is missing at the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/test_random.h"
#include "worker/cache/kv_pools.h"
#include "worker/cache/prefix_cache.h"

#define BLOCKS   24u
#define WINDOWED 10u
#define SLOTS    5u
#define PREFIXES 60u

/* A place that may be in the cache, and its state in the list. */
struct expected {
    struct prefix_block block;
    struct prefix_name name;
    struct kv_block_ref refs[PREFIX_STORES];
    uint64_t used_at[PREFIX_STORES]; /* 0: nothing there */
};

struct scene {
    struct kv_layout layout;
    struct kv_pools pools;
    struct expected places[PREFIXES];
    uint64_t now;
    struct test_random random;
};

static struct kv_block_pool *pool_of(struct scene *scene, uint32_t store)
{
    return store == PREFIX_CHECKPOINT ? scene->pools.checkpoints : scene->pools.group[store];
}

static void open_scene(struct scene *scene)
{
    *scene = (struct scene){.random = {.state = 5}, .layout = {.group_count = 2}};
    scene->layout.groups[0].kind = KV_FULL;
    scene->layout.groups[1] = (struct kv_group){.kind = KV_SLIDING, .window = 32};
    struct kv_pools_options options = {.layout = &scene->layout,
                                       .blocks = {BLOCKS, WINDOWED},
                                       .state_slots = 2,
                                       .checkpoint_slots = SLOTS,
                                       .keeps_prefixes = true};
    assert_int_equal(kv_pools_init(&scene->pools, &options), RESULT_OK);
    const uint32_t salts[2][4] = {{0}, {7, 1}};
    for (uint32_t i = 0; i < PREFIXES; i++) {
        struct expected *place = &scene->places[i];
        place->block.parent =
            i < 2 ? prefix_cache_root(scene->pools.prefixes, salts[i]) : scene->places[i / 2].name;
        for (uint32_t t = 0; t < KV_BLOCK_TOKENS; t++)
            place->block.tokens[t] = i < 2 ? t : i % 2 * t; /* siblings differ, cousins do not */
        place->name = prefix_cache_name(scene->pools.prefixes, &place->block);
    }
}

static const uint32_t stores[] = {0, 1, PREFIX_CHECKPOINT};

static void check_places(struct scene *scene)
{
    for (uint32_t i = 0; i < PREFIXES; i++) {
        const struct expected *place = &scene->places[i];
        uint32_t at = prefix_cache_find(scene->pools.prefixes, place->name, &place->block);
        bool any = place->used_at[0] || place->used_at[1] || place->used_at[PREFIX_CHECKPOINT];
        assert_int_equal(at != PREFIX_PLACE_NONE, any);
        for (uint32_t s = 0; s < 3 && any; s++) {
            struct kv_block_ref ref;
            bool has = prefix_cache_has(scene->pools.prefixes, at, stores[s], &ref);
            assert_int_equal(has, place->used_at[stores[s]] > 0);
            if (has)
                assert_int_equal(ref.block, place->refs[stores[s]].block);
        }
    }
}

/* The next one to evict, by searching. */
static struct expected *oldest(struct scene *scene, uint32_t store)
{
    struct expected *found = NULL;
    for (uint32_t i = 0; i < PREFIXES; i++) {
        struct expected *place = &scene->places[i];
        if (place->used_at[store] > 0 && (!found || place->used_at[store] < found->used_at[store]))
            found = place;
    }
    return found;
}

static void evict(struct scene *scene, uint32_t store)
{
    struct expected *place = oldest(scene, store);
    assert_int_equal(prefix_cache_evict(scene->pools.prefixes, store), place != NULL);
    if (!place)
        return;
    if (store == 0)
        memset(place->used_at, 0, sizeof place->used_at);
    place->used_at[store] = 0;
}

static void keep(struct scene *scene, struct expected *place, uint32_t store)
{
    struct kv_block_ref ref;
    if (kv_block_pool_free(pool_of(scene, store)) == 0)
        evict(scene, store);
    if (place->used_at[store] > 0)
        return;
    assert_int_equal(kv_block_pool_take(pool_of(scene, store), &ref), RESULT_OK);
    uint32_t at = prefix_cache_add(scene->pools.prefixes, place->name, &place->block);
    prefix_cache_keep(scene->pools.prefixes, at, store, ref);
    kv_block_pool_give(pool_of(scene, store), ref, KV_EVICT_LAST);
    place->refs[store] = ref;
    place->used_at[store] = ++scene->now;
}

static void test_random_operations_match_a_list(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    for (uint32_t i = 0; i < 30000; i++) {
        struct expected *place = &scene.places[test_random_below(&scene.random, PREFIXES)];
        uint32_t store = stores[test_random_below(&scene.random, 3)];
        switch (test_random_below(&scene.random, 6)) {
        case 0: evict(&scene, store); break;
        case 1: /* of use again */
            if (place->used_at[store] == 0)
                break;
            kv_block_pool_share(pool_of(&scene, store), place->refs[store]);
            kv_block_pool_give(pool_of(&scene, store), place->refs[store], KV_EVICT_LAST);
            place->used_at[store] = ++scene.now;
            break;
        case 2:
            if (place->used_at[store] == 0)
                break;
            prefix_cache_drop(scene.pools.prefixes,
                              prefix_cache_find(scene.pools.prefixes, place->name, &place->block),
                              store);
            place->used_at[store] = 0;
            break;
        default: keep(&scene, place, store); break;
        }
        if (i % 16 == 0)
            check_places(&scene);
    }
    check_places(&scene);
    prefix_cache_reset(scene.pools.prefixes);
    assert_int_equal(prefix_cache_figures(scene.pools.prefixes).places, 0);
    assert_int_equal(kv_pools_cached(&scene.pools), 0);
    assert_int_equal(kv_pools_used(&scene.pools), 0);
    kv_pools_fini(&scene.pools);
}

/* A block held by a sequence is never evicted, even if its place is. */
static void test_held_blocks_stay(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    struct expected *place = &scene.places[0];
    struct kv_block_ref ref;
    assert_int_equal(kv_block_pool_take(scene.pools.group[0], &ref), RESULT_OK);
    uint32_t at = prefix_cache_add(scene.pools.prefixes, place->name, &place->block);
    prefix_cache_keep(scene.pools.prefixes, at, 0, ref);
    assert_true(prefix_cache_is_recorded(scene.pools.prefixes, at, 0)); /* there is no ledger */
    assert_false(prefix_cache_evict(scene.pools.prefixes, 0));
    prefix_cache_reset(scene.pools.prefixes);
    assert_int_equal(prefix_cache_find(scene.pools.prefixes, place->name, &place->block),
                     PREFIX_PLACE_NONE);
    assert_int_equal(kv_block_pool_references(scene.pools.group[0], ref.block), 1);
    kv_block_pool_give(scene.pools.group[0], ref, KV_EVICT_LAST);
    assert_int_equal(kv_block_pool_free(scene.pools.group[0]), BLOCKS);
    kv_pools_fini(&scene.pools);
}

/* The same name with other tokens: a collision of the hash. */
static void test_a_hash_collision_is_no_hit(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    keep(&scene, &scene.places[5], 0);
    struct prefix_block other = scene.places[5].block;
    other.tokens[15]++;
    struct prefix_name name = scene.places[5].name;
    assert_int_equal(prefix_cache_find(scene.pools.prefixes, name, &other), PREFIX_PLACE_NONE);
    assert_int_equal(prefix_cache_add(scene.pools.prefixes, name, &other), PREFIX_PLACE_NONE);
    other = scene.places[5].block;
    other.content[1] = 1;
    assert_int_equal(prefix_cache_find(scene.pools.prefixes, name, &other), PREFIX_PLACE_NONE);
    other = scene.places[5].block;
    other.parent.words[0]++;
    assert_int_equal(prefix_cache_find(scene.pools.prefixes, name, &other), PREFIX_PLACE_NONE);
    kv_pools_fini(&scene.pools);
}

static void test_names_depend_on_salt_and_cache(void **state)
{
    (void)state;
    static struct scene scenes[2];
    open_scene(&scenes[0]);
    open_scene(&scenes[1]);
    assert_memory_not_equal(&scenes[0].places[0].name, &scenes[0].places[1].name, 16);
    assert_memory_not_equal(&scenes[0].places[0].name, &scenes[1].places[0].name, 16);
    kv_pools_fini(&scenes[0].pools);
    kv_pools_fini(&scenes[1].pools);
}

/* Each word of the salt counts, and nothing after it. */
static void test_roots_depend_on_the_whole_salt(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    const uint32_t salt[5] = {1, 2, 3, 4, 5};
    struct prefix_name root = prefix_cache_root(scene.pools.prefixes, salt);
    for (uint32_t word = 0; word < 5; word++) {
        uint32_t other[5] = {1, 2, 3, 4, 5};
        other[word]++;
        struct prefix_name changed = prefix_cache_root(scene.pools.prefixes, other);
        assert_int_equal(memcmp(&root, &changed, sizeof root) == 0, word == 4);
    }
    kv_pools_fini(&scene.pools);
}

/* Every block of every store may have a place of its own. */
static void test_there_are_places_for_all_blocks(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    uint32_t kept = 0;
    for (uint32_t s = 0; s < 3; s++) {
        struct kv_block_ref ref;
        while (kv_block_pool_take(pool_of(&scene, stores[s]), &ref) == RESULT_OK) {
            struct prefix_block block = {.parent = {{kept, 77}}, .tokens = {kept}};
            struct prefix_name name = prefix_cache_name(scene.pools.prefixes, &block);
            uint32_t place = prefix_cache_add(scene.pools.prefixes, name, &block);
            assert_int_not_equal(place, PREFIX_PLACE_NONE);
            prefix_cache_keep(scene.pools.prefixes, place, stores[s], ref);
            kv_block_pool_give(pool_of(&scene, stores[s]), ref, KV_EVICT_LAST);
            kept++;
        }
    }
    assert_int_equal(kept, BLOCKS + WINDOWED + SLOTS);
    assert_int_equal(prefix_cache_figures(scene.pools.prefixes).places, kept);
    kv_pools_fini(&scene.pools);
}

/* Without a block of the full group nothing can resume, whichever number the group has. */
static void test_evicting_a_full_group_drops_the_others(void **state)
{
    (void)state;
    struct kv_layout layout = {.group_count = 2};
    layout.groups[0] = (struct kv_group){.kind = KV_SLIDING, .window = 32};
    struct kv_pools pools;
    const struct kv_pools_options options = {
        .layout = &layout, .blocks = {4, 4}, .keeps_prefixes = true};
    assert_int_equal(kv_pools_init(&pools, &options), RESULT_OK);
    struct prefix_block block = {.tokens = {1}};
    struct prefix_name name = prefix_cache_name(pools.prefixes, &block);
    for (uint32_t group = 0; group < 2; group++) {
        struct kv_block_ref ref;
        assert_int_equal(kv_block_pool_take(pools.group[group], &ref), RESULT_OK);
        prefix_cache_keep(pools.prefixes, prefix_cache_add(pools.prefixes, name, &block), group,
                          ref);
        kv_block_pool_give(pools.group[group], ref, KV_EVICT_LAST);
    }
    assert_true(prefix_cache_evict(pools.prefixes, 1));
    assert_int_equal(prefix_cache_find(pools.prefixes, name, &block), PREFIX_PLACE_NONE);
    assert_int_equal(kv_block_pool_free(pools.group[0]), 4);
    assert_int_equal(prefix_cache_figures(pools.prefixes).evictions, 2);
    kv_pools_fini(&pools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations_match_a_list),
        cmocka_unit_test(test_held_blocks_stay),
        cmocka_unit_test(test_a_hash_collision_is_no_hit),
        cmocka_unit_test(test_names_depend_on_salt_and_cache),
        cmocka_unit_test(test_roots_depend_on_the_whole_salt),
        cmocka_unit_test(test_there_are_places_for_all_blocks),
        cmocka_unit_test(test_evicting_a_full_group_drops_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
