/*
 * GET /metrics, for Prometheus and gateways, from the frontend's counters and the workers' gauges.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_METRICS_PAGE_H
#define SHOAL_FRONTEND_SERVE_ROUTES_METRICS_PAGE_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

void metrics_page_reply(const struct route_context *context, struct http_exchange *exchange);

#endif
