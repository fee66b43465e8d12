/*
 * From options to the HTTP server's configuration.
 *
 * A missing or empty key file ends the start: a server that should have keys must not run without.
 * On SIGHUP each file is read on its own; if it cannot be used, the old keys or the old certificate
 * stay in force. Connections and requests in progress are not affected.
 */
#include "frontend/serve/routes/http_settings.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "frontend/http/api_keys.h"
#include "frontend/http/tls_context.h"
#include "proto/limits.h"
#include "proto/must.h"

#define HANDSHAKE_TIMEOUT_MS                                                                       \
    10000                     /* of TLS; two round trips of a very slow line take two seconds */
#define OTHER_DESCRIPTORS 64u /* for other uses: listening, loop, workers, files */

struct http_settings {
    const struct options *options;
    struct api_keys *keys;
    struct tls_context *tls;
    uint32_t max_connections;
};

uint64_t http_settings_raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1024;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        log_warn("the limit of open files could not be raised");
        return before;
    }
    return limit.rlim_cur;
}

static void connections_choose(struct http_settings *settings)
{
    uint64_t wanted = settings->options->max_connections;
    uint64_t files = http_settings_raise_descriptor_limit();
    uint64_t most = files > 2 * OTHER_DESCRIPTORS ? files - OTHER_DESCRIPTORS : OTHER_DESCRIPTORS;
    if (wanted > most)
        log_warn("the limit of %llu open files leaves room for %llu connections",
                 (unsigned long long)files, (unsigned long long)most);
    settings->max_connections = (uint32_t)(wanted < most ? wanted : most);
}

enum result http_settings_create(const struct options *options, struct http_settings **settings,
                                 struct error_text *error)
{
    struct http_settings *made = must_alloc(1, sizeof *made);
    made->options = options;
    enum result result = RESULT_OK;
    for (size_t i = 0; i < options->cors_origins.count && result == RESULT_OK; i++)
        result = cors_policy_check_origin(options->cors_origins.items[i], error);
    if (result == RESULT_OK && (options->api_keys.count > 0 || options->api_key_file))
        result = api_keys_create(options->api_keys.items, options->api_keys.count,
                                 options->api_key_file, &made->keys, error);
    if (result == RESULT_OK && options->tls_cert)
        result = tls_context_create(options->tls_cert, options->tls_key, &made->tls, error);
    if (result != RESULT_OK) {
        http_settings_destroy(made);
        return result;
    }
    if (made->keys)
        log_info("API keys in force: %zu", api_keys_count(made->keys));
    connections_choose(made);
    *settings = made;
    return RESULT_OK;
}

void http_settings_destroy(struct http_settings *settings)
{
    if (!settings)
        return;
    api_keys_destroy(settings->keys);
    tls_context_destroy(settings->tls);
    free(settings);
}

void http_settings_fill(const struct http_settings *settings, struct http_server_config *config)
{
    const struct options *options = settings->options;
    config->listen.host = options->host;
    config->listen.port = (uint16_t)options->port;
    config->max_connections = settings->max_connections;
    config->max_requests_per_client = (uint32_t)options->max_requests_per_client;
    config->max_held_body_bytes = LIMIT_HTTP_HELD_BODIES * options->max_body_bytes;
    config->keys = settings->keys;
    config->tls = settings->tls;
    config->connection = (struct http_connection_config){
        .max_head_bytes = LIMIT_HTTP_HEAD_BYTES,
        .max_body_bytes = options->max_body_bytes,
        .handshake_timeout_ms = HANDSHAKE_TIMEOUT_MS,
        .request_timeout_ms = (int)options->request_timeout_s * 1000,
        .idle_timeout_ms = (int)options->idle_timeout_s * 1000,
        .max_unsent_bytes = LIMIT_HTTP_UNSENT_STREAMS * options->stream_buffer_bytes,
        .write_timeout_ms = (int)options->idle_timeout_s * 1000,
        .cors = {.origins = options->cors_origins.items,
                 .origin_count = options->cors_origins.count}};
}

void http_settings_reload(struct http_settings *settings)
{
    struct error_text error;
    if (settings->keys) {
        if (api_keys_reload(settings->keys, &error) == RESULT_OK)
            log_info("API keys read again, in force: %zu", api_keys_count(settings->keys));
        else
            log_error("the API keys stay as they were: %s", error.text);
    }
    if (settings->tls) {
        if (tls_context_reload(settings->tls, &error) == RESULT_OK)
            log_info("certificate read again, for connections from now on");
        else
            log_error("the certificate stays as it was: %s", error.text);
    }
}
