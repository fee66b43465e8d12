/*
 * Selects the cached prefixes that a request may use: those of its tenant, which is its API key and
 * its X-Tenant-Id header, if any. Requests with neither share with each other.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_TENANT_SALT_H
#define SHOAL_FRONTEND_SERVE_ROUTES_TENANT_SALT_H

#include "frontend/api/generation/cache_salt.h"
#include "frontend/base/client_key.h"
#include "proto/keyed_hash.h"

/* The key of the salts, and of hashes of images (image_processor.h): from the directory of --state-dir, where it is created if it is not there or
 * damaged; random if `directory` is -1. */
struct keyed_hash_key tenant_salt_key(int directory);
/* `tenant`: the header's value; NULL: none. All zero for a request with neither. */
struct cache_salt tenant_salt_make(const struct keyed_hash_key *key,
                                   const struct client_key *client, const char *tenant);

#endif
