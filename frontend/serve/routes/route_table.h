/*
 * The server's routes. A new route is a row in route_replies.h or route_table.c.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_ROUTE_TABLE_H
#define SHOAL_FRONTEND_SERVE_ROUTES_ROUTE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/http/http_server.h"
#include "frontend/serve/routes/route_context.h"

/* The routes as the HTTP server takes them; their context (http_server_config.route_context) is a
 * struct route_context. `protect_metrics`: /metrics needs a key too. The caller frees. */
struct http_route *route_table_create(bool protect_metrics, size_t *count);

#endif
