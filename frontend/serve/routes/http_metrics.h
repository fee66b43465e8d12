/*
 * The part of GET /metrics about clients: connections, refusals, cuts.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_HTTP_METRICS_H
#define SHOAL_FRONTEND_SERVE_ROUTES_HTTP_METRICS_H

#include "frontend/http/http_server.h"
#include "frontend/serve/metrics/metric_text.h"
#include "frontend/serve/routes/generation_counters.h"

struct http_figures {
    uint32_t connections; /* open now */
    uint64_t unsent_bytes;
    const struct http_counters *http;
    const struct generation_counters *chat;
};

void http_metrics_write(const struct http_figures *figures, struct metric_text *text);

#endif
