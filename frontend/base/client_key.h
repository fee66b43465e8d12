/*
 * Identity and rights of a client. The identity is the digest of its API key. A client cannot see what another one stored.
 */
#ifndef SHOAL_FRONTEND_BASE_CLIENT_KEY_H
#define SHOAL_FRONTEND_BASE_CLIENT_KEY_H

#include <stdbool.h>
#include <stdint.h>

#define CLIENT_KEY_BYTES 32u /* SHA-256 */

/* All zero on a server without API keys: all clients are then the same one. */
struct client_key {
    uint8_t bytes[CLIENT_KEY_BYTES];
};

/* What one API key may use; 0: no limit. */
struct key_limits {
    uint64_t requests;   /* for answers, a minute */
    uint64_t tokens;     /* of prompts and answers, a minute */
    uint64_t images;     /* a minute */
    uint64_t concurrent; /* requests for answers in progress */
};

struct client_rights {
    bool admin; /* also routes that affect or show other clients */
    struct key_limits limits;
};

#endif
