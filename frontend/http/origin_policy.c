/*
 * Browsers send the name by which they reached the server as Host, and with every request of a page
 * that is not a plain GET of the same origin the page's Origin. A page under a foreign name that
 * resolves to 127.0.0.1 has that foreign name in both.
 *
 * Other pages of this machine (http://localhost:3000) are allowed: their author already runs code
 * here.
 */
#include "frontend/http/origin_policy.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "frontend/http/http_syntax.h"

#define HOST_BYTES 256u /* 253 of a name, brackets of an address, NUL */

/* Copies the host of "host[:port]" without port. False if it is too long for a name. */
static bool host_copy(const char *authority, char host[HOST_BYTES])
{
    size_t bytes = authority[0] == '[' ? strcspn(authority, "]") + 1 : strcspn(authority, ":");
    if (bytes >= HOST_BYTES)
        return false;
    memcpy(host, authority, bytes);
    host[bytes] = '\0';
    return true;
}

static bool is_loopback_name(const char *host)
{
    static const char name[] = "localhost";
    size_t bytes = strlen(host);
    struct in_addr address;
    if (inet_pton(AF_INET, host, &address) == 1)
        return ntohl(address.s_addr) >> 24 == 127;
    if (strcmp(host, "[::1]") == 0)
        return true;
    if (bytes < sizeof name - 1 || strcasecmp(host + bytes - (sizeof name - 1), name) != 0)
        return false;
    return bytes == sizeof name - 1 || host[bytes - sizeof name] == '.';
}

static bool is_own_host(const struct origin_policy *policy, const char *authority)
{
    char host[HOST_BYTES];
    if (!host_copy(authority, host))
        return false;
    for (size_t i = 0; i < policy->host_count; i++) {
        if (strcmp(policy->hosts[i], "*") == 0 || strcasecmp(policy->hosts[i], host) == 0)
            return true;
    }
    return is_loopback_name(host);
}

static bool is_own_page(const struct origin_policy *policy, const char *origin)
{
    if (cors_policy_allows(policy->cors, origin))
        return true;
    if (strncmp(origin, "http://", 7) != 0 && strncmp(origin, "https://", 8) != 0)
        return false;
    const char *authority = strstr(origin, "://") + 3;
    return *authority && http_is_host(authority) && is_own_host(policy, authority);
}

enum result origin_policy_check_host(const char *host, struct error_text *error)
{
    char name[HOST_BYTES];
    bool good = strcmp(host, "*") == 0 ||
                (*host && http_is_host(host) && host_copy(host, name) && strcmp(host, name) == 0);
    if (!good)
        return error_set(error, RESULT_INVALID, "'%.80s' is not a host name without port, nor '*'",
                         host);
    return RESULT_OK;
}

enum origin_verdict origin_policy_check(const struct origin_policy *policy,
                                        const struct http_parser *request)
{
    if (!policy->enforced)
        return ORIGIN_ALLOWED;
    if (*request->authority && !is_own_host(policy, request->authority))
        return ORIGIN_FOREIGN_HOST;
    for (uint32_t i = 0; i < request->header_count; i++) {
        if (strcmp(request->headers[i].name, "origin") == 0 &&
            !is_own_page(policy, request->headers[i].value))
            return ORIGIN_FOREIGN_PAGE;
    }
    return ORIGIN_ALLOWED;
}
