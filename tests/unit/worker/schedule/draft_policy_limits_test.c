/*
 * draft_policy at the limits of its conditions: ties, exactly a quarter longer, exactly the rows that
 * are measured, one stream alone, trials of a draft model after a pause.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/schedule/draft_policy.h"

#define PLAIN_US 1000.0
#define NO_LIMIT 1e9
#define STREAMS  8u

/* Every step takes PLAIN_US, up to the given number of rows; larger ones `more_us`. */
static struct draft_pace stairs(uint32_t rows, double more_us)
{
    struct draft_pace pace = {0};
    for (uint32_t i = 1; i <= DRAFT_PACE_ROWS; i++)
        pace.step_us[i] = i <= rows ? PLAIN_US : more_us;
    return pace;
}

/* Each candidate has `each` drafts that are certain. */
static uint32_t choose(const struct draft_pace *pace, uint32_t streams, uint32_t candidates,
                       uint32_t each, uint32_t most_drafts, double target_us, uint32_t *counts)
{
    struct draft_proposal proposal = {.count = each};
    struct draft_candidate list[STREAMS];
    for (uint32_t i = 0; i < each; i++)
        proposal.classes[i] = DRAFT_CLASS_CERTAIN;
    for (uint32_t i = 0; i < candidates; i++)
        list[i] = (struct draft_candidate){.proposal = &proposal, .trust = 1.0};
    const struct draft_request request = {.streams = streams,
                                          .candidate_count = candidates,
                                          .candidates = list,
                                          .most_drafts = most_drafts,
                                          .target_us = target_us};
    return draft_policy_choose(pace, &request, counts);
}

static void equal_drafts_go_round_from_the_first(void **state)
{
    (void)state;
    const struct draft_pace pace = stairs(DRAFT_PACE_ROWS, 0.0);
    uint32_t counts[STREAMS];
    for (uint32_t drafts = 1; drafts <= 9; drafts++) {
        assert_int_equal(choose(&pace, 3, 3, 3, drafts, NO_LIMIT, counts), drafts);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(counts[i], (drafts + 2 - i) / 3);
    }
}

static void rows_are_at_most_those_measured(void **state)
{
    (void)state;
    const struct draft_pace pace = stairs(DRAFT_PACE_ROWS, 0.0);
    uint32_t counts[STREAMS];
    for (uint32_t left = 0; left <= 6; left++) /* up to two of 94 gain less than three per cent */
        assert_int_equal(choose(&pace, DRAFT_PACE_ROWS - left, STREAMS, 31, 64, NO_LIMIT, counts),
                         left > 2 ? left : 0);
}

/* Streams without drafts wait at most a quarter longer; if all have drafts, they do not only wait. */
static void a_quarter_longer_is_the_most(void **state)
{
    (void)state;
    uint32_t counts[STREAMS];
    struct draft_pace pace = stairs(2, 1.25 * PLAIN_US);
    assert_int_equal(choose(&pace, 2, 1, 1, 64, NO_LIMIT, counts), 1);
    pace = stairs(2, 1.25 * PLAIN_US + 1.0);
    assert_int_equal(choose(&pace, 2, 1, 1, 64, NO_LIMIT, counts), 0);
    assert_int_equal(choose(&pace, 2, 2, 1, 64, NO_LIMIT, counts), 2);
    assert_int_equal(choose(&pace, 1, 1, 2, 64, NO_LIMIT, counts), 2);
}

/* The target is for several streams, and for steps that get longer. */
static void one_stream_has_no_target(void **state)
{
    (void)state;
    uint32_t counts[STREAMS];
    struct draft_pace pace = stairs(1, 1.1 * PLAIN_US);
    assert_int_equal(choose(&pace, 1, 1, 4, 64, PLAIN_US / 2, counts), 4);
    pace = stairs(2, 1.1 * PLAIN_US);
    assert_int_equal(choose(&pace, 2, 2, 4, 64, PLAIN_US / 2, counts), 0);
    assert_int_equal(choose(&pace, 2, 2, 4, 64, 1.1 * PLAIN_US, counts), 8);
    pace = stairs(10, 0.0);
    assert_int_equal(choose(&pace, 2, 2, 4, 64, PLAIN_US / 2, counts), 8);
}

/* Drafts must gain more than three per cent. */
static void small_gains_are_left(void **state)
{
    (void)state;
    uint32_t counts[STREAMS];
    struct draft_pace pace = stairs(1, 2.0 / 1.02 * PLAIN_US);
    assert_int_equal(choose(&pace, 1, 1, 1, 64, NO_LIMIT, counts), 0);
    pace = stairs(1, 2.0 / 1.04 * PLAIN_US);
    assert_int_equal(choose(&pace, 1, 1, 1, 64, NO_LIMIT, counts), 1);
}

