/*
 * Requests for answers, of any API: an exchange and a live request for each answer.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_GENERATION_ROUTE_H
#define SHOAL_FRONTEND_SERVE_ROUTES_GENERATION_ROUTE_H

#include "frontend/http/http_exchange.h"
#include "frontend/http/key_usage.h"
#include "frontend/serve/models/model_set.h"
#include "frontend/serve/routes/generation_counters.h"
#include "frontend/serve/routes/response_watches.h"

struct generation_resumption; /* generation_call.h */
struct generation_route;

struct generation_route_config {
    struct event_base *base;
    struct model_set *models;
    const struct options *options;
    struct keyed_hash_key salt_key; /* of tenants (tenant_salt.h) */
    struct key_usage *usage;        /* of API keys; NULL: not limited */
    struct response_watches *watches;
};

struct generation_route *generation_route_create(const struct generation_route_config *config);
/* Call after every exchange is over, and before the engine is destroyed; ends background requests.
 */
void generation_route_destroy(struct generation_route *route);
/* `format` is static; `format_context` outlives the route. */
void generation_route_handle(struct generation_route *route, struct http_exchange *exchange,
                             const struct api_format *format, void *format_context);
/* Ends the request whose answer has this id and whose client has this key. RESULT_NOT_FOUND: no
 * such request is running. */
enum result generation_route_cancel(struct generation_route *route,
                                    const struct client_key *client_key,
                                    const char *id) RESULT_CHECKED;
/* Makes an answer that an earlier process began. On failure it was not started. */
enum result generation_route_resume(struct generation_route *route,
                                    const struct generation_resumption *resumption,
                                    struct api_error *error) RESULT_CHECKED;
/* Drops such an answer that has not begun yet. */
void generation_route_drop_resumed(struct generation_route *route, const char *id);
const struct generation_counters *generation_route_counters(const struct generation_route *route);

#endif
