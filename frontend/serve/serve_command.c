/*
 * Puts the server together, runs the loop, takes it apart.
 *
 * It listens before the model is open, so that clients get a 503 with progress instead of a refused
 * connection. The first SIGTERM or SIGINT drains: no request is admitted any more, the running ones
 * get drain-timeout, then an error; the worker is asked to end; replies on their way are still
 * written. A second signal ends the process at once, and the kernel kills the worker with it.
 * SIGHUP reads keys and certificate again and disturbs nothing.
 */
#include "frontend/serve/serve_command.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/api/chat/completions_format.h"
#include "frontend/api/chat/token_questions.h"
#include "frontend/api/messages/messages_count.h"
#include "frontend/api/messages/messages_error.h"
#include "frontend/api/messages/messages_format.h"
#include "frontend/api/openapi_document.h"
#include "frontend/api/responses/responses_format.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_reply.h"
#include "frontend/serve/loop_slice.h"
#include "frontend/serve/routes/cache_routes.h"
#include "frontend/serve/routes/generation_route.h"
#include "frontend/serve/routes/inspect_route.h"
#include "frontend/serve/routes/metrics_page.h"
#include "frontend/serve/routes/responses_routes.h"
#include "frontend/serve/routes/server_edges.h"
#include "frontend/serve/routes/status_routes.h"
#include "frontend/serve/service_manager.h"
#include "proto/must.h"

#define LAST_WRITES_MS      1000 /* for replies still unsent when all else is done */
#define LAST_WRITES_LOOK_MS 10
#define CALLBACKS_A_LOOK    64

#define SIGNAL_COUNT 3u
#define ROUTE_COUNT  35u

struct serve_command {
    const struct options *options;
    struct event_base *base;
    struct event *signals[SIGNAL_COUNT];
    struct service_manager *manager;
    struct server_edges *edges;
    struct event *drain_timer;
    struct event *exit_timer;
    struct http_server *server;
    struct chat_engine *engine;
    struct generation_route *generation;
    struct inspect_route *inspections;
    struct response_store *responses;
    struct http_route routes[ROUTE_COUNT]; /* the table, with what the options change */
    int64_t exit_at_ms;
    bool draining;
    int status;
};

/* --- routes ---------------------------------------------------------------------------------- */

static void handle_chat(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    generation_route_handle(command->generation, exchange, &chat_format, NULL);
}

static void handle_messages(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    generation_route_handle(command->generation, exchange, &messages_format, NULL);
}

static void handle_count_tokens(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    inspect_route_handle(command->inspections, exchange, messages_count_tokens, NULL);
}

static void handle_responses(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    generation_route_handle(command->generation, exchange, &responses_format, command->responses);
}

static void handle_response_count(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    inspect_route_handle(command->inspections, exchange, responses_count_tokens,
                         command->responses);
}

static void handle_response_get(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    responses_routes_get(command->responses, exchange);
}

static void handle_response_delete(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    responses_routes_delete(command->responses, command->generation, exchange);
}

static void handle_response_post(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    responses_routes_post(command->responses, command->generation, exchange);
}

static void handle_completions(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    generation_route_handle(command->generation, exchange, &completions_format, NULL);
}

static void handle_tokenize(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    inspect_route_handle(command->inspections, exchange, token_questions_tokenize, NULL);
}

static void handle_detokenize(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    inspect_route_handle(command->inspections, exchange, token_questions_detokenize, NULL);
}

static void handle_apply_template(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    inspect_route_handle(command->inspections, exchange, token_questions_apply_template, NULL);
}

static void handle_openapi(void *context, struct http_exchange *exchange)
{
    (void)context;
    size_t bytes;
    const char *document = openapi_document(&bytes);
    http_reply_whole(exchange, 200, "application/json", document, bytes);
}

static void handle_models(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    status_routes_models(command->engine, exchange);
}

static void handle_health(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    status_routes_health(command->engine, exchange);
}

static void handle_status(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    status_routes_status(command->engine, exchange);
}

static void handle_cache_stats(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    cache_routes_stats(command->engine, exchange);
}

static void handle_cache_reset(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    cache_routes_reset(command->engine, exchange);
}

static void handle_ready(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    status_routes_ready(command->engine, exchange);
}

static void handle_metrics(void *context, struct http_exchange *exchange)
{
    struct serve_command *command = context;
    const struct edge_figures edge = {.connections = http_server_connections(command->server),
                                      .unsent_bytes = http_server_unsent_bytes(command->server),
                                      .http = http_server_counters(command->server),
                                      .chat = generation_route_counters(command->generation)};
    metrics_page_reply(command->engine, &edge, exchange);
}

