/*
 * CORS header lines for requests, and the origins that a list may have.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/http/cors_policy.h"
#include "proto/limits.h"

#define A "https://a.example"
#define B "http://b.example:3000"

static struct text_buffer lines;

static int teardown(void **state)
{
    (void)state;
    text_buffer_fini(&lines);
    lines = (struct text_buffer){0};
    return 0;
}

/* The lines of a reply to a request with these headers. */
static const char *answer(const struct cors_policy *policy, const char *method, const char *headers)
{
    char request[4096];
    struct http_parser parser = {0};
    http_parser_begin(&parser, sizeof request, 0);
    snprintf(request, sizeof request, "%s / HTTP/1.1\r\nHost: h\r\n%s\r\n", method, headers);
    (void)http_parser_feed(&parser, request, strlen(request));
    assert_int_equal(parser.state, HTTP_PARSER_DONE);
    text_buffer_clear(&lines);
    text_buffer_append_text(&lines, "");
    cors_policy_append_headers(policy, &parser, "POST, OPTIONS", &lines);
    http_parser_fini(&parser);
    return lines.bytes ? lines.bytes : "";
}

static void a_listed_origin_is_named_in_the_reply(void **state)
{
    (void)state;
    static const char *const origins[] = {A, B};
    const struct cors_policy policy = {origins, 2};
    assert_string_equal(answer(&policy, "GET", "Origin: " B "\r\n"),
                        "Vary: Origin\r\nAccess-Control-Allow-Origin: " B "\r\n"
                        "Access-Control-Expose-Headers: x-request-id, request-id, retry-after, "
                        "x-shoal-tool-format, x-shoal-loose-tools, x-shoal-ignored-tools\r\n");
    assert_string_equal(answer(&policy, "GET", ""), "Vary: Origin\r\n");
    assert_string_equal(answer(&policy, "GET", "Origin: https://c.example\r\n"),
                        "Vary: Origin\r\n");
    assert_string_equal(answer(&policy, "GET", "Origin: " A ".evil\r\n"), "Vary: Origin\r\n");
}

static void a_star_allows_every_origin(void **state)
{
    (void)state;
    static const char *const origins[] = {A, "*"};
    const struct cors_policy policy = {origins, 2};
    assert_string_equal(answer(&policy, "GET", "Origin: null\r\n"),
                        "Access-Control-Allow-Origin: *\r\n"
                        "Access-Control-Expose-Headers: x-request-id, request-id, retry-after, "
                        "x-shoal-tool-format, x-shoal-loose-tools, x-shoal-ignored-tools\r\n");
    assert_string_equal(answer(&policy, "GET", ""), "");
}

static void a_preflight_gets_methods_and_headers(void **state)
{
    (void)state;
    static const char *const origins[] = {A};
    const struct cors_policy policy = {origins, 1};
    assert_string_equal(answer(&policy, "OPTIONS",
                               "Origin: " A "\r\nAccess-Control-Request-Method: POST\r\n"
                               "Access-Control-Request-Headers: authorization,x-b\r\n"),
                        "Vary: Origin, Access-Control-Request-Headers\r\n"
                        "Access-Control-Allow-Origin: " A "\r\n"
                        "Access-Control-Expose-Headers: x-request-id, request-id, retry-after, "
                        "x-shoal-tool-format, x-shoal-loose-tools, x-shoal-ignored-tools\r\n"
                        "Access-Control-Allow-Methods: POST, OPTIONS\r\n"
                        "Access-Control-Max-Age: 600\r\n"
                        "Access-Control-Allow-Headers: authorization,x-b\r\n");
    /* Not a preflight: one of its two headers is missing, or the method is another. */
    assert_null(strstr(answer(&policy, "OPTIONS", "Origin: " A "\r\n"), "Methods"));
    assert_null(
        strstr(answer(&policy, "OPTIONS", "Access-Control-Request-Method: GET\r\n"), "Met"));
    assert_null(strstr(
        answer(&policy, "POST", "Origin: " A "\r\nAccess-Control-Request-Method: GET\r\n"), "Met"));
}

