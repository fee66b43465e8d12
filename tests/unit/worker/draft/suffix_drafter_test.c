/*
 * suffix_drafter: proposes what followed the longest earlier occurrence of the last tokens. Compared
 * with a search through the whole text, also when positions leave the window, when a sequence is
 * followed in jumps, and when the match overlaps the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/draft/drafter.h"

#define TEXT_MAX  4000u
#define SEED      3u
#define MATCH_MAX 64u

static struct draft_proposal propose(void *state, const uint32_t *tokens, uint32_t known,
                                     uint32_t most)
{
    struct draft_proposal proposal = {.count = 77};
    suffix_drafter.propose(state, tokens, known, most, &proposal);
    assert_true(proposal.count == 0 || proposal.count == most);
    return proposal;
}

/* Tokens up to `at` that equal those up to `last`. */
static uint32_t common(const uint32_t *tokens, uint32_t at, uint32_t last)
{
    uint32_t length = 0;
    while (length < MATCH_MAX && length <= at && tokens[at - length] == tokens[last - length])
        length++;
    return length;
}

/* The longest match in the whole text, the latest among equals; 0: none of SEED tokens. */
static uint32_t search(const uint32_t *tokens, uint32_t known, uint32_t *match)
{
    uint32_t best = 0;
    for (uint32_t at = 0; at + 1 < known; at++) {
        uint32_t length = common(tokens, at, known - 1);
        if (length >= SEED && length >= best) {
            best = length;
            *match = at;
        }
    }
    return best;
}

static void check_texts(uint32_t vocab, uint32_t copies, uint64_t seed)
{
    struct test_random random = {.state = seed};
    static uint32_t tokens[TEXT_MAX + LIMIT_DRAFT_TOKENS];
    uint32_t found = 0;
    void *state = suffix_drafter.open(&suffix_drafter, TEXT_MAX);
    assert_non_null(state);
    for (uint32_t known = 0; known < TEXT_MAX;) {
        /* Some new tokens, or a copy of earlier ones. */
        uint32_t more = 1 + test_random_below(&random, 20);
        uint32_t from = known > 0 ? test_random_below(&random, known) : 0;
        bool copy = known > 0 && test_random_below(&random, 100) < copies;
        for (uint32_t i = 0; i < more && known < TEXT_MAX; i++)
            tokens[known++] = copy ? tokens[from + i] : test_random_below(&random, vocab);
        uint32_t most = 1 + test_random_below(&random, LIMIT_DRAFT_TOKENS);
        struct draft_proposal proposal = propose(state, tokens, known, most);
        uint32_t match = 0;
        uint32_t length = search(tokens, known, &match);
        assert_int_equal(proposal.count > 0, length > 0);
        if (length == 0)
            continue;
        found++;
        /* The proposal continues the match, beyond the end with itself. */
        memcpy(tokens + known, proposal.tokens, most * sizeof *tokens);
        for (uint32_t i = 0; i < most; i++) {
            assert_int_equal(proposal.tokens[i], tokens[match + 1 + i]);
            assert_true(proposal.classes[i] < DRAFT_CLASS_TEXT);
            assert_true(i == 0 || proposal.classes[i] >= proposal.classes[i - 1]);
        }
    }
    assert_true(found > 50);
    suffix_drafter.close(state);
}

static void test_longest_match(void **state)
{
    (void)state;
    check_texts(100000, 50, 1);
    check_texts(50, 50, 2); /* few equal seeds: all candidates are looked at */
}

static void test_nothing_repeats(void **state)
{
    (void)state;
    uint32_t tokens[64];
    void *index = suffix_drafter.open(&suffix_drafter, 64);
    for (uint32_t i = 0; i < 64; i++) {
        tokens[i] = i;
        assert_int_equal(propose(index, tokens, i + 1, 8).count, 0);
    }
    assert_int_equal(propose(index, tokens, 64, 0).count, 0);
    suffix_drafter.close(index);
    suffix_drafter.close(NULL);
}

static void test_a_loop_continues(void **state)
{
    (void)state;
    uint32_t tokens[40];
    for (uint32_t i = 0; i < 40; i++)
        tokens[i] = i % 4;
    void *index = suffix_drafter.open(&suffix_drafter, 4096);
    struct draft_proposal proposal = propose(index, tokens, 40, LIMIT_DRAFT_TOKENS);
    assert_int_equal(proposal.count, LIMIT_DRAFT_TOKENS);
    for (uint32_t i = 0; i < LIMIT_DRAFT_TOKENS; i++)
        assert_int_equal(proposal.tokens[i], i % 4);
    suffix_drafter.close(index);
}

/* Memory is bounded: what is farther back than the window is not found, and nothing else breaks. */
static void test_window(void **state)
{
    (void)state;
    uint32_t count = 100000;
    uint32_t *tokens = malloc((count + 8) * sizeof *tokens);
    assert_non_null(tokens);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = i;
    void *index = suffix_drafter.open(&suffix_drafter, count);
    for (uint32_t known = 1; known < count; known += 977)
        (void)propose(index, tokens, known, 4);
    uint32_t near = count - 1000, far = 1000;
    memcpy(tokens + count, tokens + near, 4 * sizeof *tokens);
    struct draft_proposal proposal = propose(index, tokens, count + 4, 4);
    assert_int_equal(proposal.count, 4);
    assert_int_equal(proposal.tokens[0], near + 4);
    memcpy(tokens + count + 4, tokens + far, 4 * sizeof *tokens);
    assert_int_equal(propose(index, tokens, count + 8, 4).count, 0);
    suffix_drafter.close(index);
    free(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_match),
        cmocka_unit_test(test_nothing_repeats),
        cmocka_unit_test(test_a_loop_continues),
        cmocka_unit_test(test_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
