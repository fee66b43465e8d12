/*
 * GET /v1/cache/stats and POST /v1/cache/reset: contents and hits of the prefix and image caches.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_CACHE_ROUTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_CACHE_ROUTES_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

void cache_routes_stats(const struct route_context *context, struct http_exchange *exchange);
void cache_routes_reset(const struct route_context *context, struct http_exchange *exchange);

#endif
