/*
 * token_forcer compared with its rules written as a search through the whole answer, on random
 * answers. With one token unread it gives the result it gives once that token is read, or
 * FORCED_UNKNOWN, which it gives if the result does depend on the token and rarely otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/sample/token_forcer.h"

#define ANSWER 60u
#define VOCAB  4u /* few, so that marks occur, in parts and overlapping */

/* Whether the answer's first `count` tokens end with the mark, all within [first, count). */
static bool ends_with(const uint32_t *answer, uint32_t first, uint32_t count, const uint32_t *mark,
                      uint32_t mark_count)
{
    return mark_count > 0 && count - first >= mark_count &&
           memcmp(answer + count - mark_count, mark, mark_count * sizeof *mark) == 0;
}

/* What comes after `count` tokens. */
static struct forced_draw expect(const struct token_forcer_rules *rules, const uint32_t *answer,
                                 uint32_t count)
{
    bool thinking = rules->is_open;
    uint32_t since = 0; /* where marks may begin */
    uint32_t spent = 0;
    uint32_t prefix_begin = rules->is_open ? UINT32_MAX : 0;
    for (uint32_t at = 1; at <= count && rules->think_end_count > 0; at++) {
        if (thinking && ends_with(answer, since, at, rules->think_end, rules->think_end_count)) {
            thinking = false;
            since = at;
            prefix_begin = prefix_begin < at ? prefix_begin : at;
        } else if (thinking) {
            spent++;
        } else if (ends_with(answer, since, at, rules->think_start, rules->think_start_count)) {
            thinking = true;
            since = at;
        }
    }
    if (prefix_begin <= count && count - prefix_begin < rules->prefix_count)
        return (struct forced_draw){.kind = FORCED_TOKEN,
                                    .token = rules->prefix[count - prefix_begin]};
    if (!rules->has_budget || spent < rules->budget)
        return (struct forced_draw){.kind = FORCED_NONE};
    if (!thinking)
        return (struct forced_draw){.kind = FORCED_NONE,
                                    .bars_start = rules->think_start_count == 1};
    uint32_t matched = rules->think_end_count - 1;
    while (!ends_with(answer, since, count, rules->think_end, matched) && matched > 0)
        matched--;
    return (struct forced_draw){.kind = FORCED_TOKEN, .token = rules->think_end[matched]};
}

static void assert_same(struct forced_draw a, struct forced_draw b)
{
    assert_int_equal(a.kind, b.kind);
    assert_int_equal(a.bars_start, b.bars_start);
    if (a.kind == FORCED_TOKEN)
        assert_int_equal(a.token, b.token);
}

/* Whether the token after `count` can change the token after it. */
static bool matters(const struct token_forcer *forcer, const uint32_t *answer, uint32_t count)
{
    struct forced_draw first = {.kind = FORCED_UNKNOWN};
    for (uint32_t token = 0; token < VOCAB; token++) {
        uint32_t longer[ANSWER + 1];
        memcpy(longer, answer, count * sizeof *longer);
        longer[count] = token;
        struct token_forcer ahead = *forcer;
        token_forcer_follow(&ahead, longer, count + 1);
        struct forced_draw next = token_forcer_next(&ahead, 0);
        if (token > 0 && (next.kind != first.kind || next.token != first.token))
            return true;
        first = next;
    }
    return false;
}

static void random_ids(struct test_random *random, uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ids[i] = test_random_below(random, VOCAB);
}

