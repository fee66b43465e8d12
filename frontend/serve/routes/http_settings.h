/*
 * The HTTP server's settings from the options: keys, TLS, origins, limits. Keys and certificate are
 * read again on SIGHUP.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_HTTP_SETTINGS_H
#define SHOAL_FRONTEND_SERVE_ROUTES_HTTP_SETTINGS_H

#include "frontend/http/http_server.h"
#include "frontend/serve/settings/options.h"

struct http_settings;
struct api_keys;
struct key_usage;

/* `options` must outlive it. RESULT_INVALID with a message if a file or an origin is not valid. */
enum result http_settings_create(const struct options *options, struct http_settings **settings,
                                 struct error_text *error) RESULT_CHECKED;
/* Call after the server that uses it is destroyed. */
void http_settings_destroy(struct http_settings *settings);

/* Fills `config`, except listening descriptors and routes. */
void http_settings_fill(const struct http_settings *settings, struct http_server_config *config);
/* Use of each key against its limits; NULL without keys. */
struct key_usage *http_settings_usage(const struct http_settings *settings);
/* The keys; NULL: none are needed. */
const struct api_keys *http_settings_keys(const struct http_settings *settings);
/* Reads keys and certificate again and logs the result. What cannot be read stays as it was. */
void http_settings_reload(struct http_settings *settings);

#endif
