/*
 * kv_block_pool compared with a plain array of reference counts under random takes, shares and
 * gives, and that a block that is not held cannot be given back.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/test_random.h"
#include "worker/cache/kv_block_pool.h"

#define BLOCKS 37u
#define HELD   200u

static void test_random_operations_match_a_plain_array(void **state)
{
    (void)state;
    struct kv_block_pool *pool;
    assert_int_equal(kv_block_pool_create(BLOCKS, &pool), RESULT_OK);
    struct kv_block_ref held[HELD];
    uint32_t held_count = 0;
    uint32_t references[BLOCKS] = {0};
    struct test_random random = {.state = 11};
    for (uint32_t i = 0; i < 50000; i++) {
        uint32_t free_blocks = 0;
        for (uint32_t block = 0; block < BLOCKS; block++)
            free_blocks += references[block] == 0;
        assert_int_equal(kv_block_pool_free(pool), free_blocks);
        uint32_t choice = test_random_below(&random, 5);
        if (choice < 2 && held_count < HELD) {
            struct kv_block_ref ref;
            enum result result = kv_block_pool_take(pool, &ref);
            assert_int_equal(result, free_blocks > 0 ? RESULT_OK : RESULT_FULL);
            if (result == RESULT_OK) {
                assert_true(ref.block < BLOCKS);
                assert_int_equal(references[ref.block]++, 0);
                held[held_count++] = ref;
            }
        } else if (choice == 2 && held_count > 0 && held_count < HELD) {
            struct kv_block_ref ref = held[test_random_below(&random, held_count)];
            kv_block_pool_share(pool, ref);
            references[ref.block]++;
            held[held_count++] = ref;
        } else if (held_count > 0) {
            uint32_t at = test_random_below(&random, held_count);
            kv_block_pool_give(pool, held[at], KV_EVICT_LAST);
            references[held[at].block]--;
            assert_int_equal(kv_block_pool_references(pool, held[at].block),
                             references[held[at].block]);
            held[at] = held[--held_count];
        }
    }
    while (held_count > 0)
        kv_block_pool_give(pool, held[--held_count], KV_EVICT_LAST);
    assert_int_equal(kv_block_pool_free(pool), kv_block_pool_total(pool));
    kv_block_pool_destroy(pool);
}

static void test_generations_distinguish_uses(void **state)
{
    (void)state;
    struct kv_block_pool *pool;
    assert_int_equal(kv_block_pool_create(1, &pool), RESULT_OK);
    struct kv_block_ref first;
    struct kv_block_ref second;
    assert_int_equal(kv_block_pool_take(pool, &first), RESULT_OK);
    kv_block_pool_give(pool, first, KV_EVICT_LAST);
    assert_int_equal(kv_block_pool_take(pool, &second), RESULT_OK);
    assert_int_equal(first.block, second.block);
    assert_int_not_equal(first.generation, second.generation);
    kv_block_pool_give(pool, second, KV_EVICT_LAST);
    kv_block_pool_destroy(pool);
}

/* Compared with a list: kept blocks outlive their holders, in eviction order. */
static void test_idle_blocks_go_in_order(void **state)
{
    (void)state;
    struct kv_block_pool *pool;
    assert_int_equal(kv_block_pool_create(BLOCKS, &pool), RESULT_OK);
    struct test_random random = {.state = 12};
    struct kv_block_ref idle[BLOCKS]; /* the first to go at the beginning */
    uint32_t idle_count = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        struct kv_block_ref ref;
        uint32_t choice = test_random_below(&random, 4);
        if (choice == 0 && kv_block_pool_take(pool, &ref) == RESULT_OK) {
            kv_block_pool_keep(pool, ref);
            bool last = test_random_below(&random, 3) > 0;
            kv_block_pool_give(pool, ref, last ? KV_EVICT_LAST : KV_EVICT_FIRST);
            uint32_t at = last ? idle_count : 0;
            memmove(&idle[at + 1], &idle[at], (idle_count - at) * sizeof ref);
            idle[at] = ref;
            idle_count++;
        } else if (idle_count > 0) {
            uint32_t at = choice == 1 ? 0 : test_random_below(&random, idle_count);
            assert_int_equal(kv_block_pool_oldest(pool, &ref), RESULT_OK);
            assert_int_equal(ref.block, idle[0].block);
            ref = idle[at];
            memmove(&idle[at], &idle[at + 1], (--idle_count - at) * sizeof ref);
            if (choice == 3) { /* of use again: to the end of the list */
                kv_block_pool_share(pool, ref);
                assert_int_equal(kv_block_pool_references(pool, ref.block), 1);
                kv_block_pool_give(pool, ref, KV_EVICT_LAST);
                idle[idle_count++] = ref;
            } else if (choice == 2) { /* dropped while it is held */
                kv_block_pool_share(pool, ref);
                kv_block_pool_drop(pool, ref);
                kv_block_pool_give(pool, ref, KV_EVICT_LAST);
            } else {
                kv_block_pool_drop(pool, ref);
            }
        }
        assert_int_equal(kv_block_pool_idle(pool), idle_count);
        assert_int_equal(kv_block_pool_free(pool), BLOCKS - idle_count);
    }
    while (idle_count > 0)
        kv_block_pool_drop(pool, idle[--idle_count]);
    struct kv_block_ref none;
    assert_int_equal(kv_block_pool_oldest(pool, &none), RESULT_EMPTY);
    kv_block_pool_destroy(pool);
}

