/*
 * block_table: growth and give-back compared with a plain model, the window rule as seen from every
 * later query, and that growth never holds more than kv_layout_blocks_needed() promises.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/cache/block_table.h"

#define POOL_BLOCKS 64u

static void check_table(const struct block_table *table, const struct kv_block_pool *pool)
{
    for (uint32_t at = 0; at < table->covered; at++) {
        if (at < table->first_held)
            assert_int_equal(table->blocks[at], KV_BLOCK_NONE);
        else
            assert_int_equal(kv_block_pool_references(pool, table->blocks[at]), 1);
    }
    assert_int_equal(kv_block_pool_total(pool) - kv_block_pool_free(pool), block_table_held(table));
}

static void test_random_growth_within_a_window(void **state)
{
    (void)state;
    struct test_random random = {.state = 3};
    struct kv_block_pool *pool;
    assert_int_equal(kv_block_pool_create(POOL_BLOCKS, &pool), RESULT_OK);
    for (uint32_t round = 0; round < 300; round++) {
        struct kv_layout layout = {.group_count = 1};
        uint32_t window = test_random_below(&random, 4) ? 1 + test_random_below(&random, 70) : 0;
        layout.groups[0].kind = window ? KV_SLIDING : KV_FULL;
        layout.groups[0].window = window;
        uint32_t tokens = 1 + test_random_below(&random, 900);
        uint32_t step_tokens = 1 + test_random_below(&random, 50);
        struct block_table table = {0};
        assert_int_equal(block_table_reserve(&table, tokens), RESULT_OK);
        uint32_t computed = 0;
        while (computed < tokens) {
            uint32_t rows = 1 + test_random_below(&random, step_tokens);
            rows = rows < tokens - computed ? rows : tokens - computed;
            uint32_t missing = block_table_missing(&table, computed + rows);
            uint32_t held = block_table_held(&table);
            block_table_extend(&table, pool, computed + rows);
            assert_int_equal(block_table_held(&table), held + missing);
            assert_true(block_table_held(&table) <=
                        kv_layout_blocks_needed(&layout, 0, tokens, step_tokens));
            computed += rows;
            uint32_t first_block = kv_layout_first_block(&layout, 0, computed);
            while (table.first_held < first_block && table.first_held < table.covered)
                block_table_give_first(&table, pool, KV_EVICT_FIRST);
            check_table(&table, pool);
            /* Every position that the next query sees is held, and no whole block before it is. */
            uint32_t first_seen = window && computed + 1 > window ? computed + 1 - window : 0;
            for (uint32_t at = 0; at < computed; at += KV_BLOCK_TOKENS) {
                uint32_t last = at + KV_BLOCK_TOKENS - 1;
                bool none = table.blocks[at / KV_BLOCK_TOKENS] == KV_BLOCK_NONE;
                assert_int_equal(none, last < first_seen);
            }
        }
        block_table_give_all(&table, pool);
        assert_int_equal(block_table_held(&table), 0);
        assert_int_equal(table.covered, 0);
        assert_int_equal(kv_block_pool_free(pool), POOL_BLOCKS);
        block_table_fini(&table);
    }
    kv_block_pool_destroy(pool);
}

static void test_reserve_keeps_what_is_held(void **state)
{
    (void)state;
    struct kv_block_pool *pool;
    assert_int_equal(kv_block_pool_create(POOL_BLOCKS, &pool), RESULT_OK);
    struct block_table table = {0};
    assert_int_equal(block_table_reserve(&table, 20), RESULT_OK);
    block_table_extend(&table, pool, 20);
    uint32_t first = table.blocks[0];
    assert_int_equal(block_table_reserve(&table, 10), RESULT_OK); /* never shrinks */
    assert_int_equal(block_table_reserve(&table, 500), RESULT_OK);
    assert_int_equal(table.blocks[0], first);
    assert_int_equal(block_table_missing(&table, 32), 0);
    assert_int_equal(block_table_missing(&table, 33), 1);
    block_table_give_all(&table, pool);
    block_table_fini(&table);
    kv_block_pool_destroy(pool);
}

/* One table computes; the other starts with the first one's blocks and replaces its own where both
 * hold the same. */
