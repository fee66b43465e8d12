/*
 * Builds the server, runs the event loop, frees the server.
 *
 * The server listens before the model is open, so that clients get a 503 with progress instead of a
 * refused connection. The first SIGTERM or SIGINT drains: no new request is admitted, running
 * requests get --drain-timeout and then an error, the workers are asked to end, and replies in
 * progress are still written. A second signal ends the process at once, and the kernel kills the
 * workers with it. SIGHUP reads API keys, certificate and models again without affecting requests, at
 * most once in RELOAD_EVERY_MS. SIGUSR2 starts a successor (server_handover.h). SIGUSR1 is logged; a write over RLIMIT_FSIZE fails instead of
 * ending the process.
 */
#include "frontend/serve/serve_command.h"

#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/api/responses/response_journal.h"
#include "frontend/api/responses/response_store.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/http/api_keys.h"
#include "frontend/http/http_server.h"
#include "frontend/serve/chat_command.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/loop_priority.h"
#include "frontend/serve/models/model_reload.h"
#include "frontend/serve/models/model_set.h"
#include "frontend/serve/routes/generation_route.h"
#include "frontend/serve/routes/http_settings.h"
#include "frontend/serve/routes/inspect_route.h"
#include "frontend/serve/routes/model_events.h"
#include "frontend/serve/routes/model_pull.h"
#include "frontend/serve/routes/response_resume.h"
#include "frontend/serve/routes/response_watches.h"
#include "frontend/serve/routes/route_table.h"
#include "frontend/serve/routes/status_stream.h"
#include "frontend/serve/routes/tenant_salt.h"
#include "frontend/serve/server_handover.h"
#include "frontend/serve/service_manager.h"
#include "frontend/serve/state_handover.h"
#include "frontend/serve/worker/prefix_files.h"
#include "proto/log.h"
#include "proto/must.h"

#define LAST_WRITES_MS      1000 /* for unsent replies after all requests have ended */
#define LAST_WRITES_LOOK_MS 10
#define TEARDOWN_MS         2000 /* for threads to end and memory to be released */
#define CALLBACKS_A_LOOK    64
#define CONNECTIONS_LOOK_MS 50 /* between looks for the last connection, once a successor serves */

#define SIGNAL_COUNT    5u
#define RELOAD_EVERY_MS 1000

