/*
 * The hash of a file as the hub states it: SHA-256 of its bytes (large files), or git's SHA-1 of
 * "blob SIZE\0" and its bytes.
 */
#ifndef SHOAL_FRONTEND_HUB_HUB_DIGEST_H
#define SHOAL_FRONTEND_HUB_HUB_DIGEST_H

#include <stddef.h>

#include "frontend/hub/hub_listing.h"

struct hub_digest;

/* Of a file with this size and kind of hash. NULL: the crypto library fails. */
struct hub_digest *hub_digest_create(const struct hub_file *file);
/* Starts again from the first byte. */
bool hub_digest_restart(struct hub_digest *digest);
bool hub_digest_add(struct hub_digest *digest, const void *bytes, size_t count);
/* Writes the hash of the bytes so far, in lower-case hexadecimal. */
bool hub_digest_finish(struct hub_digest *digest, char hash[HUB_HASH_BYTES]);
void hub_digest_destroy(struct hub_digest *digest);

#endif
