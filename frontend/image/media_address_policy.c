/*
 * Two tables of special-purpose addresses from IANA's registries: one for IPv4, one for the parts
 * of 2000::/3 that are not public. 2000::/3 is the only IPv6 block for global unicast; all
 * addresses outside it are refused without a row: loopback, link-local, unique local, multicast,
 * future blocks.
 */
#include "frontend/image/media_address_policy.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct prefix {
    uint8_t bytes[16];
    unsigned bits;
    const char *what;
};

static const struct prefix of_ipv4[] = {
    {{0}, 8, "unspecified"},
    {{10}, 8, "private"},
    {{100, 64}, 10, "carrier-grade NAT"},
    {{127}, 8, "loopback"},
    {{169, 254}, 16, "link-local"},
    {{172, 16}, 12, "private"},
    {{192, 0, 0}, 24, "reserved"},
    {{192, 0, 2}, 24, "documentation"},
    {{192, 88, 99}, 24, "6to4 relay"},
    {{192, 168}, 16, "private"},
    {{198, 18}, 15, "benchmarking"},
    {{198, 51, 100}, 24, "documentation"},
    {{203, 0, 113}, 24, "documentation"},
    {{224}, 4, "multicast"},
    {{240}, 4, "reserved"},
};

static const struct prefix of_ipv6[] = {
    {{0x20, 0x01}, 23, "reserved"}, /* Teredo among them */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "documentation"},
    {{0x3f, 0xff}, 20, "documentation"},
};

/* IPv6 prefixes with an IPv4 address after them, and its place. */
static const struct {
    struct prefix prefix;
    unsigned offset;
} carriers[] = {
    {{{[10] = 0xff, [11] = 0xff}, 96, "mapped"}, 12},
    {{{0x00, 0x64, 0xff, 0x9b}, 96, "NAT64"}, 12},
    {{{0x20, 0x02}, 16, "6to4"}, 2},
};

static bool matches(const uint8_t *address, const struct prefix *prefix)
{
    unsigned whole = prefix->bits / 8;
    unsigned rest = prefix->bits % 8;
    uint8_t mask = (uint8_t)(0xff00u >> rest);
    return memcmp(address, prefix->bytes, whole) == 0 &&
           (rest == 0 || ((address[whole] ^ prefix->bytes[whole]) & mask) == 0);
}

static const char *find(const uint8_t *address, const struct prefix *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (matches(address, &rows[i]))
            return rows[i].what;
    }
    return NULL;
}

static const char *judge_ipv4(const uint8_t address[4])
{
    return find(address, of_ipv4, sizeof of_ipv4 / sizeof of_ipv4[0]);
}

static const char *judge_ipv6(const uint8_t address[16])
{
    static const uint8_t loopback[16] = {[15] = 1};
    for (size_t i = 0; i < sizeof carriers / sizeof carriers[0]; i++) {
        if (matches(address, &carriers[i].prefix))
            return judge_ipv4(address + carriers[i].offset);
    }
    if (memcmp(address, loopback, sizeof loopback) == 0)
        return "loopback";
    if ((address[0] & 0xe0) != 0x20)
        return "not global";
    return find(address, of_ipv6, sizeof of_ipv6 / sizeof of_ipv6[0]);
}

const char *media_address_policy_judge(const struct sockaddr *address, socklen_t address_bytes)
{
    if (address->sa_family == AF_INET && address_bytes >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        return judge_ipv4((const uint8_t *)&in.sin_addr);
    }
    if (address->sa_family == AF_INET6 && address_bytes >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof in6);
        return judge_ipv6(in6.sin6_addr.s6_addr);
    }
    return "no internet address";
}
