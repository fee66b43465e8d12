/*
 * The page for people: chat and dashboard (frontend/page/).
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_PAGE_ROUTES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_PAGE_ROUTES_H

#include "frontend/http/http_exchange.h"
#include "frontend/serve/routes/route_context.h"

/* GET /: the page for a browser (Accept lists text/html), otherwise as /health. */
void page_routes_root(const struct route_context *context, struct http_exchange *exchange);
/* GET /page/{file}. */
void page_routes_file(const struct route_context *context, struct http_exchange *exchange);

#endif
