/*
 * A tenant behind a key is that key's: whoever knows another tenant's name, but not its key, does
 * not meet its prefixes. The hash is keyed by a random number of this run, so a worker never sees
 * a key or a name, and two tenants have the same salt as seldom as two contents the same hash.
 */
#include "frontend/serve/routes/tenant_salt.h"

#include <string.h>

struct cache_salt tenant_salt_make(const struct keyed_hash_key *key,
                                   const struct client_key *client, const char *tenant)
{
    static const struct client_key nobody;
    struct cache_salt salt = {{0}};
    if (!tenant && memcmp(client, &nobody, sizeof nobody) == 0)
        return salt;
    struct {
        struct client_key client;
        uint64_t tenant[2];
    } whose = {.client = *client};
    if (tenant)
        keyed_hash_wide(key, tenant, strlen(tenant), whose.tenant);
    uint64_t hash[2];
    keyed_hash_wide(key, &whose, sizeof whose, hash);
    _Static_assert(sizeof hash == sizeof salt, "128 bits");
    memcpy(&salt, hash, sizeof salt);
    return salt;
}
