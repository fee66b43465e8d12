/*
 * Results: each has its own name, a value outside the enum has none, and error texts are cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/result.h"

static void each_result_has_its_name(void **state)
{
    (void)state;
    static const char *const names[RESULT_COUNT] = {
        "ok",
        "invalid",
        "unsupported",
        "not_found",
        "too_large",
        "context_exceeded",
        "full",
        "empty",
        "stale",
        "corrupt",
        "out_of_memory",
        "io",
        "peer_gone",
        "cancelled",
        "timed_out",
        "grammar_fuel",
        "grammar_dead_end",
    };
    for (int i = 0; i < RESULT_COUNT; i++)
        assert_string_equal(result_name((enum result)i), names[i]);
}

static void values_outside_the_enum_are_unknown(void **state)
{
    (void)state;
    assert_string_equal(result_name(RESULT_COUNT), "unknown");
    assert_string_equal(result_name((enum result) - 1), "unknown");
}

static void an_error_is_formatted_and_cut(void **state)
{
    (void)state;
    struct error_text error;
    assert_int_equal(error_set(&error, RESULT_STALE, "slot %d", 7), RESULT_STALE);
    assert_string_equal(error.text, "slot 7");
    assert_int_equal(error_set(&error, RESULT_IO, "%300d", 7), RESULT_IO);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    assert_int_equal(error_set(NULL, RESULT_FULL, "unused"), RESULT_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_result_has_its_name),
        cmocka_unit_test(values_outside_the_enum_are_unknown),
        cmocka_unit_test(an_error_is_formatted_and_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
