/*
 * Whose cached prefixes are a request's? Those of its tenant: of its API key and of the
 * X-Tenant-Id that it names, if any. Requests with neither share with one another.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_TENANT_SALT_H
#define SHOAL_FRONTEND_SERVE_ROUTES_TENANT_SALT_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/base/client_key.h"
#include "proto/keyed_hash.h"

/* `tenant`: the header's value, NULL for none. All zero for nobody in particular. */
struct cache_salt tenant_salt_make(const struct keyed_hash_key *key,
                                   const struct client_key *client, const char *tenant);

#endif
