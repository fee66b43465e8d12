/*
 * Requests for answers, of any API: an exchange and a live request for each answer.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_GENERATION_ROUTE_H
#define SHOAL_FRONTEND_SERVE_ROUTES_GENERATION_ROUTE_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/routes/generation_counters.h"

struct generation_route;

struct generation_route *generation_route_create(struct event_base *base,
                                                 struct chat_engine *engine,
                                                 const struct options *options);
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
const struct generation_counters *generation_route_counters(const struct generation_route *route);

#endif
