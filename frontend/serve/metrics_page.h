/*
 * GET /metrics: what Prometheus and gateways read. Put together from counters and gauges that are
 * there already; no worker is asked.
 */
#ifndef SHOAL_FRONTEND_SERVE_METRICS_PAGE_H
#define SHOAL_FRONTEND_SERVE_METRICS_PAGE_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/chat_engine.h"

/* `connections`: clients connected now. */
void metrics_page_reply(struct chat_engine *engine, uint32_t connections,
                        struct http_exchange *exchange);

#endif
