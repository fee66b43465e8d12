/*
 * token_tally: the first byte of a token outside tags decides what the token counts as.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/reply/token_tally.h"

static void expect_counts(const struct token_tally *tally, uint32_t tags, uint32_t reasoning,
                          uint32_t rest)
{
    assert_int_equal(tally->counts[TOKEN_TAG], tags);
    assert_int_equal(tally->counts[TOKEN_REASONING], reasoning);
    assert_int_equal(tally->counts[TOKEN_REST], rest);
}

static void bytes_up_to_a_tokens_end_do_not_count_for_the_next(void **state)
{
    (void)state;
    struct token_tally tally = {0};
    token_tally_arrive(&tally, 2, true);
    token_tally_arrive(&tally, 2, true);
    token_tally_decide(&tally, 2, TOKEN_REASONING);
    expect_counts(&tally, 0, 1, 0);
    token_tally_decide(&tally, 2, TOKEN_REST);
    expect_counts(&tally, 0, 1, 1);
}

static void the_first_byte_outside_tags_decides(void **state)
{
    (void)state;
    struct token_tally tally = {0};
    token_tally_arrive(&tally, 3, true);
    token_tally_arrive(&tally, 1, false); /* no token */
    token_tally_arrive(&tally, 1, true);
    token_tally_decide(&tally, 1, TOKEN_TAG);
    token_tally_decide(&tally, 1, TOKEN_REST);
    token_tally_decide(&tally, 1, TOKEN_REASONING);
    expect_counts(&tally, 0, 0, 1);
    token_tally_decide(&tally, 1, TOKEN_REASONING);
    token_tally_decide(&tally, 1, TOKEN_TAG);
    expect_counts(&tally, 1, 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_up_to_a_tokens_end_do_not_count_for_the_next),
        cmocka_unit_test(the_first_byte_outside_tags_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
