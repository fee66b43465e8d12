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

#include "frontend/api/messages/lone_backslash.h"

static void lone_ones_are_doubled_and_escapes_kept(void **state)
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
        char *repaired = lone_backslash_repair(cases[i].json, strlen(cases[i].json), &bytes);
        if (!cases[i].repaired) {
            assert_null(repaired);
            continue;
        }
        assert_non_null(repaired);
        assert_string_equal(repaired, cases[i].repaired);
        assert_int_equal(bytes, strlen(cases[i].repaired));
        free(repaired);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lone_ones_are_doubled_and_escapes_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
