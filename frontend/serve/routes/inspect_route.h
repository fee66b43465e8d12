/*
 * Requests that a preparation thread answers completely (frontend/api/generation/inspection.h),
 * without a live request and without a worker.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_INSPECT_ROUTE_H
#define SHOAL_FRONTEND_SERVE_ROUTES_INSPECT_ROUTE_H

#include "frontend/api/generation/inspection.h"
#include "frontend/http/http_exchange.h"
#include "frontend/serve/models/model_set.h"

struct inspect_route;

struct inspect_route *inspect_route_create(struct model_set *models);
/* Call after every exchange is over. */
void inspect_route_destroy(struct inspect_route *route);
/* `inspect` is static; `format_context` outlives the route. */
void inspect_route_handle(struct inspect_route *route, struct http_exchange *exchange,
                          inspection *inspect, void *format_context);

#endif
