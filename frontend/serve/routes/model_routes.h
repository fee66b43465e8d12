/*
 * The served model and its names, for clients of both APIs.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_MODEL_ROUTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_MODEL_ROUTES_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

/* GET /v1/models, /v1/models/{id}. With --models-dir every entry has llama.cpp's `status`, and one
 * that is not loaded only what its files tell. */
void model_routes_get(const struct route_context *context, struct http_exchange *exchange);
/* POST /models/load, /models/unload with {"model": NAME}, as llama.cpp's router: begins it and
 * replies {"success": true}. */
void model_routes_load(const struct route_context *context, struct http_exchange *exchange);
void model_routes_unload(const struct route_context *context, struct http_exchange *exchange);

#endif