/* Open ones need no key: whoever asks whether the server lives has none. */
static const struct http_route routes[ROUTE_COUNT] = {
    {"/v1/chat/completions", false, HTTP_POST, false, NULL, handle_chat},
    {"/chat/completions", false, HTTP_POST, false, NULL, handle_chat},
    {"/v1/completions", false, HTTP_POST, false, NULL, handle_completions},
    {"/completions", false, HTTP_POST, false, NULL, handle_completions},
    {"/v1/tokenize", false, HTTP_POST, false, NULL, handle_tokenize},
    {"/tokenize", false, HTTP_POST, false, NULL, handle_tokenize},
    {"/v1/detokenize", false, HTTP_POST, false, NULL, handle_detokenize},
    {"/detokenize", false, HTTP_POST, false, NULL, handle_detokenize},
    {"/v1/apply-template", false, HTTP_POST, false, NULL, handle_apply_template},
    {"/apply-template", false, HTTP_POST, false, NULL, handle_apply_template},
    {"/openapi.json", false, HTTP_GET, true, NULL, handle_openapi},
    {"/v1/messages", false, HTTP_POST, false, messages_error_write, handle_messages},
    {"/messages", false, HTTP_POST, false, messages_error_write, handle_messages},
    {"/v1/messages/count_tokens", false, HTTP_POST, false, messages_error_write,
     handle_count_tokens},
    {"/messages/count_tokens", false, HTTP_POST, false, messages_error_write, handle_count_tokens},
    {"/v1/responses", false, HTTP_POST, false, NULL, handle_responses},
    {"/responses", false, HTTP_POST, false, NULL, handle_responses},
    {"/v1/responses/input_tokens", false, HTTP_POST, false, NULL, handle_response_count},
    {"/responses/input_tokens", false, HTTP_POST, false, NULL, handle_response_count},
    {"/v1/responses/", true, HTTP_GET, false, NULL, handle_response_get},
    {"/responses/", true, HTTP_GET, false, NULL, handle_response_get},
    {"/v1/responses/", true, HTTP_DELETE, false, NULL, handle_response_delete},
    {"/responses/", true, HTTP_DELETE, false, NULL, handle_response_delete},
    {"/v1/responses/", true, HTTP_POST, false, NULL, handle_response_post},
    {"/responses/", true, HTTP_POST, false, NULL, handle_response_post},
    {"/v1/models", true, HTTP_GET, false, NULL, handle_models},
    {"/models", true, HTTP_GET, false, NULL, handle_models},
    {"/health", false, HTTP_GET, true, NULL, handle_health},
    {"/v1/health", false, HTTP_GET, true, NULL, handle_health},
    {"/ready", false, HTTP_GET, true, NULL, handle_ready},
    {"/v1/ready", false, HTTP_GET, true, NULL, handle_ready},
    {"/v1/status", false, HTTP_GET, false, NULL, handle_status},
    {"/v1/cache/stats", false, HTTP_GET, false, NULL, handle_cache_stats},
    {"/v1/cache/reset", false, HTTP_POST, false, NULL, handle_cache_reset},
    {"/metrics", false, HTTP_GET, true, NULL, handle_metrics},
};

/* --- ends ------------------------------------------------------------------------------------ */

static void after_ms(struct event *timer, int64_t timeout_ms)
{
    struct timeval after = {.tv_sec = timeout_ms / 1000,
                            .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    event_add(timer, &after);
}

static void on_failed(void *context, const char *why)
{
    struct serve_command *command = context;
    log_error("the model cannot be served: %s", why);
    command->status = 1;
    event_base_loopbreak(command->base);
}

static void on_ready(void *context)
{
    struct serve_command *command = context;
    service_manager_ready(command->manager);
}

static void on_write_status(void *context, char text[SERVICE_STATUS_BYTES])
{
    struct serve_command *command = context;
    struct chat_engine_status status;
    if (!command->engine)
        return;
    chat_engine_read_status(command->engine, &status);
    if (status.load_progress < 1)
        snprintf(text, SERVICE_STATUS_BYTES, "%s, model loaded to %.0f %%", status.state,
                 100 * status.load_progress);
    else
        snprintf(text, SERVICE_STATUS_BYTES, "%s, %u requests, %u worker restarts", status.state,
                 status.live, status.worker_restarts);
}

/* Everything has ended; lets the last replies reach their readers. */
static void on_exit_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct serve_command *command = context;
    if (http_server_busy_connections(command->server) == 0 ||
        monotonic_clock_ms() >= command->exit_at_ms)
        event_base_loopbreak(command->base);
    else
        after_ms(command->exit_timer, LAST_WRITES_LOOK_MS);
}

static void on_drained(void *context)
{
    struct serve_command *command = context;
    command->exit_at_ms = monotonic_clock_ms() + LAST_WRITES_MS;
    after_ms(command->exit_timer, 0);
}

static void on_drain_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct serve_command *command = context;
    struct api_error error;
    (void)api_error_set(&error, RESULT_TIMED_OUT, 503, "shutting_down",
                        "the server is shutting down and could not finish the request in time");
    log_warn("drain timeout: ending the requests that are left");
    chat_engine_fail_all(command->engine, &error);
}