static void test_blocks_held_by_two_tables(void **state)
{
    (void)state;
    struct kv_block_pool *pool;
    assert_int_equal(kv_block_pool_create(POOL_BLOCKS, &pool), RESULT_OK);
    struct block_table first = {0}, second = {0};
    assert_int_equal(block_table_reserve(&first, 64), RESULT_OK);
    assert_int_equal(block_table_reserve(&second, 64), RESULT_OK);
    block_table_extend(&first, pool, 64);
    block_table_skip(&second, 1);
    assert_int_equal(second.blocks[0], KV_BLOCK_NONE);
    block_table_share(&second, pool, block_table_ref(&first, 1));
    block_table_share(&second, pool, block_table_ref(&first, 2));
    block_table_extend(&second, pool, 64);
    assert_int_equal(second.blocks[1], first.blocks[1]);
    assert_int_equal(block_table_held(&second), 3);
    assert_int_equal(kv_block_pool_references(pool, first.blocks[2]), 2);
    uint32_t own = second.blocks[3];
    block_table_replace(&second, pool, 3, block_table_ref(&first, 3));
    assert_int_equal(second.blocks[3], first.blocks[3]);
    assert_int_equal(kv_block_pool_references(pool, own), 0);
    uint32_t shared = first.blocks[1];
    block_table_give_all(&first, pool);
    assert_int_equal(kv_block_pool_references(pool, shared), 1);
    block_table_give_all(&second, pool);
    assert_int_equal(kv_block_pool_free(pool), POOL_BLOCKS);
    block_table_fini(&first);
    block_table_fini(&second);
    kv_block_pool_destroy(pool);
}

/* A table that skips all that it has room for, and which of its blocks it holds. */
static void test_holds_what_is_neither_skipped_nor_missing(void **state)
{
    (void)state;
    struct kv_block_pool *pool;
    assert_int_equal(kv_block_pool_create(POOL_BLOCKS, &pool), RESULT_OK);
    struct block_table table = {0};
    assert_int_equal(block_table_reserve(&table, 4 * 16), RESULT_OK);
    block_table_skip(&table, 4);
    assert_int_equal(block_table_held(&table), 0);
    for (uint32_t at = 0; at < 5; at++)
        assert_false(block_table_holds(&table, at));
    block_table_give_all(&table, pool);
    block_table_skip(&table, 1);
    block_table_extend(&table, pool, 3 * 16);
    for (uint32_t at = 0; at < 5; at++)
        assert_int_equal(block_table_holds(&table, at), at == 1 || at == 2);
    assert_int_equal(block_table_missing(&table, 3 * 16), 0);
    assert_int_equal(block_table_missing(&table, 3 * 16 + 1), 1);
    assert_int_equal(block_table_missing(&table, 1), 0);
    block_table_give_all(&table, pool);
    block_table_fini(&table);
    kv_block_pool_destroy(pool);
}

/* Blocks beyond the end go back, those before it and before the window stay as they are. */
static void test_cut(void **state)
{
    (void)state;
    struct kv_block_pool *pool;
    struct block_table table = {0};
    assert_int_equal(kv_block_pool_create(8, &pool), RESULT_OK);
    assert_int_equal(block_table_reserve(&table, 6 * KV_BLOCK_TOKENS), RESULT_OK);
    block_table_extend(&table, pool, 5 * KV_BLOCK_TOKENS + 1);
    block_table_give_first(&table, pool, KV_EVICT_FIRST);
    block_table_cut(&table, pool, 3 * KV_BLOCK_TOKENS + 1);
    assert_int_equal(table.covered, 4);
    check_table(&table, pool);
    block_table_cut(&table, pool, 4 * KV_BLOCK_TOKENS); /* nothing to give */
    block_table_cut(&table, pool, 6 * KV_BLOCK_TOKENS);
    assert_int_equal(block_table_held(&table), 3);
    block_table_extend(&table, pool, 6 * KV_BLOCK_TOKENS);
    check_table(&table, pool);
    block_table_cut(&table, pool, 0); /* not below the window */
    assert_int_equal(table.covered, 1);
    assert_int_equal(block_table_held(&table), 0);
    check_table(&table, pool);
    block_table_give_all(&table, pool);
    block_table_fini(&table);
    kv_block_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_growth_within_a_window),
        cmocka_unit_test(test_reserve_keeps_what_is_held),
        cmocka_unit_test(test_blocks_held_by_two_tables),
        cmocka_unit_test(test_holds_what_is_neither_skipped_nor_missing),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
