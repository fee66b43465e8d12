/*
 * bpe_merger: rows of every length give what the plain definition of BPE gives (lowest rank first,
 * leftmost of equals), on random merge tables; a million symbols take well under a second.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "frontend/prompt/tokenizer/bpe_merger.h"

/* The definition, O(n^2). */
static size_t merge_plainly(const struct bpe_merge_table *table, uint32_t ids[], size_t count)
{
    for (;;) {
        size_t best = 0;
        uint32_t best_rank = BPE_NO_RANK;
        for (size_t i = 0; i + 1 < count; i++) {
            uint32_t rank = bpe_merge_table_rank(table, ids[i], ids[i + 1]);
            if (rank < best_rank) {
                best = i;
                best_rank = rank;
            }
        }
        if (best_rank == BPE_NO_RANK)
            return count;
        ids[best] = table->merged[best_rank];
        memmove(ids + best + 1, ids + best + 2, (count - best - 2) * sizeof *ids);
        count--;
    }
}

static void check_random(unsigned seed, size_t count)
{
    struct bpe_merge_table table;
    struct bpe_merger merger = {0};
    uint32_t ids[400];
    uint32_t wanted[400];
    srand(seed);
    assert_int_equal(bpe_merge_table_init(&table, 4), RESULT_OK);
    uint32_t symbols = 2 + (uint32_t)rand() % 4;
    for (uint32_t merged = symbols; merged < symbols + 60; merged++) {
        uint32_t left = (uint32_t)rand() % merged;
        uint32_t right = (uint32_t)rand() % merged;
        assert_int_equal(bpe_merge_table_add(&table, left, right, merged), RESULT_OK);
    }
    for (size_t i = 0; i < count; i++)
        ids[i] = wanted[i] = (uint32_t)rand() % symbols;
    size_t merged_count;
    size_t wanted_count = merge_plainly(&table, wanted, count);
    assert_int_equal(bpe_merger_run(&merger, &table, ids, count, &merged_count), RESULT_OK);
    assert_int_equal(merged_count, wanted_count);
    assert_memory_equal(ids, wanted, wanted_count * sizeof *ids);
    bpe_merger_fini(&merger);
    bpe_merge_table_fini(&table);
}

static void test_every_length_equals_the_definition(void **state)
{
    (void)state;
    for (size_t count = 1; count < 400; count += count < 70 ? 1 : 37) {
        for (unsigned seed = 0; seed < 12; seed++)
            check_random(seed * 1000 + (unsigned)count, count);
    }
}

static void test_repeated_pair_takes_its_later_rank(void **state)
{
    (void)state;
    struct bpe_merge_table table;
    assert_int_equal(bpe_merge_table_init(&table, 4), RESULT_OK);
    assert_int_equal(bpe_merge_table_add(&table, 1, 2, 3), RESULT_OK);
    assert_int_equal(bpe_merge_table_add(&table, 2, 1, 4), RESULT_OK);
    assert_int_equal(bpe_merge_table_add(&table, 1, 2, 5), RESULT_OK);
    assert_int_equal(bpe_merge_table_rank(&table, 1, 2), 2);
    assert_int_equal(bpe_merge_table_rank(&table, 2, 1), 1);
    assert_true(bpe_merge_table_rank(&table, 3, 3) == BPE_NO_RANK);
    bpe_merge_table_fini(&table);
}

static void test_million_symbols_are_quick(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20 };
    struct bpe_merge_table table;
    struct bpe_merger merger = {0};
    assert_int_equal(bpe_merge_table_init(&table, 32), RESULT_OK);
    for (uint32_t id = 0; id < 12; id++) /* 1, 2, 4, 8, ... symbols in a token */
        assert_int_equal(bpe_merge_table_add(&table, id, id, id + 1), RESULT_OK);
    uint32_t *ids = calloc(COUNT, sizeof *ids);
    size_t merged_count;
    atomic_bool cancelled = true;
    merger.cancelled = &cancelled;
    assert_int_equal(bpe_merger_run(&merger, &table, ids, COUNT, &merged_count), RESULT_CANCELLED);
    cancelled = false;
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    assert_int_equal(bpe_merger_run(&merger, &table, ids, COUNT, &merged_count), RESULT_OK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_int_equal(merged_count, COUNT >> 12);
    assert_int_equal(ids[0], 12);
    assert_true(after.tv_sec - before.tv_sec < 60); /* 0.2 s; a quadratic one takes hours */
    free(ids);
    bpe_merger_fini(&merger);
    bpe_merge_table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_length_equals_the_definition),
        cmocka_unit_test(test_repeated_pair_takes_its_later_rank),
        cmocka_unit_test(test_million_symbols_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
