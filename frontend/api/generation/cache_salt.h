/*
 * A key that separates tenants in the prefix cache: a request uses and leaves only prefixes that were
 * cached under its own salt. frontend/serve/routes/tenant_salt.h derives it.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_CACHE_SALT_H
#define SHOAL_FRONTEND_API_GENERATION_CACHE_SALT_H

#include <stddef.h>
#include <stdint.h>

struct cache_salt {
    uint32_t words[4];
};

/* Of several tenants. */
struct cache_salts {
    const struct cache_salt *items; /* [count] */
    size_t count;
};

#endif