struct serve_command {
    const struct options *options;
    struct event_base *base;
    struct event *signals[SIGNAL_COUNT];
    struct service_manager *manager;
    struct cache_salt *warm_salts; /* one for each tenant whose prompts are computed */
    struct http_settings *http_settings;
    struct response_journal *journal; /* NULL: no --state-dir */
    struct event *drain_timer;
    struct event *exit_timer;
    struct event *reload_timer;
    struct event *leave_timer;
    struct server_handover *handover;
    int predecessor; /* channel to the server before this one, until this one serves; or -1 */
    struct state_handover
        *state;       /* the same with --state-dir, which it still has or had; or NULL */
    bool state_asked; /* the model is loaded */
    bool state_owned;
    bool state_ended;       /* no response follows from that server */
    int64_t leave_at_ms;    /* 0: no successor serves */
    int64_t reloaded_at_ms; /* 0: never */
    bool told_of_user_signal;
    struct http_route *route_table;
    struct route_context routes;
    int64_t exit_at_ms;
    bool draining;
    bool told_to_end; /* by a signal */
    bool talks;
    struct chat_command *chat; /* NULL: !talks */
    int status;
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

/* A model is loaded, and the state directory, if there is one, is this process's. */
static void serve(struct serve_command *command)
{
    if (command->predecessor >= 0) {
        http_server_accept(command->routes.server);
        server_handover_report(command->predecessor);
        command->predecessor = -1;
    }
    service_manager_ready(command->manager);
    response_resume_start(command->routes.resume);
    if (command->chat)
        chat_command_ready(command->chat, model_engine(model_set_at(command->routes.models, 0)));
}

static void on_ready(void *context)
{
    struct serve_command *command = context;
    if (!command->state || command->state_owned)
        serve(command);
    else if (!command->state_asked)
        state_handover_ask(command->state);
    command->state_asked = true;
}

/* --- the state directory of the server before this one ------------------------------------------ */

/* `held`: that server still makes responses. */
static bool state_take(struct serve_command *command, bool held)
{
    struct error_text error;
    if (response_journal_take(command->journal, &error) != RESULT_OK) {
        on_failed(command, error.text);
        return false;
    }
    command->state_owned = true;
    response_resume_load(command->routes.resume, held);
    return true;
}

static void on_state_left(void *context)
{
    struct serve_command *command = context;
    if (!state_take(command, true))
        return;
    http_server_accept(command->routes.server);
    state_handover_report(command->state);
    serve(command);
}

static void on_state_message(void *context, char kind, const char *bytes, size_t byte_count)
{
    struct serve_command *command = context;
    response_resume_receive(command->routes.resume, kind, bytes, byte_count);
}

/* That server has ended, as planned or not. */
static void on_state_ended(void *context)
{
    struct serve_command *command = context;
    command->state_ended = true;
    if (command->state_owned) {
        response_resume_release(command->routes.resume);
        return;
    }
    log_warn("the server before this one ended before it gave --state-dir up");
    if (!state_take(command, false))
        return;
    http_server_accept(command->routes.server);
    if (command->state_asked)
        serve(command);
}

/* Before anything can be stored. */
static enum result state_open(struct serve_command *command, struct error_text *error)
{
    const char *path = command->options->state_dir;
    if (!path)
        return RESULT_OK;
    if (command->predecessor < 0) {
        enum result result = response_journal_open(path, &command->journal, error);
        if (result == RESULT_OK)
            prefix_files_sweep(response_journal_directory(command->journal));
        return result;
    }
    enum result result = response_journal_open_waiting(path, &command->journal, error);
    if (result != RESULT_OK)
        return result;
    command->state = state_handover_create(
        &(struct state_handover_config){.base = command->base,
                                        .channel = command->predecessor,
                                        .most_bytes = command->options->response_store_bytes,
                                        .context = command,
                                        .left = on_state_left,
                                        .message = on_state_message,
                                        .ended = on_state_ended});
    command->predecessor = -1;
    return RESULT_OK;
}

static void directory_status_write(const struct model_set *models, char text[SERVICE_STATUS_BYTES])
{
    uint32_t loaded = 0;
    for (uint32_t i = 0; i < model_set_count(models); i++)
        loaded += model_state(model_set_at(models, i)) == MODEL_READY;
    snprintf(text, SERVICE_STATUS_BYTES, "%u of %u models loaded", loaded, model_set_count(models));
}

static void on_write_status(void *context, char text[SERVICE_STATUS_BYTES])
{
    struct serve_command *command = context;
    const struct model_set *models = command->routes.models;
    struct engine_status status;
    if (!models)
        return;
    if (model_set_is_directory(models)) {
        directory_status_write(models, text);
        return;
    }
    engine_status_read(model_engine(model_set_at(models, 0)), &status);
    if (status.load_progress < 1)
        snprintf(text, SERVICE_STATUS_BYTES, "%s, model loaded to %.0f %%", status.state,
                 100 * status.load_progress);
    else
        snprintf(text, SERVICE_STATUS_BYTES, "%s, %u requests, %u worker restarts", status.state,
                 status.live, status.worker_restarts);
}

/* All requests have ended; waits until the last replies are written. */
static void on_exit_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct serve_command *command = context;
    if (http_server_busy_connections(command->routes.server) == 0 ||
        monotonic_clock_ms() >= command->exit_at_ms)
        event_base_loopbreak(command->base);
    else
        after_ms(command->exit_timer, LAST_WRITES_LOOK_MS);
}

static void on_drained(void *context)
{
    struct serve_command *command = context;
    status_streams_end(command->routes.status_streams);
    model_events_end(command->routes.model_events);
    model_pulls_end(command->routes.model_pulls);
    command->exit_at_ms = monotonic_clock_ms() + LAST_WRITES_MS;
    after_ms(command->exit_timer, 0);
}

static void on_model_changed(void *context, const struct model *model)
{
    struct serve_command *command = context;
    model_events_tell(command->routes.model_events, model);
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
    response_store_set_journal(command->routes.responses, NULL); /* the next process goes on */
    model_set_fail_all(command->routes.models, &error);
}

static void on_reload_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct serve_command *command = context;
    command->reloaded_at_ms = monotonic_clock_ms();
    service_manager_reloading(command->manager);
    http_settings_reload(command->http_settings);
    model_set_reload(command->routes.models);
    service_manager_reloaded(command->manager);
}

/* Signals that arrive before the reload are answered by it: a flood of them costs one reload an interval. */
static void reload_soon(struct serve_command *command)
{
    if (event_pending(command->reload_timer, EV_TIMEOUT, NULL))
        return;
    int64_t wait_ms = command->reloaded_at_ms + RELOAD_EVERY_MS - monotonic_clock_ms();
    after_ms(command->reload_timer, command->reloaded_at_ms > 0 && wait_ms > 0 ? wait_ms : 0);
}

