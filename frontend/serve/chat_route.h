/*
 * POST /v1/chat/completions: an exchange on one side, a live request on the other.
 */
#ifndef SHOAL_FRONTEND_SERVE_CHAT_ROUTE_H
#define SHOAL_FRONTEND_SERVE_CHAT_ROUTE_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/chat_engine.h"

struct chat_route;

struct chat_route_counters {
    uint64_t slow_readers_cut;
    uint64_t deadlines_exceeded;
};

struct chat_route *chat_route_create(struct event_base *base, struct chat_engine *engine,
                                     const struct options *options);
/* After every exchange is over. */
void chat_route_destroy(struct chat_route *route);
void chat_route_handle(struct chat_route *route, struct http_exchange *exchange);
const struct chat_route_counters *chat_route_counters(const struct chat_route *route);

#endif
