/*
 * Convictions of requests that crashed workers (poison_memory.h): listed in GET /v1/status, revoked
 * by DELETE /v1/quarantine/{id}.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_QUARANTINE_ROUTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_QUARANTINE_ROUTES_H

#include "frontend/base/client_key.h"
#include "frontend/base/text_buffer.h"
#include "frontend/serve/engine/chat_engine.h"

/* Appends a JSON array of the convictions of the client with the key `viewer`; NULL: of all. About
 * 120 bytes each. */
void quarantine_routes_write(struct chat_engine *engine, const struct client_key *viewer,
                             struct text_buffer *out);

#endif
