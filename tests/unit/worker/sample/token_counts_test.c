/*
 * token_counts compared with a plain count: random tokens and contexts, every count right, each
 * token listed once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/sample/token_counts.h"

#define VOCAB 5000u

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 33);
}

#define TOKENS 12000u

static uint32_t tokens[TOKENS];

/* How often `token` is in the last `context` of `known` tokens, from `first` on. */
static uint32_t count_plainly(uint32_t token, uint32_t known, uint32_t context, uint32_t first)
{
    uint32_t begin = context > 0 && context < known ? known - context : 0;
    uint32_t count = 0;
    for (uint32_t i = begin > first ? begin : first; i < known; i++)
        count += tokens[i] == token;
    return count;
}

static void assert_equal(const struct token_counts *counts, const struct sampling_params *params,
                         uint32_t first_generated, uint32_t known)
{
    static uint8_t seen[VOCAB];
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < token_counts_size(counts); i++) {
        struct token_count count = token_counts_at(counts, i);
        assert_true(count.token < VOCAB && !seen[count.token]);
        seen[count.token] = 1;
        assert_int_equal(count.repetition,
                         count_plainly(count.token, known, params->repetition_context, 0));
        assert_int_equal(count.presence, count_plainly(count.token, known, params->presence_context,
                                                       first_generated));
        assert_int_equal(
            count.frequency,
            count_plainly(count.token, known, params->frequency_context, first_generated));
    }
    for (uint32_t i = 0; i < known; i++)
        assert_true(seen[tokens[i]]);
}

static void test_counts_match_a_plain_count(void **state)
{
    (void)state;
    uint64_t random = 7;
    /* Few distinct tokens at first, then strides that collide in a power-of-two table. */
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = i < 5000 ? next_random(&random) % 50 : next_random(&random) % 78 * 64;
    static const uint32_t contexts[][3] = {{0, 0, 0}, {1, 2, 3}, {64, 0, 20}, {TOKENS, 5000, 0}};
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
        struct sampling_params params = sampling_params_default();
        params.repetition_context = contexts[i][0];
        params.presence_context = contexts[i][1];
        params.frequency_context = contexts[i][2];
        struct token_counts *counts = token_counts_create(&params, 4321);
        assert_int_equal(token_counts_size(counts), 0);
        for (uint32_t known = 0; known < TOKENS;) {
            known += 1 + next_random(&random) % 3000;
            known = known < TOKENS ? known : TOKENS;
            assert_int_equal(token_counts_follow(counts, tokens, known), RESULT_OK);
            assert_equal(counts, &params, 4321, known);
        }
        token_counts_destroy(counts);
    }
}

static void test_following_no_new_tokens_changes_nothing(void **state)
{
    (void)state;
    struct sampling_params params = sampling_params_default();
    params.repetition_context = 2;
    static const uint32_t known[] = {7, 8, 7, 9};
    struct token_counts *counts = token_counts_create(&params, 2);
    for (uint32_t pass = 0; pass < 2; pass++) {
        assert_int_equal(token_counts_follow(counts, known, 4), RESULT_OK);
        assert_int_equal(token_counts_size(counts), 3);
        for (uint32_t i = 0; i < 3; i++) {
            struct token_count count = token_counts_at(counts, i);
            assert_int_equal(count.repetition, count.token != 8); /* of the last two, 7 and 9 */
            assert_int_equal(count.frequency, count.token != 8);  /* the same two are generated */
        }
    }
    token_counts_destroy(counts);
}

/* A copy counts further tokens on its own, also one that was used before. */
static void test_copies_are_independent(void **state)
{
    (void)state;
    struct sampling_params params = sampling_params_default();
    params.repetition_context = 90;
    uint64_t random = 9;
    for (uint32_t i = 0; i < 2000; i++)
        tokens[i] = (uint32_t)(next_random(&random) % 700);
    struct token_counts *counts = token_counts_create(&params, 50);
    struct token_counts *copy = token_counts_create(&params, 50);
    for (uint32_t known = 0; known < 1900; known += 1 + (uint32_t)(next_random(&random) % 60)) {
        assert_int_equal(token_counts_follow(counts, tokens, known), RESULT_OK);
        assert_int_equal(token_counts_copy(copy, counts), RESULT_OK);
        assert_int_equal(token_counts_follow(copy, tokens, known + 90), RESULT_OK);
        assert_equal(copy, &params, 50, known + 90);
        assert_equal(counts, &params, 50, known);
    }
    token_counts_destroy(counts);
    token_counts_destroy(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_match_a_plain_count),
        cmocka_unit_test(test_following_no_new_tokens_changes_nothing),
        cmocka_unit_test(test_copies_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
