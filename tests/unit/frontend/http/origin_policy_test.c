/*
 * Which Host and Origin a server without keys on a loopback address answers.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "frontend/http/origin_policy.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define PAGE         "https://chat.example"

static const char *const cors_origins[] = {PAGE, "null"};
static const struct cors_policy cors = {cors_origins, COUNT(cors_origins)};
static const char *const hosts[] = {"Shoal.example"};
static const struct origin_policy policy = {
    .enforced = true, .hosts = hosts, .host_count = COUNT(hosts), .cors = &cors};

static enum origin_verdict verdict(const struct origin_policy *checked, const char *request)
{
    char bytes[1024];
    struct http_parser parser = {0};
    http_parser_begin(&parser, sizeof bytes, 0);
    snprintf(bytes, sizeof bytes, "%s\r\n", request);
    (void)http_parser_feed(&parser, bytes, strlen(bytes));
    assert_int_equal(parser.state, HTTP_PARSER_DONE);
    enum origin_verdict found = origin_policy_check(checked, &parser);
    http_parser_fini(&parser);
    return found;
}

static enum origin_verdict of_host(const struct origin_policy *checked, const char *host)
{
    char request[512];
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: %s\r\n", host);
    return verdict(checked, request);
}

static enum origin_verdict of_page(const struct origin_policy *checked, const char *origin)
{
    char request[512];
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: %s\r\n",
             origin);
    return verdict(checked, request);
}

static void names_of_this_machine_are_allowed(void **state)
{
    (void)state;
    static const char *const own[] = {"localhost", "LOCALHOST:80",  "app.localhost:3000",
                                      "127.0.0.1", "127.9.9.9:1",   "[::1]:8080",
                                      "",          "shoal.example", "shoal.example:443"};
    static const char *const foreign[] = {"evil.example",
                                          "evil.example:8080",
                                          "localhost.evil.example",
                                          "notlocalhost",
                                          "ocalhost",
                                          "localhos",
                                          "128.0.0.1",
                                          "10.0.0.1",
                                          "[::2]",
                                          "127.0.0.1.evil.example",
                                          "0.0.0.0",
                                          "shoal.example.org",
                                          "127.1.1.256"};
    for (size_t i = 0; i < COUNT(own); i++)
        assert_int_equal(of_host(&policy, own[i]), ORIGIN_ALLOWED);
    for (size_t i = 0; i < COUNT(foreign); i++)
        assert_int_equal(of_host(&policy, foreign[i]), ORIGIN_FOREIGN_HOST);
}

/* RFC 9112, 3.2.2: the host of an absolute target counts, not the header's. */
static void the_host_of_an_absolute_target_counts(void **state)
{
    (void)state;
    assert_int_equal(verdict(&policy, "GET http://evil/ HTTP/1.1\r\nHost: localhost\r\n"),
                     ORIGIN_FOREIGN_HOST);
    assert_int_equal(verdict(&policy, "GET http://localhost/ HTTP/1.1\r\nHost: evil\r\n"),
                     ORIGIN_ALLOWED);
    assert_int_equal(verdict(&policy, "GET / HTTP/1.0\r\n"), ORIGIN_ALLOWED);
}

static void pages_of_other_origins_are_refused(void **state)
{
    (void)state;
    static const char *const own[] = {
        PAGE,   "http://localhost:3000", "https://127.0.0.1", "http://[::1]:80",
        "null", "http://shoal.example"};
    static const char *const foreign[] = {"https://evil.example",
                                          "http://localhost.evil.example",
                                          PAGE ":8443",
                                          "chrome-extension://localhost",
                                          "https:/evil://localhost",
                                          "http:/evil://localhost",
                                          "http:evil://localhost",
                                          "http://",
                                          "http://localhost/",
                                          "http://user@localhost",
                                          "localhost"};
    for (size_t i = 0; i < COUNT(own); i++)
        assert_int_equal(of_page(&policy, own[i]), ORIGIN_ALLOWED);
    for (size_t i = 0; i < COUNT(foreign); i++)
        assert_int_equal(of_page(&policy, foreign[i]), ORIGIN_FOREIGN_PAGE);
    /* One of two Origin headers is enough to be refused. */
    assert_int_equal(verdict(&policy, "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: "
                                      "http://localhost\r\nOrigin: http://evil\r\n"),
                     ORIGIN_FOREIGN_PAGE);
    assert_int_equal(verdict(&policy, "GET / HTTP/1.0\r\nOrigin: http://evil\r\n"),
                     ORIGIN_FOREIGN_PAGE); /* the first header */
    struct origin_policy none = policy;
    none.cors = &(const struct cors_policy){NULL, 0};
    assert_int_equal(of_page(&none, "null"), ORIGIN_FOREIGN_PAGE);
}

static void a_star_allows_all_and_without_enforcement_nothing_is_checked(void **state)
{
    (void)state;
    struct origin_policy open = policy;
    open.hosts = (const char *const[]){"*"};
    assert_int_equal(of_host(&open, "evil.example"), ORIGIN_ALLOWED);
    struct origin_policy off = policy;
    off.enforced = false;
    assert_int_equal(of_host(&off, "evil.example"), ORIGIN_ALLOWED);
    assert_int_equal(of_page(&off, "http://evil.example"), ORIGIN_ALLOWED);
}

/* A name of 255 bytes is compared, a longer one is no name of this machine. */
static void names_are_bounded(void **state)
{
    (void)state;
    char name[257];
    struct origin_policy longest = policy;
    longest.hosts = (const char *const[]){name};
    memset(name, 'a', sizeof name);
    name[255] = '\0';
    assert_int_equal(of_host(&longest, name), ORIGIN_ALLOWED);
    name[255] = 'a';
    name[256] = '\0';
    assert_int_equal(of_host(&longest, name), ORIGIN_FOREIGN_HOST);
}

static void option_values_are_checked(void **state)
{
    (void)state;
    struct error_text error;
    static const char *const good[] = {"*", "a", "a.example", "10.0.0.1", "[::1]"};
    static const char *const bad[] = {"", "a:80", "http://a", "a b", "a/"};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_int_equal(origin_policy_check_host(good[i], &error), RESULT_OK);
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(origin_policy_check_host(bad[i], &error), RESULT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_this_machine_are_allowed),
        cmocka_unit_test(the_host_of_an_absolute_target_counts),
        cmocka_unit_test(pages_of_other_origins_are_refused),
        cmocka_unit_test(a_star_allows_all_and_without_enforcement_nothing_is_checked),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(option_values_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
