/*
 * Who is suspected, who is not, and who is ended without a trial.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/serve/poison_policy.h"

static void crashes_without_a_token_make_a_suspect(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_int_equal(poison_policy_judge(&record, 0, 3), POISON_NEIGHBOUR);
    assert_int_equal(poison_policy_judge(&record, 0, 3), POISON_NEIGHBOUR);
    assert_int_equal(poison_policy_judge(&record, 0, 3), POISON_SUSPECT);
}

static void one_crash_may_be_enough(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_int_equal(poison_policy_judge(&record, 50, 1), POISON_SUSPECT);
}

static void a_token_in_between_clears(void **state)
{
    (void)state;
    struct crash_record record = {0};
    uint32_t tokens = 10;
    for (int crash = 0; crash < 40; crash++, tokens += 8)
        assert_int_equal(poison_policy_judge(&record, tokens, 3), POISON_NEIGHBOUR);
    assert_int_equal(poison_policy_judge(&record, tokens, 3), POISON_NEIGHBOUR);
    assert_int_equal(poison_policy_judge(&record, tokens, 3), POISON_NEIGHBOUR);
    assert_int_equal(poison_policy_judge(&record, tokens, 3), POISON_SUSPECT);
}

static void a_place_behind_tokens_is_a_place_too(void **state)
{
    (void)state;
    struct crash_record record = {0};
    for (int crash = 0; crash < 2; crash++)
        assert_int_equal(poison_policy_judge(&record, 123, 3), POISON_NEIGHBOUR);
    assert_int_equal(poison_policy_judge(&record, 123, 3), POISON_SUSPECT);
}

static void a_token_for_each_crash_does_not_go_on_for_ever(void **state)
{
    (void)state;
    struct crash_record record = {0};
    uint32_t crashes = 0;
    while (poison_policy_judge(&record, crashes, 3) != POISON_GUILTY) {
        crashes++;
        assert_true(crashes < 100);
    }
    assert_true(crashes > 20); /* an unlucky neighbour of somebody else's crashes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crashes_without_a_token_make_a_suspect),
        cmocka_unit_test(one_crash_may_be_enough),
        cmocka_unit_test(a_token_in_between_clears),
        cmocka_unit_test(a_place_behind_tokens_is_a_place_too),
        cmocka_unit_test(a_token_for_each_crash_does_not_go_on_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
