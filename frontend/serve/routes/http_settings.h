/*
 * What stands between the network and the server's work, as the options say: keys, TLS, origins,
 * limits. Made once, read again on SIGHUP.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_HTTP_SETTINGS_H
#define SHOAL_FRONTEND_SERVE_ROUTES_HTTP_SETTINGS_H

#include "frontend/http/http_server.h"
#include "frontend/serve/settings/options.h"

struct http_settings;

/* `options` outlives it. RESULT_INVALID with words when a file or an origin is no good. */
enum result http_settings_create(const struct options *options, struct http_settings **settings,
                                 struct error_text *error) RESULT_CHECKED;
/* After the server that uses it. */
void http_settings_destroy(struct http_settings *settings);

/* Writes all of `config` but its listening descriptors and routes. */
void http_settings_fill(const struct http_settings *settings, struct http_server_config *config);
/* Reads keys and certificate again and logs how that went. What cannot be read stays as it was. */
void http_settings_reload(struct http_settings *settings);

/* Raises the limit of open descriptors as far as this process may. Returns the limit. */
uint64_t http_settings_raise_descriptor_limit(void);

#endif
