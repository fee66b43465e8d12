/*
 * Members of queries: which value is found, how it is decoded, and similar texts that are not
 * found.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/http/query_text.h"

static void values_are_found_and_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        const char *value; /* of "limit"; NULL: none */
    } cases[] = {
        {"limit=5", "5"},
        {"a=1&limit=5&limit=6", "5"},
        {"limit=", ""},
        {"limit", ""},
        {"limit&a=1", ""},
        {"limit=a%20b+c%2", "a b c%2"},
        {"limit=%09%10x", "\t\x10x"},
        {"limit=%zz", "%zz"},
        {"limit=%z1", "%z1"},
        {"limit=%1z", "%1z"},
        {"limit=%", "%"},
        {"limit=0123456789abcdef", "0123456"},
        {"", NULL},
        {"&&&", NULL},
        {"limits=5", NULL},
        {"a=limit=5", NULL},
        {"xlimit=5", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char value[8] = "before";
        bool found = query_text_find(cases[i].query, "limit", value, sizeof value);
        assert_int_equal(found, cases[i].value != NULL);
        assert_string_equal(value, found ? cases[i].value : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_and_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
