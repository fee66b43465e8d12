/*
 * The list of hosts from which media may be fetched: entries that are hosts, and those that admit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/image/media_policy.h"

static bool admits(const char *entry, const char *host, uint16_t port)
{
    const struct media_policy policy = {.hosts = &entry, .host_count = 1};
    return media_policy_admits(&policy, host, port, 443);
}

static enum result check(const char *entry)
{
    const struct media_policy policy = {.hosts = &entry, .host_count = 1};
    struct error_text error = {""};
    enum result result = media_policy_check(&policy, &error);
    assert_int_equal(error.text[0] != '\0', result != RESULT_OK);
    return result;
}

static void an_entry_without_a_port_admits_the_usual_one(void **state)
{
    (void)state;
    assert_true(admits("a.example", "a.example", 443));
    assert_true(admits("A.example", "a.EXAMPLE", 443));
    assert_false(admits("a.example", "a.example", 80));
    assert_false(admits("a.example", "a.exampl", 443));
    assert_false(admits("a.example", "a.example.b", 443));
    assert_false(admits("a.example", "b.example", 443));
    assert_true(admits("[::1]", "[::1]", 443));
}

static void an_entry_with_a_port_admits_that_one(void **state)
{
    (void)state;
    const struct {
        const char *entry;
        uint16_t port;
    } rows[] = {{"a:1", 1},   {"a:9", 9},   {"a:08", 8},
                {"a:90", 90}, {"a:19", 19}, {"a:65535", 65535}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(check(rows[i].entry), RESULT_OK);
        assert_true(admits(rows[i].entry, "a", rows[i].port));
        assert_false(admits(rows[i].entry, "a", 443));
    }
    assert_true(admits("[::1]:8443", "[::1]", 8443));
}

static void other_entries_are_refused_and_admit_nothing(void **state)
{
    (void)state;
    const char *const entries[] = {"",     ":80",    "a:",      "a:0",  "a:65536", "a:x",
                                   "a: 1", "a:+1",   "a:/",     "a::",  "a:1x",    "a:1 ",
                                   "[::1", "[::1]x", "[::1]80", "[",    "[:80",    "*.a",
                                   "a/b",  "a@b",    "a b:80",  "9a:-1"};
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (check(entries[i]) != RESULT_INVALID)
            fail_msg("taken: '%s'", entries[i]);
        assert_false(admits(entries[i], "a", 443));
        assert_false(admits(entries[i], entries[i], 443));
    }
}

static void any_entry_of_the_list_admits(void **state)
{
    (void)state;
    const char *const hosts[] = {"a", "b:80", "c"};
    const struct media_policy policy = {.hosts = hosts, .host_count = 2};
    assert_int_equal(media_policy_check(&policy, NULL), RESULT_OK);
    assert_true(media_policy_admits(&policy, "a", 443, 443));
    assert_true(media_policy_admits(&policy, "b", 80, 443));
    assert_false(media_policy_admits(&policy, "c", 443, 443));
    const struct media_policy none = {.hosts = hosts, .host_count = 0};
    assert_false(media_policy_admits(&none, "a", 443, 443));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_without_a_port_admits_the_usual_one),
        cmocka_unit_test(an_entry_with_a_port_admits_that_one),
        cmocka_unit_test(other_entries_are_refused_and_admit_nothing),
        cmocka_unit_test(any_entry_of_the_list_admits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
