/*
 * Addresses that are public and those that are not, at the edges of each block.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <string.h>
#include <sys/un.h>

#include "frontend/image/media_address_policy.h"

static const char *judge(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return media_address_policy_judge((const struct sockaddr *)&in, sizeof in);
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return media_address_policy_judge((const struct sockaddr *)&in6, sizeof in6);
}

static void public_ones_pass(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1.0.0.0",
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.88.100.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.101.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450:4001:81b::200e",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "2001:200::1",
        "2001:db7:ffff::",
        "2001:db9::",
        "3ffe:ffff::",
        "3fff:1000::",
        "2003::7f00:1",
        "2003:7f00:1::",
        "2000::",
        "2001:4860:4860::8888",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *what = judge(texts[i]);
        if (what)
            fail_msg("%s is said to be %s", texts[i], what);
    }
}

static void assert_judged(const char *text, const char *expected)
{
    const char *what = judge(text);
    if (!what)
        fail_msg("%s is said to be public", text);
    assert_string_equal(what, expected);
}

static void other_ipv4_addresses_do_not(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"0.0.0.0", "unspecified"},
        {"0.255.255.255", "unspecified"},
        {"10.0.0.0", "private"},
        {"10.255.255.255", "private"},
        {"100.64.0.0", "carrier-grade NAT"},
        {"100.127.255.255", "carrier-grade NAT"},
        {"127.0.0.1", "loopback"},
        {"127.255.255.255", "loopback"},
        {"169.254.169.254", "link-local"},
        {"172.16.0.0", "private"},
        {"172.31.255.255", "private"},
        {"192.0.0.170", "reserved"},
        {"192.0.0.0", "reserved"},
        {"192.0.0.255", "reserved"},
        {"192.0.2.0", "documentation"},
        {"192.0.2.255", "documentation"},
        {"192.88.99.0", "6to4 relay"},
        {"192.88.99.255", "6to4 relay"},
        {"192.168.0.1", "private"},
        {"192.168.255.255", "private"},
        {"169.254.0.0", "link-local"},
        {"169.254.255.255", "link-local"},
        {"198.18.0.0", "benchmarking"},
        {"198.19.255.255", "benchmarking"},
        {"198.51.100.0", "documentation"},
        {"198.51.100.255", "documentation"},
        {"203.0.113.0", "documentation"},
        {"203.0.113.255", "documentation"},
        {"224.0.0.0", "multicast"},
        {"239.255.255.255", "multicast"},
        {"240.0.0.0", "reserved"},
        {"255.255.255.255", "reserved"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_judged(rows[i][0], rows[i][1]);
}

static void other_ipv6_addresses_do_not(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"::", "not global"},
        {"::1", "loopback"},
        {"::127.0.0.1", "not global"},
        {"::8.8.8.8", "not global"},
        {"::ffff:127.0.0.1", "loopback"},
        {"::ffff:169.254.169.254", "link-local"},
        {"::ffff:0:127.0.0.1", "not global"},
        {"::fffe:8.8.8.8", "not global"},
        {"64:ff9b::1:808:808", "not global"},
        {"64:ff9b::8000:0:808:808", "not global"},
        {"64:ff9b::10.0.0.1", "private"},
        {"64:ff9b:1::8.8.8.8", "not global"},
        {"2002:7f00:1::", "loopback"},
        {"2002:c0a8:1::1", "private"},
        {"2001::1", "reserved"},
        {"2001:1ff:ffff::", "reserved"},
        {"2001:db8::", "documentation"},
        {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"},
        {"3fff::", "documentation"},
        {"3fff:0fff:ffff::", "documentation"},
        {"2002:a00::1", "private"},
        {"3fff:fff::1", "documentation"},
        {"5f00::1", "not global"},
        {"fc00::1", "not global"},
        {"fd12:3456::1", "not global"},
        {"fe80::1", "not global"},
        {"fec0::1", "not global"},
        {"ff02::1", "not global"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_judged(rows[i][0], rows[i][1]);
}

static void other_families_do_not(void **state)
{
    (void)state;
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "/run/x"};
    struct sockaddr_in in = {.sin_family = AF_INET};
    inet_pton(AF_INET, "8.8.8.8", &in.sin_addr);
    assert_non_null(media_address_policy_judge((const struct sockaddr *)&un, sizeof un));
    assert_non_null(media_address_policy_judge((const struct sockaddr *)&in, 4));
    assert_non_null(media_address_policy_judge((const struct sockaddr *)&in, sizeof in - 1));
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    inet_pton(AF_INET6, "2a00:1450:4001:81b::200e", &in6.sin6_addr);
    assert_null(media_address_policy_judge((const struct sockaddr *)&in6, sizeof in6));
    assert_non_null(media_address_policy_judge((const struct sockaddr *)&in6, sizeof in6 - 1));
    struct sockaddr_storage other = {.ss_family = AF_UNIX};
    memcpy((char *)&other + offsetof(struct sockaddr_in6, sin6_addr), &in6.sin6_addr,
           sizeof in6.sin6_addr);
    assert_non_null(media_address_policy_judge((const struct sockaddr *)&other, sizeof other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_ones_pass),
        cmocka_unit_test(other_ipv4_addresses_do_not),
        cmocka_unit_test(other_ipv6_addresses_do_not),
        cmocka_unit_test(other_families_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
