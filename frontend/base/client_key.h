/*
 * Who asks, as far as the server can tell: the digest of the API key that a request showed. What
 * one client stored, another does not see.
 */
#ifndef SHOAL_FRONTEND_BASE_CLIENT_KEY_H
#define SHOAL_FRONTEND_BASE_CLIENT_KEY_H

#include <stdint.h>

#define CLIENT_KEY_BYTES 32u /* SHA-256 */

/* All zero where the server asks for no key: then everybody is one client. */
struct client_key {
    uint8_t bytes[CLIENT_KEY_BYTES];
};

#endif
