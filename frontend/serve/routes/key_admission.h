/*
 * Limits of an API key, applied to a request for an answer.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_KEY_ADMISSION_H
#define SHOAL_FRONTEND_SERVE_ROUTES_KEY_ADMISSION_H

#include "frontend/http/http_exchange.h"

struct key_usage;

/* True if the key of the request has not used up a limit; otherwise replies. Either reply reports the limits. *counted: the
 * request is in the key's usage, and key_usage_end() is due at its end. `usage` may be NULL: no key has limits. */
bool key_admission_begin(struct key_usage *usage, struct http_exchange *exchange, bool *counted);

#endif