static void on_signal(int signal_number, short what, void *context)
{
    (void)what;
    struct serve_command *command = context;
    if (signal_number == SIGHUP) {
        service_manager_reloading(command->manager);
        server_edges_reload(command->edges);
        service_manager_reloaded(command->manager);
        return;
    }
    if (command->draining)
        _exit(128 + signal_number);
    command->draining = true;
    log_info("signal %d: draining; a second one ends at once", signal_number);
    service_manager_stopping(command->manager);
    after_ms(command->drain_timer, (int64_t)command->options->drain_timeout_s * 1000);
    chat_engine_drain(command->engine);
}

/* --- start ----------------------------------------------------------------------------------- */

static void announce(const struct serve_command *command, bool passed)
{
    const struct options *options = command->options;
    const char *scheme = options->tls_cert ? "https" : "http";
    bool ipv6 = strchr(options->host, ':') != NULL;
    if (passed)
        printf("listening on passed sockets, %s\n", scheme);
    else
        printf("listening on %s://%s%s%s:%u\n", scheme, ipv6 ? "[" : "", options->host,
               ipv6 ? "]" : "", http_server_port(command->server));
    fflush(stdout);
}

static enum result server_start(struct serve_command *command, struct error_text *error)
{
    int passed[LIMIT_LISTEN_SOCKETS + 1];
    memcpy(command->routes, routes, sizeof routes);
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if (command->routes[i].handle == handle_metrics && command->options->protect_metrics)
            command->routes[i].open = false;
    }
    struct http_server_config config = {
        .routes = command->routes, .route_count = ROUTE_COUNT, .route_context = command};
    server_edges_fill(command->edges, &config);
    config.listen.fds = passed;
    config.listen.fd_count = service_manager_take_sockets(command->manager, passed);
    enum result result = http_server_create(command->base, &config, &command->server, error);
    if (result == RESULT_OK)
        announce(command, config.listen.fd_count > 0);
    return result;
}

static enum result command_start(struct serve_command *command, struct error_text *error)
{
    struct chat_engine_config config = {.base = command->base,
                                        .options = command->options,
                                        .context = command,
                                        .ready = on_ready,
                                        .failed = on_failed,
                                        .drained = on_drained};
    enum result result = server_edges_create(command->options, &command->edges, error);
    if (result == RESULT_OK)
        result = server_start(command, error);
    if (result == RESULT_OK)
        result = chat_engine_create(&config, &command->engine, error);
    if (result != RESULT_OK)
        return result;
    command->responses =
        response_store_create(command->options->response_store_bytes, LIMIT_STORED_RESPONSES);
    command->generation = generation_route_create(command->base, command->engine, command->options);
    command->inspections = inspect_route_create(command->engine);
    static const int numbers[SIGNAL_COUNT] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        command->signals[i] = evsignal_new(command->base, numbers[i], on_signal, command);
        must(command->signals[i] && event_add(command->signals[i], NULL) == 0);
    }
    command->drain_timer = event_new(command->base, -1, 0, on_drain_timer, command);
    command->exit_timer = event_new(command->base, -1, 0, on_exit_timer, command);
    must(command->drain_timer && command->exit_timer);
    return RESULT_OK;
}

static void event_release(struct event *event)
{
    if (event)
        event_free(event);
}

/* Callbacks may activate others, and libevent asks the kernel for news only when none is left: a
 * client that pipelines requests without end could keep everybody else waiting. So it asks after
 * some of them. */
static struct event_base *base_create(void)
{
    struct event_config *config = event_config_new();
    must(config && event_config_set_max_dispatch_interval(config, NULL, CALLBACKS_A_LOOK, 0) == 0);
    struct event_base *base = event_base_new_with_config(config);
    must(base != NULL);
    event_config_free(config);
    return base;
}

int serve_command_run(const struct options *options)
{
    struct serve_command command = {.options = options};
    struct error_text error;
    signal(SIGPIPE, SIG_IGN);
    loop_slice_shorten();
    command.base = base_create();
    command.manager = service_manager_create(&(struct service_manager_config){
        .base = command.base, .context = &command, .write_status = on_write_status});
    if (command_start(&command, &error) == RESULT_OK) {
        event_base_dispatch(command.base);
    } else {
        log_error("%s", error.text);
        command.status = 1;
    }
    http_server_destroy(command.server); /* whoever is left is told by the end of the connection */
    generation_route_destroy(command.generation);
    inspect_route_destroy(command.inspections);
    chat_engine_destroy(command.engine);
    response_store_destroy(command.responses); /* whoever held a response is gone */
    server_edges_destroy(command.edges);
    service_manager_destroy(command.manager);
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        event_release(command.signals[i]);
    event_release(command.drain_timer);
    event_release(command.exit_timer);
    event_base_free(command.base);
    return command.status;
}
