/*
 * Streams of stored responses: GET /v1/responses/{id}?stream=true. They follow the answer and do
 * not affect it.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_RESPONSE_WATCHES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_RESPONSE_WATCHES_H

#include "frontend/api/responses/response_store.h"
#include "frontend/http/http_exchange.h"
#include "frontend/serve/settings/options.h"

struct event_base;
struct response_watches;

struct response_watches *response_watches_create(struct event_base *base,
                                                 const struct options *options);
/* Call after every exchange is over. */
void response_watches_destroy(struct response_watches *watches);

/* Takes over the exchange: streams the events of `record` from `first_sequence` on. */
void response_watches_open(struct response_watches *watches, struct http_exchange *exchange,
                           struct response_record *record, uint64_t first_sequence);
/* The answer with this id went on, or ended. */
void response_watches_advance(struct response_watches *watches, const char *id);

#endif
