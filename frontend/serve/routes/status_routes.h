/*
 * Routes about the server: models, liveness, readiness, API document, status. None waits for a
 * worker.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_STATUS_ROUTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_STATUS_ROUTES_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

/* GET /, /health, /ping: 200 while the loop runs; with --health-needs-ready as /ready. */
void status_routes_health(const struct route_context *context, struct http_exchange *exchange);
/* GET /ready: 200 if a worker is ready to run a request, otherwise 503 with the load progress. */
void status_routes_ready(const struct route_context *context, struct http_exchange *exchange);
/* GET /version. */
void status_routes_version(const struct route_context *context, struct http_exchange *exchange);
/* GET /openapi.json. */
void status_routes_openapi(const struct route_context *context, struct http_exchange *exchange);
/* GET /v1/status: every worker and every request (status_report.h). */
void status_routes_status(const struct route_context *context, struct http_exchange *exchange);

#endif
