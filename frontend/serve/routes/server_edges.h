/*
 * What stands between the network and the server's work, as the options say: keys, TLS, origins,
 * limits. Made once, read again on SIGHUP.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_SERVER_EDGES_H
#define SHOAL_FRONTEND_SERVE_ROUTES_SERVER_EDGES_H

#include "frontend/http/http_server.h"
#include "frontend/serve/settings/options.h"

struct server_edges;

/* `options` outlives it. RESULT_INVALID with words when a file or an origin is no good. */
enum result server_edges_create(const struct options *options, struct server_edges **edges,
                                struct error_text *error) RESULT_CHECKED;
/* After the server that uses it. */
void server_edges_destroy(struct server_edges *edges);

/* Writes all of `config` but its listening descriptors and routes. */
void server_edges_fill(const struct server_edges *edges, struct http_server_config *config);
/* Reads keys and certificate again and logs how that went. What cannot be read stays as it was. */
void server_edges_reload(struct server_edges *edges);

/* Raises the limit of open descriptors as far as this process may. Returns the limit. */
uint64_t server_edges_raise_descriptor_limit(void);

#endif
