/*
 * Small JSON bodies that are read on the loop.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_ROUTE_BODY_H
#define SHOAL_FRONTEND_SERVE_ROUTES_ROUTE_BODY_H

#include "frontend/base/api_error.h"
#include "frontend/http/http_exchange.h"

#define ROUTE_BODY_BYTES 65536u

/* The body, to be freed; empty without one. NULL: it is compressed or has more than ROUTE_BODY_BYTES, and *error is the
 * reply. */
char *route_body_take(struct http_exchange *exchange, size_t *bytes, struct api_error *error);

#endif
