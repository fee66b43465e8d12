/*
 * Who is suspected, who is not, and who is acquitted.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/serve/engine/poison_policy.h"

static void crashes_without_a_token_make_a_suspect(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_false(poison_policy_suspects(&record, 0, 3));
    assert_false(poison_policy_suspects(&record, 0, 3));
    assert_true(poison_policy_suspects(&record, 0, 3));
}

static void one_crash_may_be_enough(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_true(poison_policy_suspects(&record, 50, 1));
}

static void a_token_in_between_clears(void **state)
{
    (void)state;
    struct crash_record record = {0};
    uint32_t tokens = 10;
    for (int crash = 0; crash < 40; crash++, tokens += 8)
        assert_false(poison_policy_suspects(&record, tokens, 3));
    assert_false(poison_policy_suspects(&record, tokens, 3));
    assert_false(poison_policy_suspects(&record, tokens, 3));
    assert_true(poison_policy_suspects(&record, tokens, 3));
}

static void a_place_behind_tokens_is_a_place_too(void **state)
{
    (void)state;
    struct crash_record record = {0};
    for (int crash = 0; crash < 2; crash++)
        assert_false(poison_policy_suspects(&record, 123, 3));
    assert_true(poison_policy_suspects(&record, 123, 3));
}

static void a_token_for_each_crash_does_not_go_on_for_ever(void **state)
{
    (void)state;
    struct crash_record record = {0};
    uint32_t crashes = 0;
    while (!poison_policy_suspects(&record, crashes, 3)) {
        crashes++;
        assert_true(crashes < 100);
    }
    assert_true(crashes > 20); /* an unlucky neighbour of somebody else's crashes */
}

static void a_few_tokens_alone_acquit(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_true(poison_policy_suspects(&record, 100, 1));
    assert_false(poison_policy_acquits(&record, 100));
    assert_false(poison_policy_acquits(&record, 107));
    assert_true(poison_policy_acquits(&record, 108));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crashes_without_a_token_make_a_suspect),
        cmocka_unit_test(one_crash_may_be_enough),
        cmocka_unit_test(a_token_in_between_clears),
        cmocka_unit_test(a_place_behind_tokens_is_a_place_too),
        cmocka_unit_test(a_few_tokens_alone_acquit),
        cmocka_unit_test(a_token_for_each_crash_does_not_go_on_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
