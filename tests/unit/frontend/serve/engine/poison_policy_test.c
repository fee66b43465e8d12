/*
 * Which requests are suspected, watched, convicted and acquitted, by crashes and by deaths from
 * outside.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/serve/engine/poison_policy.h"

static enum poison_verdict crash(struct crash_record *record, uint32_t tokens, uint32_t most)
{
    return poison_policy_judge(record,
                               &(struct poison_death){.place = {.generated_tokens = tokens}}, most);
}

static enum poison_verdict crash_alone(struct crash_record *record)
{
    return poison_policy_judge(record, &(struct poison_death){.alone = true}, 3);
}

static enum poison_verdict kill(struct crash_record *record, uint32_t tokens, uint32_t rows)
{
    const struct poison_death death = {
        .outside = true, .place = {.generated_tokens = tokens, .computed_tokens = rows}};
    return poison_policy_judge(record, &death, 3);
}

static enum poison_verdict kill_alone(struct crash_record *record, uint32_t tokens, uint32_t rows)
{
    const struct poison_death death = {
        .outside = true,
        .alone = true,
        .place = {.generated_tokens = tokens, .computed_tokens = rows}};
    return poison_policy_judge(record, &death, 3);
}

static void crashes_without_a_token_make_a_suspect(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_int_equal(crash(&record, 0, 3), POISON_INNOCENT);
    assert_int_equal(crash(&record, 0, 3), POISON_INNOCENT);
    assert_int_equal(crash(&record, 0, 3), POISON_SUSPECT);
    assert_int_equal(crash_alone(&record), POISON_GUILTY);
    assert_int_equal(record.deaths, 4);
}

static void a_limit_of_one_crash_suspects_at_once(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_int_equal(crash(&record, 50, 1), POISON_SUSPECT);
}

static void a_token_between_crashes_clears(void **state)
{
    (void)state;
    struct crash_record record = {0};
    uint32_t tokens = 10;
    for (int i = 0; i < 40; i++, tokens += 8)
        assert_int_equal(crash(&record, tokens, 3), POISON_INNOCENT);
    assert_int_equal(crash(&record, tokens, 3), POISON_INNOCENT);
    assert_int_equal(crash(&record, tokens, 3), POISON_INNOCENT);
    assert_int_equal(crash(&record, tokens, 3), POISON_SUSPECT);
}

static void crashes_after_the_same_token_count(void **state)
{
    (void)state;
    struct crash_record record = {0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(crash(&record, 123, 3), POISON_INNOCENT);
    assert_int_equal(crash(&record, 123, 3), POISON_SUSPECT);
}

static void few_tokens_per_crash_suspect_later(void **state)
{
    (void)state;
    struct crash_record record = {0};
    uint32_t crashes = 0;
    while (crash(&record, crashes, 3) == POISON_INNOCENT) {
        crashes++;
        assert_true(crashes < 100);
    }
    assert_true(crashes > 20); /* an unlucky neighbour in crashes of another request */
}

/* Sixteen times the limit, with tokens between all crashes, makes a suspect; one crash fewer does
 * not. Eight tokens between two crashes start the count again, seven do not. */
static void slow_progress_has_an_exact_limit(void **state)
{
    (void)state;
    for (uint32_t step = 1; step <= 8; step++) {
        struct crash_record record = {0};
        uint32_t tokens = 0;
        for (int i = 1; i < 3 * 16; i++, tokens++)
            assert_int_equal(crash(&record, tokens, 3), POISON_INNOCENT);
        tokens += step - 1;
        assert_int_equal(crash(&record, tokens, 3) == POISON_SUSPECT, step < 8);
        for (int i = 2; step == 8 && i < 3 * 16; i++)
            assert_int_equal(crash(&record, ++tokens, 3), POISON_INNOCENT);
        assert_int_equal(crash(&record, ++tokens, 3), POISON_SUSPECT);
    }
}

static void prefill_between_crashes_does_not_clear(void **state)
{
    (void)state;
    struct crash_record record = {0};
    enum poison_verdict verdict = POISON_INNOCENT;
    for (uint32_t i = 1; i <= 3; i++) {
        const struct poison_death death = {.place = {.computed_tokens = 512 * i}};
        verdict = poison_policy_judge(&record, &death, 3);
    }
    assert_int_equal(verdict, POISON_SUSPECT);
}

static void a_few_tokens_alone_acquit(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_int_equal(crash(&record, 100, 1), POISON_SUSPECT);
    assert_false(poison_policy_acquits(&record, 100));
    assert_false(poison_policy_acquits(&record, 107));
    assert_true(poison_policy_acquits(&record, 108));
}

static void prefill_between_kills_clears(void **state)
{
    (void)state;
    struct crash_record record = {0};
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(kill(&record, 0, 512 * (i % 2)), POISON_INNOCENT);
}

