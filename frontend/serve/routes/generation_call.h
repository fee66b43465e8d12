/*
 * One request for answers in progress: its exchange, and a live request for each answer. Private to
 * generation_route.c, which has the list of all.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_GENERATION_CALL_H
#define SHOAL_FRONTEND_SERVE_ROUTES_GENERATION_CALL_H

#include "frontend/http/http_exchange.h"
#include "frontend/http/key_usage.h"
#include "frontend/serve/models/model_set.h"
#include "frontend/serve/routes/generation_counters.h"
#include "frontend/serve/routes/response_watches.h"
#include "frontend/serve/routes/tenant_salt.h"

struct generation_call;

/* State shared by all calls. */
struct generation_calls {
    struct model_set *models;
    const struct options *options;
    struct key_usage *usage;          /* of API keys; NULL: not limited */
    struct response_watches *watches; /* told when an answer goes on */
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
/* An answer that an earlier process began; it has no exchange. */
struct generation_resumption {
    struct model *model;
    const struct api_format *format;
    void *format_context;
    const char *id;
    struct client_key client_key;
    struct cache_salt cache_salt;
    uint64_t random_seed;
    int64_t now_unix_s; /* when the request was made */
    char *body;         /* malloc'd; taken over */
    size_t body_bytes;
    void *context;
    /* Called once, when the call is over, unless it was not started. `error`: the answer did not
     * begin. */
    void (*over)(void *context, const char *id, const struct api_error *error);
};

/* On failure it was not started. */
enum result generation_call_resume(struct generation_calls *calls,
                                   const struct generation_resumption *resumption,
                                   struct api_error *error) RESULT_CHECKED;
/* The call that resumes the answer with this id, also before the answer begins; or NULL. */
struct generation_call *generation_call_find_resumed(const struct generation_calls *calls,
                                                     const char *id);
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
