/*
 * The served model and its names, for clients of both APIs.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_MODEL_ROUTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_MODEL_ROUTES_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

/* GET /v1/models, /v1/models/{id}. */
void model_routes_get(const struct route_context *context, struct http_exchange *exchange);

#endif