/* As for crashes: eight tokens between two kills start the count of slow progress again. */
static void slow_progress_between_kills_has_an_exact_limit(void **state)
{
    (void)state;
    struct crash_record record = {0};
    uint32_t tokens = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i < 3 * 16; i++, tokens++)
            assert_int_equal(kill(&record, tokens, 0), POISON_INNOCENT);
        tokens += 7;
    }
    for (int i = 1; i < 3 * 16; i++, tokens++)
        assert_int_equal(kill(&record, tokens, 0), POISON_INNOCENT);
    assert_int_equal(kill(&record, tokens, 0), POISON_SUSPECT);
}

static void one_more_token_is_another_place(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_int_equal(poison_policy_watch_ms(&record), 5000);
    assert_int_equal(kill_alone(&record, 5, 512), POISON_WATCHED);
    assert_int_equal(kill_alone(&record, 6, 512), POISON_WATCHED);
    assert_int_equal(kill_alone(&record, 6, 513), POISON_WATCHED);
    assert_int_equal(kill_alone(&record, 6, 513), POISON_GUILTY);
}

static void kills_at_the_same_place_suspect_but_one_alone_does_not_convict(void **state)
{
    (void)state;
    struct crash_record record = {0};
    assert_int_equal(kill(&record, 5, 512), POISON_INNOCENT);
    assert_int_equal(kill(&record, 5, 512), POISON_INNOCENT);
    assert_int_equal(kill(&record, 5, 512), POISON_SUSPECT);
    assert_int_equal(kill_alone(&record, 5, 512), POISON_WATCHED);
    assert_int_equal(poison_policy_watch_ms(&record), 5000);
    assert_int_equal(kill_alone(&record, 5, 512), POISON_GUILTY);
}

static void kills_alone_at_other_places_convict_only_after_longer_watches(void **state)
{
    (void)state;
    struct crash_record record = {0};
    const int64_t expected_ms[] = {5000, 10000, 20000, 40000, 80000};
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(kill_alone(&record, 0, 512 * (1 + i % 2)), POISON_WATCHED);
        assert_int_equal(poison_policy_watch_ms(&record), expected_ms[i]);
    }
    assert_int_equal(kill_alone(&record, 0, 1024), POISON_GUILTY);
}

static void a_kill_without_the_request_clears_it(void **state)
{
    (void)state;
    struct crash_record record = {0};
    for (int storm = 0; storm < 50; storm++) {
        assert_int_equal(kill_alone(&record, 0, 512), POISON_WATCHED);
        assert_true(poison_policy_clears(&record, 3));
    }
}

static void a_kill_without_the_request_does_not_clear_crashes(void **state)
{
    (void)state;
    struct crash_record record = {0};
    for (int i = 0; i < 3; i++)
        (void)crash(&record, 0, 3);
    assert_int_equal(kill_alone(&record, 0, 512), POISON_WATCHED);
    assert_false(poison_policy_clears(&record, 3));
    assert_int_equal(crash_alone(&record), POISON_GUILTY);
}

static void clearings_are_bounded(void **state)
{
    (void)state;
    struct crash_record record = {0};
    uint32_t clearings = 0;
    for (;; clearings++) {
        assert_true(clearings < 1000);
        (void)kill_alone(&record, 0, 512);
        if (!poison_policy_clears(&record, 3))
            break;
        poison_policy_forget(&record, 0);
    }
    assert_true(clearings > 200); /* a storm of a minute */
    assert_int_equal(kill_alone(&record, 0, 512), POISON_GUILTY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crashes_without_a_token_make_a_suspect),
        cmocka_unit_test(a_limit_of_one_crash_suspects_at_once),
        cmocka_unit_test(a_token_between_crashes_clears),
        cmocka_unit_test(crashes_after_the_same_token_count),
        cmocka_unit_test(slow_progress_has_an_exact_limit),
        cmocka_unit_test(few_tokens_per_crash_suspect_later),
        cmocka_unit_test(prefill_between_crashes_does_not_clear),
        cmocka_unit_test(a_few_tokens_alone_acquit),
        cmocka_unit_test(prefill_between_kills_clears),
        cmocka_unit_test(slow_progress_between_kills_has_an_exact_limit),
        cmocka_unit_test(one_more_token_is_another_place),
        cmocka_unit_test(kills_at_the_same_place_suspect_but_one_alone_does_not_convict),
        cmocka_unit_test(kills_alone_at_other_places_convict_only_after_longer_watches),
        cmocka_unit_test(a_kill_without_the_request_clears_it),
        cmocka_unit_test(a_kill_without_the_request_does_not_clear_crashes),
        cmocka_unit_test(clearings_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
