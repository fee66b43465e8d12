/*
 * The values of --speculation: each name has its value, other names leave it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/speculation.h"

static void each_value_has_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum speculation value;
    } values[] = {{"off", SPECULATION_OFF},
                  {"auto", SPECULATION_AUTO},
                  {"text", SPECULATION_TEXT},
                  {"mtp", SPECULATION_MTP}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        enum speculation read = (enum speculation)((values[i].value + 1) % 4);
        assert_int_equal(speculation_parse(values[i].name, &read), 0);
        assert_int_equal(read, values[i].value);
    }
}

static void other_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", "on", "OFF", "of", "mtp ", "texts", "auto,mtp"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        enum speculation read = SPECULATION_TEXT;
        assert_int_equal(speculation_parse(names[i], &read), -1);
        assert_int_equal(read, SPECULATION_TEXT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_value_has_its_name),
        cmocka_unit_test(other_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
