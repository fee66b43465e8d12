/*
 * The prefix cache from outside: what it holds and has saved, and forgetting it.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_CACHE_ROUTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_CACHE_ROUTES_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/engine/chat_engine.h"

void cache_routes_stats(struct chat_engine *engine, struct http_exchange *exchange);
void cache_routes_reset(struct chat_engine *engine, struct http_exchange *exchange);

#endif