static void drain_begin(struct serve_command *command)
{
    command->draining = true;
    if (command->leave_at_ms == 0) /* otherwise the service goes on in the successor */
        service_manager_stopping(command->manager);
    after_ms(command->drain_timer, (int64_t)command->options->drain_timeout_s * 1000);
    model_set_drain(command->routes.models);
}

static void on_chat_ended(void *context)
{
    struct serve_command *command = context;
    if (!command->draining)
        drain_begin(command);
}

/* --- a successor ----------------------------------------------------------------------------- */

/* A successor has the port. Clients of this server's connections may send one more request on each;
 * the drain begins when the last is closed, or at the timeout. */
static void on_leave_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct serve_command *command = context;
    if (command->draining)
        return;
    if (http_server_connections(command->routes.server) > 0 &&
        monotonic_clock_ms() < command->leave_at_ms) {
        after_ms(command->leave_timer, CONNECTIONS_LOOK_MS);
        return;
    }
    drain_begin(command);
}

static void on_successor_ready(void *context, pid_t successor)
{
    struct serve_command *command = context;
    log_info("process %d serves now; this one answers the requests of its connections and ends",
             (int)successor);
    service_manager_succeeded(command->manager, successor);
    if (command->journal) {
        response_journal_forward(command->journal);
        model_set_end_saving(command->routes.models);
    }
    http_server_stop_accepting(command->routes.server);
    status_streams_end(command->routes.status_streams);
    model_events_end(command->routes.model_events);
    command->leave_at_ms = monotonic_clock_ms() + (int64_t)command->options->drain_timeout_s * 1000;
    after_ms(command->leave_timer, 0);
}

static void on_successor_asked(void *context, int channel)
{
    struct serve_command *command = context;
    if (!command->journal) {
        close(channel);
        return;
    }
    /* Otherwise a client could ask here for what the successor has stored a moment ago. */
    http_server_pause(command->routes.server);
    response_journal_leave(command->journal, channel);
}

static void on_successor_failed(void *context)
{
    struct serve_command *command = context;
    if (!command->journal)
        return;
    response_journal_return(command->journal);
    http_server_accept(command->routes.server);
}

static enum result successor_start(struct serve_command *command, struct error_text *error)
{
    int sockets[LIMIT_LISTEN_SOCKETS];
    if (command->talks)
        return error_set(error, RESULT_INVALID, "it would not have the conversation");
    if (command->draining || command->leave_at_ms > 0)
        return error_set(error, RESULT_FULL, "this server is ending");
    if (command->predecessor >= 0 || (command->state && !command->state_owned))
        return error_set(error, RESULT_FULL, "this server is not ready itself");
    if (command->state && !command->state_ended)
        return error_set(error, RESULT_FULL,
                         "the server before this one still answers its last requests");
    if (getpid() == 1)
        return error_set(error, RESULT_INVALID, "process 1 cannot be succeeded by its child");
    size_t count = http_server_sockets(command->routes.server, sockets);
    char **environment = service_manager_successor_environment(command->manager, count);
    enum result result =
        server_handover_start(command->handover, sockets, count, environment, error);
    free(environment);
    return result;
}

/* --- signals --------------------------------------------------------------------------------- */

static void on_signal(int signal_number, short what, void *context)
{
    (void)what;
    struct serve_command *command = context;
    struct error_text error;
    if (signal_number == SIGUSR1) {
        if (!command->told_of_user_signal)
            log_warn("signal %d has no effect; more of them are not logged", signal_number);
        command->told_of_user_signal = true;
        return;
    }
    if (signal_number == SIGUSR2) {
        if (successor_start(command, &error) != RESULT_OK)
            log_warn("no successor is started: %s", error.text);
        return;
    }
    if (signal_number == SIGHUP && !command->talks) { /* otherwise the terminal is gone */
        reload_soon(command);
        return;
    }
    if (signal_number == SIGINT && command->chat && !command->draining &&
        chat_command_interrupt(command->chat))
        return;
    /* A drain for a successor is no answer to a signal: the requests keep their time. */
    if (command->draining && (command->told_to_end || command->leave_at_ms == 0))
        _exit(128 + signal_number);
    command->told_to_end = true;
    log_info("signal %d: draining; a second one ends at once", signal_number);
    if (!command->draining)
        drain_begin(command);
}

/* --- start ----------------------------------------------------------------------------------- */