/* Whether a preflight's answer allows the header names that it asks for. */
static bool allows_names(const char *names)
{
    static const char *const origins[] = {A};
    const struct cors_policy policy = {origins, 1};
    static char headers[4000];
    int length = snprintf(headers, sizeof headers,
                          "Origin: " A "\r\nAccess-Control-Request-Method: POST\r\n"
                          "Access-Control-Request-Headers: %s\r\n",
                          names);
    assert_true(length > 0 && (size_t)length < sizeof headers);
    static char line[4000];
    snprintf(line, sizeof line, "Access-Control-Allow-Headers: %s\r\n", names);
    const char *reply = answer(&policy, "OPTIONS", headers);
    assert_non_null(strstr(reply, "Access-Control-Allow-Methods: "));
    bool allowed = strstr(reply, line) != NULL;
    assert_true(allowed || !strstr(reply, "Allow-Headers"));
    return allowed;
}

static void only_lists_of_names_are_repeated(void **state)
{
    (void)state;
    static const char *const lists[] = {"azAZ09", "a", "z", "A", "Z", "0", "9", "x-a_b, y"};
    static const char *const others[] = {"a:b", "a/b", "a@b", "a[b", "a`b",
                                         "a{b", "a;b", "a(b", "(a",  "a\xe9"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (!allows_names(lists[i]))
            fail_msg("not repeated: %s", lists[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (allows_names(others[i]))
            fail_msg("repeated: %s", others[i]);
    }
    assert_false(allows_names(""));
    char longest[2050];
    memset(longest, 'a', sizeof longest);
    longest[2048] = '\0';
    assert_true(allows_names(longest));
    longest[2048] = 'a';
    longest[2049] = '\0';
    assert_false(allows_names(longest));
}

static void a_preflight_may_ask_for_no_header(void **state)
{
    (void)state;
    static const char *const origins[] = {A};
    const struct cors_policy policy = {origins, 1};
    const char *reply =
        answer(&policy, "OPTIONS", "Origin: " A "\r\nAccess-Control-Request-Method: POST\r\n");
    assert_non_null(strstr(reply, "Access-Control-Max-Age: 600\r\n"));
    assert_null(strstr(reply, "Allow-Headers"));
}

static void without_origins_there_are_no_headers(void **state)
{
    (void)state;
    const struct cors_policy policy = {NULL, 0};
    assert_string_equal(
        answer(&policy, "OPTIONS", "Origin: " A "\r\nAccess-Control-Request-Method: POST\r\n"), "");
}

static void origins_are_checked(void **state)
{
    (void)state;
    static const char *const good[] = {
        "*", "null", A, B, "https://[2001:db8::1]:8443", "app://x", "app://!~", "app://[z]"};
    static const char *const bad[] = {"",
                                      "a.example",
                                      "https://",
                                      "://x",
                                      "https://a.example/",
                                      "https://a.example/x",
                                      "https://A.example",
                                      "https://a.exampleZ",
                                      "https:///",
                                      "https://a.example\x7f",
                                      "https://a.example?",
                                      "https://a.example ",
                                      "https://a\r\nb",
                                      "https://a.example,https://b.example",
                                      "**"};
    struct error_text error;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(cors_policy_check_origin(good[i], &error), RESULT_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (cors_policy_check_origin(bad[i], &error) == RESULT_OK)
            fail_msg("taken: '%s'", bad[i]);
    }
    char longest[300];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, "https://", 8);
    assert_int_equal(cors_policy_check_origin(longest, &error), RESULT_INVALID);
    longest[LIMIT_CORS_ORIGIN_BYTES + 1] = '\0';
    assert_int_equal(cors_policy_check_origin(longest, &error), RESULT_INVALID);
    longest[LIMIT_CORS_ORIGIN_BYTES] = '\0';
    assert_int_equal(cors_policy_check_origin(longest, &error), RESULT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_listed_origin_is_named_in_the_reply, teardown),
        cmocka_unit_test_teardown(a_star_allows_every_origin, teardown),
        cmocka_unit_test_teardown(a_preflight_gets_methods_and_headers, teardown),
        cmocka_unit_test_teardown(only_lists_of_names_are_repeated, teardown),
        cmocka_unit_test_teardown(a_preflight_may_ask_for_no_header, teardown),
        cmocka_unit_test_teardown(without_origins_there_are_no_headers, teardown),
        cmocka_unit_test_teardown(origins_are_checked, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
