/*
 * GET /metrics: what Prometheus and gateways read. Put together from counters and gauges that are
 * there already; no worker is asked.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_METRICS_PAGE_H
#define SHOAL_FRONTEND_SERVE_ROUTES_METRICS_PAGE_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

void metrics_page_reply(const struct route_context *context, struct http_exchange *exchange);

#endif