static void announce(const struct serve_command *command, bool passed)
{
    const struct options *options = command->options;
    const char *scheme = options->tls_cert ? "https" : "http";
    bool ipv6 = strchr(options->host, ':') != NULL;
    FILE *out = command->talks ? stderr : stdout; /* a conversation has standard output */
    if (passed)
        fprintf(out, "listening on passed sockets, %s\n", scheme);
    else
        fprintf(out, "listening on %s://%s%s%s:%u\n", scheme, ipv6 ? "[" : "", options->host,
                ipv6 ? "]" : "", http_server_port(command->routes.server));
    fflush(out);
}

static enum result server_start(struct serve_command *command, struct error_text *error)
{
    int passed[LIMIT_LISTEN_SOCKETS + 1];
    struct http_server_config config = {.route_context = &command->routes};
    command->routes.options = command->options;
    command->routes.health_needs_ready = command->options->health_needs_ready;
    command->route_table =
        route_table_create(command->options->protect_metrics, &config.route_count);
    config.routes = command->route_table;
    http_settings_fill(command->http_settings, &config);
    config.listen.fds = passed;
    config.listen.fd_count = service_manager_take_sockets(command->manager, passed);
    config.listen.paused = command->predecessor >= 0 || command->state;
    enum result result = http_server_create(command->base, &config, &command->routes.server, error);
    if (result == RESULT_OK)
        announce(command, config.listen.fd_count > 0);
    return result;
}

/* Before the server listens, so that an early signal waits for the loop instead of killing the
 * process. */
static void signals_catch(struct serve_command *command)
{
    static const int numbers[SIGNAL_COUNT] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        command->signals[i] = evsignal_new(command->base, numbers[i], on_signal, command);
        must(command->signals[i] && event_add(command->signals[i], NULL) == 0);
    }
}

/* The tenants of requests with each API key, or without any; command->warm_salts is theirs. */
static struct cache_salts warm_tenants_make(struct serve_command *command,
                                            const struct keyed_hash_key *key)
{
    static const struct client_key no_key;
    const struct api_keys *keys = http_settings_keys(command->http_settings);
    size_t count = keys ? api_keys_count(keys) : 1;
    command->warm_salts = must_alloc(count, sizeof command->warm_salts[0]);
    for (size_t i = 0; i < count; i++) {
        struct client_key client = keys ? api_keys_client(keys, i) : no_key;
        command->warm_salts[i] = tenant_salt_make(key, &client, NULL);
    }
    return (struct cache_salts){.items = command->warm_salts, .count = count};
}

static enum result command_start(struct serve_command *command, struct error_text *error)
{
    struct model_set_config config = {.base = command->base,
                                      .options = command->options,
                                      .context = command,
                                      .ready = on_ready,
                                      .failed = on_failed,
                                      .drained = on_drained,
                                      .changed = on_model_changed};
    signals_catch(command);
    command->predecessor = service_manager_take_channel(command->manager);
    command->handover = server_handover_create(
        &(struct server_handover_config){.base = command->base,
                                         .arguments = command->options->arguments,
                                         .argument_count = command->options->argument_count,
                                         .keys = &command->options->api_keys,
                                         .context = command,
                                         .ready = on_successor_ready,
                                         .asked = on_successor_asked,
                                         .failed = on_successor_failed});
    enum result result = state_open(command, error);
    if (result != RESULT_OK)
        return result;
    config.state_directory = response_journal_directory(command->journal);
    config.key = tenant_salt_key(config.state_directory);
    result = http_settings_create(command->options, &command->http_settings, error);
    if (result == RESULT_OK)
        result = server_start(command, error);
    if (result == RESULT_OK) {
        config.tenants = warm_tenants_make(command, &config.key);
        result = model_set_create(&config, &command->routes.models, error);
    }
    if (result != RESULT_OK)
        return result;
    command->routes.responses =
        response_store_create(command->options->response_store_bytes, LIMIT_STORED_RESPONSES);
    command->routes.watches = response_watches_create(command->base, command->options);
    command->routes.status_streams = status_streams_create(command->base);
    command->routes.model_events = model_events_create(command->base, command->options);
    command->routes.model_pulls = model_pulls_create(command->base, command->options);
    command->routes.generation = generation_route_create(
        &(struct generation_route_config){.base = command->base,
                                          .models = command->routes.models,
                                          .options = command->options,
                                          .salt_key = config.key,
                                          .usage = http_settings_usage(command->http_settings),
                                          .watches = command->routes.watches});
    command->routes.resume = response_resume_create(
        &(struct response_resume_config){.base = command->base,
                                         .models = command->routes.models,
                                         .generation = command->routes.generation,
                                         .watches = command->routes.watches,
                                         .store = command->routes.responses,
                                         .journal = command->journal,
                                         .max_bytes = command->options->response_store_bytes});
    if (!command->state)
        response_resume_load(command->routes.resume, false);
    command->routes.inspections = inspect_route_create(command->routes.models);
    command->drain_timer = event_new(command->base, -1, 0, on_drain_timer, command);
    command->exit_timer = event_new(command->base, -1, 0, on_exit_timer, command);
    command->reload_timer = event_new(command->base, -1, 0, on_reload_timer, command);
    command->leave_timer = event_new(command->base, -1, 0, on_leave_timer, command);
    must(command->drain_timer && command->exit_timer && command->reload_timer &&
         command->leave_timer);
    return RESULT_OK;
}

