/*
 * admission_policy: sizes that can never run are refused by name, answers are limited, and the head
 * of the queue starts only if its prompt fits beside the promised blocks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/limits.h"
#include "worker/schedule/admission_policy.h"

static void test_sizes(void **state)
{
    (void)state;
    struct admission_limits limits = {.context_tokens = 100, .longest_positions = 60};
    uint32_t tokens_max = 0;
    assert_int_equal(admission_policy_size(&limits, 10, 20, &tokens_max), RESULT_OK);
    assert_int_equal(tokens_max, 30);
    /* By the pool: 60 computed positions and a last token that is only sent. */
    assert_int_equal(admission_policy_size(&limits, 10, 51, &tokens_max), RESULT_OK);
    assert_int_equal(tokens_max, 61);
    assert_int_equal(admission_policy_size(&limits, 10, 52, &tokens_max), RESULT_OK);
    assert_int_equal(tokens_max, 61);
    assert_int_equal(admission_policy_size(&limits, 60, LIMIT_CONTEXT_TOKENS, &tokens_max),
                     RESULT_OK);
    assert_int_equal(tokens_max, 61);
    assert_int_equal(admission_policy_size(&limits, 61, 1, &tokens_max), RESULT_TOO_LARGE);
    assert_int_equal(admission_policy_size(&limits, 99, 1, &tokens_max), RESULT_TOO_LARGE);
    assert_int_equal(admission_policy_size(&limits, 100, 1, &tokens_max), RESULT_CONTEXT_EXCEEDED);
    /* By the context. */
    limits.longest_positions = 100;
    assert_int_equal(admission_policy_size(&limits, 90, 50, &tokens_max), RESULT_OK);
    assert_int_equal(tokens_max, 100);
}

static void test_the_head_starts_if_it_fits(void **state)
{
    (void)state;
    struct admission_snapshot snapshot = {.running_sequences = 3,
                                          .decoding_sequences = 2,
                                          .max_sequences = 4,
                                          .group_count = 2,
                                          .free_blocks = {20, 10},
                                          .promised_blocks = {8, 3},
                                          .wanted_blocks = {10, 5}};
    assert_true(admission_policy_admits(&snapshot));
    snapshot.wanted_blocks[1] = 6; /* one block per decoding sequence is spared */
    assert_false(admission_policy_admits(&snapshot));
    snapshot.wanted_blocks[1] = 5;
    snapshot.promised_blocks[0] = 9;
    assert_false(admission_policy_admits(&snapshot));
    snapshot.promised_blocks[0] = 8;
    snapshot.running_sequences = 4;
    assert_false(admission_policy_admits(&snapshot));
    /* Alone it always begins. */
    snapshot.running_sequences = 0;
    snapshot.decoding_sequences = 0;
    snapshot.wanted_blocks[0] = 1000;
    assert_true(admission_policy_admits(&snapshot));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_the_head_starts_if_it_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
