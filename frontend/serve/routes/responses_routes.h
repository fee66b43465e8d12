/*
 * Routes of stored responses: GET, DELETE, cancel, input_items. Answered at once, on the loop, from
 * the store (frontend/api/responses/response_store.h). A response of another key's client is not
 * found.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_RESPONSES_ROUTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_RESPONSES_ROUTES_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

/* GET …/responses/{id} and …/responses/{id}/input_items */
void responses_routes_get(const struct route_context *context, struct http_exchange *exchange);
/* DELETE …/responses/{id}: an answer in progress is cancelled first. */
void responses_routes_delete(const struct route_context *context, struct http_exchange *exchange);
/* POST …/responses/{id}/cancel. A finished response is returned unchanged. */
void responses_routes_post(const struct route_context *context, struct http_exchange *exchange);

#endif
