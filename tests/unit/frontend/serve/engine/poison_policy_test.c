/*
 * Which requests are suspected and which are acquitted.
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

static void a_limit_of_one_crash_suspects_at_once(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_true(poison_policy_suspects(&record, 50, 1));
}

static void a_token_between_crashes_clears(void **state)
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

static void crashes_after_the_same_token_count(void **state)
{
    (void)state;
    struct crash_record record = {0};
    for (int crash = 0; crash < 2; crash++)
        assert_false(poison_policy_suspects(&record, 123, 3));
    assert_true(poison_policy_suspects(&record, 123, 3));
}

static void few_tokens_per_crash_suspect_later(void **state)
{
    (void)state;
    struct crash_record record = {0};
    uint32_t crashes = 0;
    while (!poison_policy_suspects(&record, crashes, 3)) {
        crashes++;
        assert_true(crashes < 100);
    }
    assert_true(crashes > 20); /* an unlucky neighbour in crashes of another request */
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
        cmocka_unit_test(a_limit_of_one_crash_suspects_at_once),
        cmocka_unit_test(a_token_between_crashes_clears),
        cmocka_unit_test(crashes_after_the_same_token_count),
        cmocka_unit_test(a_few_tokens_alone_acquit),
        cmocka_unit_test(few_tokens_per_crash_suspect_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
