/*
 * Requests for answers, whatever API they came through: an exchange on one side, a live request on
 * the other.
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
/* After every exchange is over, and before the engine: what runs in the background ends here. */
void generation_route_destroy(struct generation_route *route);
/* `format` is static; `format_context` outlives the route. */
void generation_route_handle(struct generation_route *route, struct http_exchange *exchange,
                             const struct api_format *format, void *format_context);
/* Ends the request whose answer has this id and whose client showed this key. RESULT_NOT_FOUND:
 * none that runs. */
enum result generation_route_cancel(struct generation_route *route,
                                    const struct client_key *client_key,
                                    const char *id) RESULT_CHECKED;
const struct generation_counters *generation_route_counters(const struct generation_route *route);

#endif
