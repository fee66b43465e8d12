/*
 * Compares the hosts of URLs with the operator's list. There are no patterns: a pattern can match a
 * name that the operator did not intend.
 */
#include "frontend/image/media_policy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Parts an entry; *port is 0 where it names none. False: it is no host. */
static bool host_split(const char *entry, size_t *name_bytes, uint16_t *port)
{
    const char *end = entry[0] == '[' ? strchr(entry, ']') : NULL;
    size_t bytes = entry[0] == '[' ? (end ? (size_t)(end - entry) + 1 : 0) : strcspn(entry, ":");
    *name_bytes = bytes;
    *port = 0;
    if (bytes == 0 || strcspn(entry, "/@?#*% ") < bytes)
        return false;
    if (entry[bytes] == '\0')
        return true;
    char *rest = NULL;
    unsigned long number = strtoul(entry + bytes + 1, &rest, 10);
    bool good = entry[bytes] == ':' && entry[bytes + 1] >= '0' && entry[bytes + 1] <= '9' &&
                *rest == '\0' && number > 0 && number <= UINT16_MAX;
    *port = good ? (uint16_t)number : 0;
    return good;
}

enum result media_policy_check(const struct media_policy *policy, struct error_text *error)
{
    size_t name_bytes;
    uint16_t port;
    for (size_t i = 0; i < policy->host_count; i++) {
        if (!host_split(policy->hosts[i], &name_bytes, &port))
            return error_set(error, RESULT_INVALID,
                             "--allow-media-domain: '%.100s' is neither HOST nor HOST:PORT",
                             policy->hosts[i]);
    }
    return RESULT_OK;
}

bool media_policy_admits(const struct media_policy *policy, const char *host, uint16_t port,
                         uint16_t usual_port)
{
    size_t host_bytes = strlen(host);
    for (size_t i = 0; i < policy->host_count; i++) {
        size_t name_bytes;
        uint16_t own_port;
        if (host_split(policy->hosts[i], &name_bytes, &own_port) && name_bytes == host_bytes &&
            strncasecmp(policy->hosts[i], host, host_bytes) == 0 &&
            port == (own_port ? own_port : usual_port))
            return true;
    }
    return false;
}
