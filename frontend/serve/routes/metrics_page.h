/*
 * GET /metrics: what Prometheus and gateways read. Put together from counters and gauges that are
 * there already; no worker is asked.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_METRICS_PAGE_H
#define SHOAL_FRONTEND_SERVE_ROUTES_METRICS_PAGE_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/routes/edge_metrics.h"

void metrics_page_reply(struct chat_engine *engine, const struct edge_figures *edge,
                        struct http_exchange *exchange);

#endif
