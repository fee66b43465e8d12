/*
 * From options to the HTTP server's configuration.
 *
 * Whoever asks for keys gets them or no server: a key file that is missing or empty ends the start,
 * because the other way out, a server without keys, would be open to everybody. On SIGHUP each file
 * is taken or refused by itself, and what is refused leaves the old keys or the old certificate in
 * force; connections and requests in hand never notice.
 */
#include "frontend/serve/routes/server_edges.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "frontend/http/api_keys.h"
#include "frontend/http/tls_context.h"
#include "proto/limits.h"
#include "proto/must.h"

#define HANDSHAKE_TIMEOUT_MS                                                                       \
    10000                     /* of TLS; two round trips of a very slow line take two seconds */
#define OTHER_DESCRIPTORS 64u /* of this process: listening, loop, workers, files */

struct server_edges {
    const struct options *options;
    struct api_keys *keys;
    struct tls_context *tls;
    uint32_t max_connections;
};

uint64_t server_edges_raise_descriptor_limit(void)
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

static void connections_choose(struct server_edges *edges)
{
    uint64_t wanted = edges->options->max_connections;
    uint64_t files = server_edges_raise_descriptor_limit();
    uint64_t most = files > 2 * OTHER_DESCRIPTORS ? files - OTHER_DESCRIPTORS : OTHER_DESCRIPTORS;
    if (wanted > most)
        log_warn("the limit of %llu open files leaves room for %llu connections",
                 (unsigned long long)files, (unsigned long long)most);
    edges->max_connections = (uint32_t)(wanted < most ? wanted : most);
}

enum result server_edges_create(const struct options *options, struct server_edges **edges,
                                struct error_text *error)
{
    struct server_edges *made = must_alloc(1, sizeof *made);
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
        server_edges_destroy(made);
        return result;
    }
    if (made->keys)
        log_info("API keys in force: %zu", api_keys_count(made->keys));
    connections_choose(made);
    *edges = made;
    return RESULT_OK;
}

void server_edges_destroy(struct server_edges *edges)
{
    if (!edges)
        return;
    api_keys_destroy(edges->keys);
    tls_context_destroy(edges->tls);
    free(edges);
}

void server_edges_fill(const struct server_edges *edges, struct http_server_config *config)
{
    const struct options *options = edges->options;
    config->listen.host = options->host;
    config->listen.port = (uint16_t)options->port;
    config->max_connections = edges->max_connections;
    config->max_requests_per_client = (uint32_t)options->max_requests_per_client;
    config->max_held_body_bytes = LIMIT_HTTP_HELD_BODIES * options->max_body_bytes;
    config->keys = edges->keys;
    config->tls = edges->tls;
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

void server_edges_reload(struct server_edges *edges)
{
    struct error_text error;
    if (edges->keys) {
        if (api_keys_reload(edges->keys, &error) == RESULT_OK)
            log_info("API keys read again, in force: %zu", api_keys_count(edges->keys));
        else
            log_error("the API keys stay as they were: %s", error.text);
    }
    if (edges->tls) {
        if (tls_context_reload(edges->tls, &error) == RESULT_OK)
            log_info("certificate read again, for connections from now on");
        else
            log_error("the certificate stays as it was: %s", error.text);
    }
}