/* Ascending stamps: idle blocks as listed, then held ones, the last part of a sequence first. */
static void test_stamps_are_in_eviction_order(void **state)
{
    (void)state;
    struct kv_block_pool *pool;
    uint64_t stamps[5][2] = {{0}};
    assert_int_equal(kv_block_pool_create(5, &pool), RESULT_OK);
    kv_block_pool_set_stamps(pool, &stamps[0][1], sizeof stamps[0]);
    struct kv_block_ref restored = kv_block_pool_restore(pool, 2);
    kv_block_pool_restore_end(pool);
    struct kv_block_ref refs[4]; /* first to be evicted, last to be evicted, two held */
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(kv_block_pool_take(pool, &refs[i]), RESULT_OK);
        kv_block_pool_keep(pool, refs[i]);
    }
    kv_block_pool_give(pool, refs[0], KV_EVICT_FIRST);
    kv_block_pool_give(pool, refs[1], KV_EVICT_LAST);
    const uint32_t order[] = {refs[0].block, restored.block, refs[1].block, refs[3].block,
                              refs[2].block};
    for (uint32_t i = 1; i < 5; i++)
        assert_true(stamps[order[i - 1]][1] < stamps[order[i]][1]);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(stamps[i][0], 0);
    kv_block_pool_drop(pool, restored);
    for (uint32_t i = 0; i < 4; i++)
        kv_block_pool_drop(pool, refs[i]);
    kv_block_pool_give(pool, refs[2], KV_EVICT_LAST);
    kv_block_pool_give(pool, refs[3], KV_EVICT_LAST);
    kv_block_pool_destroy(pool);
}

enum misuse {
    GIVE_TWICE,
    GIVE_STALE,
    SHARE_FREE,
    GIVE_FOREIGN,
    GIVE_IDLE,
    KEEP_TWICE,
    DROP_UNKEPT,
    DESTROY_HELD
};

/* A bug, and bugs abort: run in a child process. */
static void misuse(enum misuse how)
{
    struct kv_block_pool *pool;
    struct kv_block_ref ref;
    struct kv_block_ref again;
    must(kv_block_pool_create(2, &pool) == RESULT_OK);
    must(kv_block_pool_take(pool, &ref) == RESULT_OK);
    if (how == DESTROY_HELD)
        kv_block_pool_destroy(pool);
    if (how == GIVE_FOREIGN)
        kv_block_pool_give(pool, (struct kv_block_ref){.block = 2}, KV_EVICT_LAST);
    if (how == DROP_UNKEPT)
        kv_block_pool_drop(pool, ref);
    for (enum misuse kept = GIVE_IDLE; kept <= how && how <= KEEP_TWICE; kept++)
        kv_block_pool_keep(pool, ref);
    kv_block_pool_give(pool, ref, KV_EVICT_LAST);
    if (how == SHARE_FREE)
        kv_block_pool_share(pool, ref);
    if (how == GIVE_STALE)
        must(kv_block_pool_take(pool, &again) == RESULT_OK && again.block == ref.block);
    kv_block_pool_give(pool, ref, KV_EVICT_LAST);
}

static void test_misuse_aborts(void **state)
{
    (void)state;
    for (enum misuse how = GIVE_TWICE; how <= DESTROY_HELD; how++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            close(STDERR_FILENO);
            misuse(how);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations_match_a_plain_array),
        cmocka_unit_test(test_generations_distinguish_uses),
        cmocka_unit_test(test_idle_blocks_go_in_order),
        cmocka_unit_test(test_stamps_are_in_eviction_order),
        cmocka_unit_test(test_misuse_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