static void event_release(struct event *event)
{
    if (event)
        event_free(event);
}

/* Callbacks may activate others, and libevent polls the kernel only when none is left: a client
 * that pipelines requests without end could starve the others. So it polls after CALLBACKS_A_LOOK
 * callbacks. */
static struct event_base *base_create(bool reads_files)
{
    struct event_config *config = event_config_new();
    if (reads_files) /* which epoll does not wait for: standard input may be one */
        must(config && event_config_require_features(config, EV_FEATURE_FDS) == 0);
    must(config && event_config_set_max_dispatch_interval(config, NULL, CALLBACKS_A_LOOK, 0) == 0);
    struct event_base *base = event_base_new_with_config(config);
    must(base != NULL);
    event_config_free(config);
    return base;
}

static void *teardown_guard(void *context)
{
    const struct timespec limit = {.tv_sec = TEARDOWN_MS / 1000,
                                   .tv_nsec = TEARDOWN_MS % 1000 * 1000000};
    nanosleep(&limit, NULL);
    log_warn("a thread did not end within %d ms; the process ends without it", TEARDOWN_MS);
    _exit((int)(intptr_t)context);
}

/* The loop has ended. Teardown joins threads, one of which may be held by a fetch or a decode: the
 * process ends after TEARDOWN_MS whether they do or not, and at once at a second signal. */
static void teardown_begin(struct serve_command *command)
{
    pthread_t guard;
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        event_release(command->signals[i]); /* the default action is back */
        command->signals[i] = NULL;
    }
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    void *status = (void *)(intptr_t)command->status;
    must(pthread_create(&guard, NULL, teardown_guard, status) == 0);
    must(pthread_detach(guard) == 0);
}

static int server_run(const struct options *options, bool talks)
{
    struct serve_command command = {.options = options, .predecessor = -1, .talks = talks};
    struct error_text error;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    loop_priority_raise();
    command.base = base_create(talks);
    command.manager = service_manager_create(&(struct service_manager_config){
        .base = command.base, .context = &command, .write_status = on_write_status});
    if (talks)
        command.chat = chat_command_attach(options, command.base, on_chat_ended, &command);
    if (command_start(&command, &error) == RESULT_OK) {
        event_base_dispatch(command.base);
    } else {
        log_error("%s", error.text);
        command.status = 1;
    }
    teardown_begin(&command);
    if (command.routes.responses) /* what ends now is unfinished for the next process */
        response_store_set_journal(command.routes.responses, NULL);
    http_server_destroy(command.routes.server); /* closes the remaining connections */
    response_resume_destroy(command.routes.resume);
    generation_route_destroy(command.routes.generation);
    response_watches_destroy(command.routes.watches);
    status_streams_destroy(command.routes.status_streams);
    model_events_destroy(command.routes.model_events);
    model_pulls_destroy(command.routes.model_pulls);
    inspect_route_destroy(command.routes.inspections);
    chat_command_detach(command.chat);
    model_set_destroy(command.routes.models);
    free(command.warm_salts);
    server_handover_destroy(command.handover); /* ends a successor that is not ready */
    state_handover_destroy(command.state);
    if (command.journal)
        response_journal_return(command.journal);
    response_journal_close(command.journal);
    response_store_destroy(command.routes.responses); /* after the last reference to a response */
    http_settings_destroy(command.http_settings);
    if (command.predecessor >= 0)
        close(command.predecessor);
    service_manager_destroy(command.manager);
    event_release(command.drain_timer);
    event_release(command.exit_timer);
    event_release(command.reload_timer);
    event_release(command.leave_timer);
    event_base_free(command.base);
    free(command.route_table);
    return command.status;
}

int serve_command_run(const struct options *options)
{
    return server_run(options, false);
}

int serve_command_run_with_chat(const struct options *options)
{
    return server_run(options, true);
}
