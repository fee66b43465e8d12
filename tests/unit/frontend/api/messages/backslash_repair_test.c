/*
 * Which backslashes are doubled, and that nothing else changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/messages/backslash_repair.h"

static void backslashes_outside_escapes_are_doubled(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *repaired; /* NULL: there is none */
    } cases[] = {
        {"{\"a\":\"C:\\Users\"}", "{\"a\":\"C:\\\\Users\"}"},
        {"{\"a\":\"\\d+\\.\\n\\u0041\\\\\"}", "{\"a\":\"\\\\d+\\\\.\\n\\u0041\\\\\"}"},
        {"{\"a\":\"\\u12g4 \\x\"}", "{\"a\":\"\\\\u12g4 \\\\x\"}"},
        {"\"\\", "\"\\\\"},
        {"\"\\u00", "\"\\\\u00"},
        {"{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\uabCD\"}", NULL},
        {"\\ outside of strings \\", NULL},
        {"\"in\" \\ \"in\\.\" \\", "\"in\" \\ \"in\\\\.\" \\"},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t bytes = 0;
        char *repaired = NULL;
        enum result result =
            backslash_repair(cases[i].json, strlen(cases[i].json), &repaired, &bytes);
        if (!cases[i].repaired) {
            assert_int_equal(result, RESULT_NOT_FOUND);
            assert_null(repaired);
            continue;
        }
        assert_int_equal(result, RESULT_OK);
        assert_string_equal(repaired, cases[i].repaired);
        assert_int_equal(bytes, strlen(cases[i].repaired));
        free(repaired);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(backslashes_outside_escapes_are_doubled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
