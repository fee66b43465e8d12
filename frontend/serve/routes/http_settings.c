/*
 * From options to the HTTP server's configuration.
 *
 * A missing or empty key file ends the start: a server that should have keys must not run without.
 * On SIGHUP each file is read on its own; if it cannot be used, the old keys or the old certificate
 * stay in force. Connections and requests in progress are not affected.
 */
#include "frontend/serve/routes/http_settings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "frontend/http/api_keys.h"
#include "frontend/http/key_limits.h"
#include "frontend/http/key_usage.h"
#include "frontend/http/tls_context.h"
#include "frontend/serve/settings/option_parser.h"
#include "proto/limits.h"
#include "proto/must.h"

/* of TLS; two round trips of a very slow line take two seconds */
#define HANDSHAKE_TIMEOUT_MS 10000
#define OTHER_DESCRIPTORS    48u /* listening, event loop, fetched images, checkpoint, log */
/* of one worker: segment, doorbells, pidfd, vault, and its successor's */
#define WORKER_DESCRIPTORS 16u
#define MIN_CONNECTIONS    8u

struct http_settings {
    const struct options *options;
    struct api_keys *keys;
    struct key_usage *usage; /* NULL without keys */
    struct tls_context *tls;
    uint32_t max_connections;
};

/* Raises the limit of open descriptors to the process's maximum. Returns the limit. */
static uint64_t raise_descriptor_limit(void)
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

/* Connections get what is left of the open files, so that a flood of them cannot keep a worker from being started again. */
static enum result connections_choose(struct http_settings *settings, struct error_text *error)
{
    uint64_t wanted = settings->options->max_connections;
    uint64_t files = raise_descriptor_limit();
    uint64_t reserved = OTHER_DESCRIPTORS + WORKER_DESCRIPTORS * settings->options->workers;
    if (files < reserved + MIN_CONNECTIONS)
        return error_set(
            error, RESULT_INVALID,
            "the limit of open files is %llu; this server needs at least %llu (ulimit -n)",
            (unsigned long long)files, (unsigned long long)(reserved + MIN_CONNECTIONS));
    if (wanted > files - reserved)
        log_warn("the limit of %llu open files leaves room for %llu connections",
                 (unsigned long long)files, (unsigned long long)(files - reserved));
    settings->max_connections = (uint32_t)(wanted < files - reserved ? wanted : files - reserved);
    return RESULT_OK;
}

static enum result keys_read(struct http_settings *settings, struct error_text *error)
{
    const struct options *options = settings->options;
    struct api_keys_config config = {.given = options->api_keys.items,
                                     .given_count = options->api_keys.count,
                                     .path = options->api_key_file,
                                     .readable_file = options->readable_key_file};
    if (options->key_limits &&
        !key_limits_parse(options->key_limits, strlen(options->key_limits), &config.defaults))
        return error_set(
            error, RESULT_INVALID,
            "--key-limits '%.80s' is not a list of requests=N, tokens=N, images=N, concurrent=N",
            options->key_limits);
    settings->usage = key_usage_create(LIMIT_API_KEYS);
    enum result result = api_keys_create(&config, &settings->keys, error);
    options_hide_secrets(options);
    return result;
}

enum result http_settings_create(const struct options *options, struct http_settings **settings,
                                 struct error_text *error)
{
    struct http_settings *made = must_alloc(1, sizeof *made);
    made->options = options;
    enum result result = RESULT_OK;
    for (size_t i = 0; i < options->cors_origins.count && result == RESULT_OK; i++)
        result = cors_policy_check_origin(options->cors_origins.items[i], error);
    for (size_t i = 0; i < options->allowed_hosts.count && result == RESULT_OK; i++)
        result = origin_policy_check_host(options->allowed_hosts.items[i], error);
    if (result == RESULT_OK && (options->api_keys.count > 0 || options->api_key_file))
        result = keys_read(made, error);
    if (result == RESULT_OK && options->tls_cert)
        result = tls_context_create(options->tls_cert, options->tls_key, &made->tls, error);
    if (result == RESULT_OK)
        result = connections_choose(made, error);
    if (result != RESULT_OK) {
        http_settings_destroy(made);
        return result;
    }
    if (made->keys)
        log_info("API keys in force: %zu", api_keys_count(made->keys));
    *settings = made;
    return RESULT_OK;
}

void http_settings_destroy(struct http_settings *settings)
{
    if (!settings)
        return;
    api_keys_destroy(settings->keys);
    key_usage_destroy(settings->usage);
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
    config->origins = (struct origin_policy){.hosts = options->allowed_hosts.items,
                                             .host_count = options->allowed_hosts.count};
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

struct key_usage *http_settings_usage(const struct http_settings *settings)
{
    return settings->usage;
}

const struct api_keys *http_settings_keys(const struct http_settings *settings)
{
    return settings->keys;
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
