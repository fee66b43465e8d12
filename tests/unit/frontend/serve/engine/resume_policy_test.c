/*
 * The wait for a worker's restart: the price of the tokens that another worker would compute again, within bounds.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/serve/engine/resume_policy.h"

static int64_t wait_of(uint32_t held_tokens, uint32_t computed_tokens, int64_t spent_us)
{
    return resume_policy_wait_ms(&(struct resume_facts){
        .held_tokens = held_tokens, .computed_tokens = computed_tokens, .spent_us = spent_us});
}

static void it_is_the_time_to_compute_again(void **state)
{
    (void)state;
    assert_int_equal(wait_of(1000, 1000, 800000), 800);
    assert_int_equal(wait_of(3000, 1000, 800000), 2400); /* 2,000 tokens of an answer */
    assert_int_equal(wait_of(1000, 250, 200000), 800);   /* 750 tokens of the prefix cache */
}

static void it_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(wait_of(1000, 1000, 1), RESUME_LEAST_MS);
    assert_int_equal(wait_of(1000, 1000, -5), RESUME_LEAST_MS);
    assert_int_equal(wait_of(1000, 1000, 60000000), RESUME_MOST_MS);
    assert_int_equal(wait_of(UINT32_MAX, 0, INT64_MAX), RESUME_MOST_MS);
    assert_int_equal(wait_of(UINT32_MAX, 1, -5), RESUME_LEAST_MS);
}

/* A prompt that took longer counts as RESUME_MOST_MS. */
static void the_price_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(wait_of(500, 1000, RESUME_MOST_MS * 1000), RESUME_MOST_MS / 2);
    assert_int_equal(wait_of(500, 1000, RESUME_MOST_MS * 1000 - 4000), RESUME_MOST_MS / 2 - 2);
    assert_int_equal(wait_of(500, 1000, RESUME_MOST_MS * 1000 + 4000), RESUME_MOST_MS / 2);
    assert_int_equal(wait_of(500, 1000, INT64_MAX), RESUME_MOST_MS / 2);
}

/* Then all of it came from the prefix cache. */
static void no_computed_token_counts_as_one(void **state)
{
    (void)state;
    assert_int_equal(wait_of(100, 0, 10000), 1000);
    assert_int_equal(wait_of(100, 1, 10000), 1000);
    assert_int_equal(wait_of(100, 2, 10000), 500);
}

static void a_few_tokens_are_not_waited_for(void **state)
{
    (void)state;
    assert_int_equal(wait_of(0, 0, 5000000), 0);
    assert_int_equal(wait_of(RESUME_LEAST_TOKENS - 1, 1, 5000000), 0);
    assert_int_equal(wait_of(RESUME_LEAST_TOKENS, RESUME_LEAST_TOKENS, 5000000), RESUME_MOST_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_time_to_compute_again),
        cmocka_unit_test(it_is_bounded),
        cmocka_unit_test(the_price_is_bounded),
        cmocka_unit_test(no_computed_token_counts_as_one),
        cmocka_unit_test(a_few_tokens_are_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
