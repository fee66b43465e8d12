/*
 * Identity of a client: the digest of its API key. A client cannot see what another one stored.
 */
#ifndef SHOAL_FRONTEND_BASE_CLIENT_KEY_H
#define SHOAL_FRONTEND_BASE_CLIENT_KEY_H

#include <stdint.h>

#define CLIENT_KEY_BYTES 32u /* SHA-256 */

/* All zero on a server without API keys: all clients are then the same one. */
struct client_key {
    uint8_t bytes[CLIENT_KEY_BYTES];
};

#endif
