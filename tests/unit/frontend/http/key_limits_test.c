/*
 * Attributes of an API key: names, numbers and their nearest invalid neighbours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/http/key_limits.h"

static bool parse(const char *text, struct client_rights *rights)
{
    *rights = (struct client_rights){.limits = {.tokens = 7}};
    return key_limits_parse(text, strlen(text), rights);
}

static void named_attributes_change_and_others_stay(void **state)
{
    (void)state;
    struct client_rights rights;
    assert_true(parse("", &rights));
    assert_false(rights.admin);
    assert_int_equal(rights.limits.tokens, 7);
    assert_true(parse(" \tadmin requests=60\timages=1000000000  concurrent=1 ", &rights));
    assert_true(rights.admin);
    assert_int_equal(rights.limits.requests, 60);
    assert_int_equal(rights.limits.tokens, 7);
    assert_int_equal(rights.limits.images, KEY_LIMIT_MAX);
    assert_int_equal(rights.limits.concurrent, 1);
    assert_true(parse("tokens=0", &rights));
    assert_int_equal(rights.limits.tokens, 0);
}

static void other_words_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"adm",
                                      "admins",
                                      "admin=1",
                                      "requests",
                                      "requests=",
                                      "requests=-1",
                                      "requests=1x",
                                      "tokens=1e3",
                                      "=5",
                                      "requests=1000000001",
                                      "images=+1",
                                      "tokens = 5",
                                      "Requests=5",
                                      "token=5",
                                      "requests=10000000000",
                                      "admin,requests=1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct client_rights rights;
        if (parse(bad[i], &rights))
            print_error("accepted: %s\n", bad[i]);
        assert_false(parse(bad[i], &rights));
    }
}

/* The text is `bytes` long; what follows it is not read. */
static void nothing_beyond_the_text_counts(void **state)
{
    (void)state;
    struct client_rights rights = {0};
    assert_true(key_limits_parse("requests=12345", 10, &rights));
    assert_int_equal(rights.limits.requests, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_attributes_change_and_others_stay),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(nothing_beyond_the_text_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
