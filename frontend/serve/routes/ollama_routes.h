/*
 * Ollama's views of the server: models, loaded models, version.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_OLLAMA_ROUTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_OLLAMA_ROUTES_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

/* GET /api/tags: the served model under each of its names. */
void ollama_routes_tags(const struct route_context *context, struct http_exchange *exchange);
/* GET /api/ps: the model, if a worker is ready. */
void ollama_routes_ps(const struct route_context *context, struct http_exchange *exchange);
/* GET /api/version: the version of Ollama's API that these routes follow. */
void ollama_routes_version(const struct route_context *context, struct http_exchange *exchange);

#endif