static void test_random_answers(void **state)
{
    (void)state;
    struct test_random random = {20261121};
    uint32_t unknown = 0;
    uint32_t needless = 0;
    uint32_t draws = 0;
    uint32_t forced = 0;
    for (uint32_t round = 0; round < 4000; round++) {
        uint32_t prefix[3], start[3], end[3], answer[ANSWER];
        random_ids(&random, prefix, 3);
        random_ids(&random, start, 3);
        random_ids(&random, end, 3);
        struct token_forcer_rules rules = {.prefix = prefix,
                                           .think_start = start,
                                           .think_end = end,
                                           .prefix_count = test_random_below(&random, 4),
                                           .think_start_count = test_random_below(&random, 4),
                                           .think_end_count = test_random_below(&random, 4)};
        rules.is_open = rules.think_end_count > 0 && test_random_below(&random, 2);
        rules.has_budget = rules.think_end_count > 0 && test_random_below(&random, 4) > 0;
        rules.budget = test_random_below(&random, 12);
        struct token_forcer forcer;
        token_forcer_init(&forcer, &rules);
        for (uint32_t count = 0; count < ANSWER; count++) {
            struct forced_draw next = token_forcer_next(&forcer, 0);
            assert_same(next, expect(&rules, answer, count));
            do
                answer[count] = test_random_below(&random, VOCAB);
            while (next.bars_start && answer[count] == start[0]);
            if (next.kind == FORCED_TOKEN)
                answer[count] = next.token;
            struct forced_draw early = token_forcer_next(&forcer, 1);
            if (early.kind == FORCED_UNKNOWN) {
                assert_int_equal(next.kind, FORCED_NONE);
                needless += !matters(&forcer, answer, count);
            } else {
                assert_same(early, expect(&rules, answer, count + 1));
            }
            unknown += early.kind == FORCED_UNKNOWN;
            forced += next.kind == FORCED_TOKEN;
            draws++;
            token_forcer_follow(&forcer, answer, count + 1);
        }
    }
    assert_true(unknown > draws / 1000 && forced > draws / 50);
    print_message("%u draws, %u forced, %u unknown, %u of them needlessly\n", draws, forced,
                  unknown, needless);
    assert_true(needless * 10 < unknown); /* marks of one token again and again */
}

static void test_a_budget_ends_thinking_after_as_many_tokens(void **state)
{
    (void)state;
    const uint32_t end[] = {7, 8};
    for (uint32_t budget = 0; budget < 5; budget++) {
        struct token_forcer forcer;
        token_forcer_init(&forcer, &(struct token_forcer_rules){.think_end = end,
                                                                .think_end_count = 2,
                                                                .is_open = true,
                                                                .has_budget = true,
                                                                .budget = budget});
        uint32_t answer[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        for (uint32_t i = 0; i < budget; i++)
            assert_int_equal(
                (token_forcer_follow(&forcer, answer, i), token_forcer_next(&forcer, 0).kind),
                FORCED_NONE);
        token_forcer_follow(&forcer, answer, budget);
        assert_int_equal(token_forcer_next(&forcer, 0).token, 7);
        assert_int_equal(token_forcer_next(&forcer, 1).token, 8);
        answer[budget] = 7;
        answer[budget + 1] = 8;
        token_forcer_follow(&forcer, answer, budget + 2);
        assert_int_equal(token_forcer_next(&forcer, 0).kind, FORCED_NONE);
    }
}

/* An end of thinking that has begun is only completed. */
static void test_a_half_end_is_completed(void **state)
{
    (void)state;
    const uint32_t end[] = {7, 7, 8};
    const uint32_t answer[] = {1, 7, 7, 7};
    struct token_forcer forcer;
    token_forcer_init(&forcer, &(struct token_forcer_rules){.think_end = end,
                                                            .think_end_count = 3,
                                                            .is_open = true,
                                                            .has_budget = true,
                                                            .budget = 4});
    token_forcer_follow(&forcer, answer, 4);
    assert_int_equal(token_forcer_next(&forcer, 0).token, 8);
}

static void test_nothing_is_forced_without_rules(void **state)
{
    (void)state;
    struct token_forcer forcer;
    token_forcer_init(&forcer, &(struct token_forcer_rules){0});
    const uint32_t answer[] = {0, 1, 2};
    token_forcer_follow(&forcer, answer, 3);
    assert_int_equal(token_forcer_next(&forcer, 0).kind, FORCED_NONE);
    assert_int_equal(token_forcer_next(&forcer, 1).kind, FORCED_NONE);
    assert_false(token_forcer_next(&forcer, 1).bars_start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_answers),
        cmocka_unit_test(test_a_budget_ends_thinking_after_as_many_tokens),
        cmocka_unit_test(test_a_half_end_is_completed),
        cmocka_unit_test(test_nothing_is_forced_without_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
