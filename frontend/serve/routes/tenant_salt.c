/*
 * A tenant belongs to the API key it came with: a client that knows another tenant's name, but not
 * its key, does not share its prefixes. The hash is keyed with a random number of this run, so a
 * worker never sees a key or a name, and two tenants share a salt as rarely as two contents a hash.
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
