/*
 * Prompts' beginnings: whole blocks, in order, bounded; and the hash that they rest on against its
 * authors' vector.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "frontend/serve/worker/prefix_table.h"

static const struct keyed_hash_key key = {{0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull}};
static uint64_t hashes[PREFIX_BLOCKS_MAX];

static uint32_t hash_ids(const uint32_t *ids, size_t count)
{
    return prefix_blocks_hash(&key, ids, count, hashes);
}

static void the_hash_is_siphash_2_4(void **state)
{
    (void)state;
    uint8_t bytes[15]; /* the example of the SipHash paper, appendix A */
    for (uint8_t i = 0; i < 15; i++)
        bytes[i] = i;
    assert_true(keyed_hash(&key, bytes, 15) == 0xa129ca6149be45e5ull);
}

static void only_whole_blocks_count(void **state)
{
    (void)state;
    uint32_t ids[64] = {0};
    assert_int_equal(hash_ids(ids, 0), 0);
    assert_int_equal(hash_ids(ids, 15), 0);
    assert_int_equal(hash_ids(ids, 16), 1);
    assert_int_equal(hash_ids(ids, 63), 3);
    assert_true(hashes[0] != hashes[1]); /* the same ids, behind others */
}

static void a_shared_beginning_is_found(void **state)
{
    (void)state;
    uint32_t ids[64];
    for (uint32_t i = 0; i < 64; i++)
        ids[i] = i;
    struct prefix_table *table = prefix_table_create();
    uint32_t blocks = hash_ids(ids, 64);
    assert_int_equal(prefix_table_shared(table, hashes, blocks), 0);
    prefix_table_add(table, hashes, blocks);
    assert_int_equal(prefix_table_shared(table, hashes, blocks), 4);
    ids[40] = 999; /* in the third block: the fourth differs too */
    blocks = hash_ids(ids, 64);
    assert_int_equal(prefix_table_shared(table, hashes, blocks), 2);
    prefix_table_clear(table);
    assert_int_equal(prefix_table_shared(table, hashes, blocks), 0);
    prefix_table_destroy(table);
}

static void what_was_used_longest_ago_goes_first(void **state)
{
    (void)state;
    struct prefix_table *table = prefix_table_create();
    uint64_t precious = 42;
    for (uint64_t other = 0; other < 100000; other++) {
        uint64_t hash = 1000000 + other;
        prefix_table_add(table, &hash, 1);
        prefix_table_add(table, &precious, 1); /* used all the time */
    }
    assert_int_equal(prefix_table_shared(table, &precious, 1), 1);
    uint32_t left = 0;
    for (uint64_t other = 0; other < 100000; other++) {
        uint64_t hash = 1000000 + other;
        left += prefix_table_shared(table, &hash, 1);
    }
    assert_true(left > 10000 && left <= 16384); /* bounded, and used */
    prefix_table_destroy(table);
}

static void a_very_long_prompt_is_cut(void **state)
{
    (void)state;
    size_t count = (PREFIX_BLOCKS_MAX + 5) * PREFIX_BLOCK_TOKENS;
    uint32_t *ids = calloc(count, sizeof *ids);
    assert_int_equal(hash_ids(ids, count), PREFIX_BLOCKS_MAX);
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_siphash_2_4),
        cmocka_unit_test(only_whole_blocks_count),
        cmocka_unit_test(a_shared_beginning_is_found),
        cmocka_unit_test(what_was_used_longest_ago_goes_first),
        cmocka_unit_test(a_very_long_prompt_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
