/*
 * The end of an answer by its tokens: stop ids, ignore_eos, the length, and their precedence.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/generation_end.h"

static const uint32_t stop_ids[] = {2, 94};

static const struct generation_end_rules usual = {
    .stop_ids = stop_ids, .stop_id_count = 2, .max_total_tokens = 10};
static const struct generation_end_rules ignoring = {
    .stop_ids = stop_ids, .stop_id_count = 2, .ignore_end = true, .max_total_tokens = 10};

static void each_stop_id_ends_the_answer(void **state)
{
    (void)state;
    assert_int_equal(generation_end_find(&usual, 2, 5), FINISH_STOP_TOKEN);
    assert_int_equal(generation_end_find(&usual, 94, 5), FINISH_STOP_TOKEN);
    assert_int_equal(generation_end_find(&usual, 3, 5), FINISH_NONE);
}

/* ignore_eos with a logit bias that forces the end token: every token is a stop id. */
static void ignored_stop_ids_end_nothing_before_the_length(void **state)
{
    (void)state;
    for (uint32_t total = 1; total < 10; total++)
        assert_int_equal(generation_end_find(&ignoring, 2, total), FINISH_NONE);
    assert_int_equal(generation_end_find(&ignoring, 2, 10), FINISH_LENGTH);
}

/* A minimum length removes stop ids from the draw; one that is forced after it ends the answer. */
static void a_stop_id_ends_the_answer_at_any_length(void **state)
{
    (void)state;
    for (uint32_t total = 1; total <= 10; total++)
        assert_int_equal(generation_end_find(&usual, 2, total), FINISH_STOP_TOKEN);
}

static void the_length_ends_the_answer(void **state)
{
    (void)state;
    assert_int_equal(generation_end_find(&usual, 3, 9), FINISH_NONE);
    assert_int_equal(generation_end_find(&usual, 3, 10), FINISH_LENGTH);
    const struct generation_end_rules without = {.max_total_tokens = 10};
    assert_int_equal(generation_end_find(&without, 2, 9), FINISH_NONE);
    assert_int_equal(generation_end_find(&without, 2, 10), FINISH_LENGTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stop_id_ends_the_answer),
        cmocka_unit_test(ignored_stop_ids_end_nothing_before_the_length),
        cmocka_unit_test(a_stop_id_ends_the_answer_at_any_length),
        cmocka_unit_test(the_length_ends_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