/* --- draft models ------------------------------------------------------------------------------ */

static uint32_t depth(const struct draft_pace *pace, uint32_t streams, uint32_t candidates,
                      double trust, uint32_t most_tokens, double target_us)
{
    double trusts[DRAFT_PACE_ROWS];
    for (uint32_t i = 0; i < candidates; i++)
        trusts[i] = trust;
    return draft_policy_depth(pace, &(struct draft_depth_request){.streams = streams,
                                                                  .candidate_count = candidates,
                                                                  .trusts = trusts,
                                                                  .most_tokens = most_tokens,
                                                                  .first_rows = candidates,
                                                                  .target_us = target_us});
}

static void rounds_fit_the_rows_measured(void **state)
{
    (void)state;
    const struct draft_pace pace = stairs(DRAFT_PACE_ROWS, 0.0);
    const uint32_t half = DRAFT_PACE_ROWS / 2, third = DRAFT_PACE_ROWS / 3;
    assert_int_equal(depth(&pace, half, half, 1.0, DRAFT_MODEL_TOKENS, NO_LIMIT), 1);
    assert_int_equal(depth(&pace, half + 1, half, 1.0, DRAFT_MODEL_TOKENS, NO_LIMIT), 0);
    assert_int_equal(depth(&pace, third, third, 1.0, DRAFT_MODEL_TOKENS, NO_LIMIT), 2);
    assert_int_equal(depth(&pace, 1, 1, 1.0, DRAFT_MODEL_TOKENS, NO_LIMIT), DRAFT_MODEL_TOKENS);
}

static void rounds_have_the_limits_of_drafts(void **state)
{
    (void)state;
    struct draft_pace pace = stairs(1, 1.1 * PLAIN_US);
    assert_true(depth(&pace, 1, 1, 1.0, DRAFT_MODEL_TOKENS, PLAIN_US / 2) > 0);
    pace = stairs(2, 1.1 * PLAIN_US);
    assert_int_equal(depth(&pace, 2, 2, 1.0, DRAFT_MODEL_TOKENS, PLAIN_US / 2), 0);
    pace = stairs(DRAFT_PACE_ROWS, 0.0); /* no longer than without */
    assert_int_equal(depth(&pace, 2, 2, 1.0, DRAFT_MODEL_TOKENS, PLAIN_US / 2), DRAFT_MODEL_TOKENS);
    pace = stairs(2, 1.25 * PLAIN_US);
    assert_true(depth(&pace, 2, 1, 1.0, DRAFT_MODEL_TOKENS, NO_LIMIT) > 0);
    pace = stairs(2, 1.25 * PLAIN_US + 1.0);
    assert_int_equal(depth(&pace, 2, 1, 1.0, DRAFT_MODEL_TOKENS, NO_LIMIT), 0);
}

/* Tokens that are never accepted add nothing, so all depths are equal here. */
static void of_equal_depths_the_smallest_is_taken(void **state)
{
    (void)state;
    const struct draft_pace pace = stairs(1, PLAIN_US / 2);
    assert_int_equal(depth(&pace, 1, 1, 0.0, DRAFT_MODEL_TOKENS, NO_LIMIT), 1);
}

/* One token at a time until they are used up, even if it does not pay. */
static void trials_after_a_pause_propose_one_token(void **state)
{
    (void)state;
    struct draft_pace pace = stairs(1, 3.0 * PLAIN_US);
    assert_int_equal(depth(&pace, 1, 1, 1.0, DRAFT_MODEL_TOKENS, NO_LIMIT), 0);
    pace.probes = 1;
    assert_int_equal(depth(&pace, 1, 1, 0.5, DRAFT_MODEL_TOKENS, NO_LIMIT), 1);
    assert_int_equal(depth(&pace, 1, 1, 0.5, 0, NO_LIMIT), 0);
    assert_int_equal(depth(&pace, DRAFT_PACE_ROWS, 1, 0.5, DRAFT_MODEL_TOKENS, NO_LIMIT), 0);
    pace = stairs(DRAFT_PACE_ROWS, 0.0);
    pace.probes = 1;
    assert_int_equal(depth(&pace, 1, 1, 1.0, DRAFT_MODEL_TOKENS, NO_LIMIT), DRAFT_MODEL_TOKENS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_drafts_go_round_from_the_first),
        cmocka_unit_test(rows_are_at_most_those_measured),
        cmocka_unit_test(a_quarter_longer_is_the_most),
        cmocka_unit_test(one_stream_has_no_target),
        cmocka_unit_test(small_gains_are_left),
        cmocka_unit_test(rounds_fit_the_rows_measured),
        cmocka_unit_test(rounds_have_the_limits_of_drafts),
        cmocka_unit_test(of_equal_depths_the_smallest_is_taken),
        cmocka_unit_test(trials_after_a_pause_propose_one_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
