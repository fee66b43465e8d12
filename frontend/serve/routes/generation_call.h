/*
 * One request for answers in progress: its exchange, and a live request for each answer. Private to
 * generation_route.c, which has the list of all.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_GENERATION_CALL_H
#define SHOAL_FRONTEND_SERVE_ROUTES_GENERATION_CALL_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/routes/generation_counters.h"
#include "frontend/serve/routes/tenant_salt.h"

struct generation_call;

/* State shared by all calls. */
struct generation_calls {
    struct chat_engine *engine;
    const struct options *options;
    struct event_base *base;
    struct keyed_hash_key salt_key;
    void (*stream_begins)(void *context); /* called when a stream starts */
    void *context;
    struct generation_call *list;
    struct generation_counters counters;
};

/* Takes over the exchange. The call ends and leaves the list when its exchange and all of its
 * answers are over. */
void generation_call_start(struct generation_calls *calls, struct http_exchange *exchange,
                           const struct api_format *format, void *format_context);
/* The running call whose answer has this id, whose format can be cancelled, and whose client has
 * this key; or NULL. */
struct generation_call *generation_call_find(const struct generation_calls *calls,
                                             const struct client_key *client_key, const char *id);
/* Cancelled by another request: its client is told, its work stops. */
void generation_call_stop(struct generation_call *call);
/* Stops a call without an exchange. */
void generation_call_drop(struct generation_call *call);

struct generation_call *generation_call_next(const struct generation_call *call);
/* False if it does not stream (any more). */
bool generation_call_keep_alive(struct generation_call *call, int64_t now_ms);

#endif
