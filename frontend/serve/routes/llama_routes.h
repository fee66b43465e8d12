/*
 * llama.cpp's views of the server: its properties and its slots.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_LLAMA_ROUTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_LLAMA_ROUTES_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

/* GET /props */
void llama_routes_props(const struct route_context *context, struct http_exchange *exchange);
/* GET /slots; with ?fail_on_no_slot=1 a 503 if every slot is in use. Requests of other API keys are
 * in use without details, unless the key is an admin's. */
void llama_routes_slots(const struct route_context *context, struct http_exchange *exchange);

#endif
