/*
 * The engine moves live requests along their state machine (live_request.h) as the pool, the worker
 * and clients act.
 *
 * Ends of a request, all through request_end(): finished (the worker or a stop string), failed
 * (refused, worker's refusal, worker's death), cancelled (client). The sink hears of the first two
 * and never of a request again afterwards. When the request is with the worker, its slot stays
 * LEAVING until the worker's last word, or its death.
 *
 * Tokens of one wake-up are handed to the sinks as they come; each request that got some is flushed
 * once when the batch ends. Requests wait in one queue, first come first served, only for room in
 * the slab: how many run at once is the worker's decision.
 */
#include "frontend/serve/chat_engine.h"

#include <event2/event.h>
#include <stdlib.h>

#include "frontend/serve/asset_loader.h"
#include "frontend/serve/monotonic_clock.h"
#include "frontend/serve/request_table.h"
#include "frontend/serve/worker_supervisor.h"
#include "proto/log.h"
#include "proto/must.h"

struct chat_engine {
    struct chat_engine_config config;
    struct asset_loader *loader;
    struct model_assets *assets; /* NULL until open */
    struct prepare_pool *pool;
    struct request_table *table;
    struct weight_holder *weights;
    struct worker_supervisor *supervisor;
    struct serve_metrics metrics;
    struct live_request *waiting_first;
    struct live_request **waiting_end;
    struct request_id *dirty; /* [slots] requests with tokens since their last flush */
    uint32_t dirty_count;
    uint32_t with_worker;
    bool ready_told; /* the context was agreed on with the first ready worker */
    bool draining;
    bool worker_draining;
};

/* --- ends ------------------------------------------------------------------------------------ */

static void drain_check(struct chat_engine *engine)
{
    if (!engine->draining || engine->worker_draining || request_table_live(engine->table) > 0)
        return;
    engine->worker_draining = true;
    worker_supervisor_drain(engine->supervisor);
}

static void slot_give(struct chat_engine *engine, struct live_request *request)
{
    request_table_give(engine->table, request);
    drain_check(engine);
}

static void worker_done(struct chat_engine *engine, struct live_request *request)
{
    engine->with_worker--;
    worker_supervisor_expect_work(engine->supervisor, engine->with_worker > 0);
    live_request_worker_done(request);
    slot_give(engine, request);
}

static struct request_timeline timeline_of(const struct live_request *request)
{
    return (struct request_timeline){.arrived_us = request->admitted_us,
                                     .queued_us = request->queued_us,
                                     .scheduled_us = request->scheduled_us,
                                     .first_token_us = request->first_token_us,
                                     .last_token_us = request->last_token_us};
}

static void end_measure(struct chat_engine *engine, const struct live_request *request,
                        enum request_outcome outcome)
{
    const struct prepared_chat *prepared = &request->prepared;
    struct request_account account = {.timeline = timeline_of(request),
                                      .prompt_tokens = prepared->prompt.count,
                                      .cached_tokens = request->cached_tokens,
                                      .generated_tokens = request->generated.count,
                                      .max_generated = prepared->max_new_tokens,
                                      .asked_max_tokens = prepared->request.max_new_tokens};
    serve_metrics_end(&engine->metrics, outcome, &account, monotonic_clock_us());
}

/* The client's side is over. */
static void request_end(struct chat_engine *engine, struct live_request *request,
                        enum request_outcome outcome)
{
    end_measure(engine, request, outcome);
    request->dirty = false;
    if (live_request_leave(request))
        slot_give(engine, request);
}

static void request_fail(struct chat_engine *engine, struct live_request *request,
                         const struct api_error *error)
{
    request->sink->failed(request->sink_context, error);
    request_end(engine, request, OUTCOME_ERROR);
}

static void request_finish(struct chat_engine *engine, struct live_request *request,
                           enum finish_reason finish)
{
    request->sink->finished(request->sink_context, finish, request->cached_tokens);
    request_end(engine, request, finish == FINISH_LENGTH ? OUTCOME_LENGTH : OUTCOME_STOP);
}

static void worker_cancel(struct chat_engine *engine, const struct live_request *request)
{
    struct worker_link *link = worker_supervisor_link(engine->supervisor);
    if (link && worker_link_cancel(link, request->id) != RESULT_OK)
        worker_supervisor_condemn(engine->supervisor, "its submit ring is broken");
}

/* --- the waiting queue ----------------------------------------------------------------------- */

static void waiting_push(struct chat_engine *engine, struct live_request *request)
{
    request->next_waiting = NULL;
    *engine->waiting_end = request;
    engine->waiting_end = &request->next_waiting;
}

static void waiting_remove(struct chat_engine *engine, struct live_request *request)
{
    struct live_request **at = &engine->waiting_first;
    while (*at != request)
        at = &(*at)->next_waiting;
    *at = request->next_waiting;
    if (engine->waiting_end == &request->next_waiting)
        engine->waiting_end = at;
}

static void fail_too_large(struct chat_engine *engine, struct live_request *request)
{
    struct api_error error;
    (void)api_error_set(&error, RESULT_TOO_LARGE, 400, "context_length_exceeded",
                        "the prompt does not fit into this server's memory for prompts");
    request_fail(engine, request, &error);
}

/* Submits from the queue's front as long as there is room. */
static void waiting_submit(struct chat_engine *engine)
{
    while (engine->waiting_first &&
           worker_supervisor_state(engine->supervisor) == SUPERVISOR_READY) {
        struct live_request *request = engine->waiting_first;
        enum result result = worker_link_submit(worker_supervisor_link(engine->supervisor),
                                                request->id, &request->prepared, engine->assets);
        if (result == RESULT_FULL)
            return;
        if (result == RESULT_CORRUPT) {
            worker_supervisor_condemn(engine->supervisor, "its submit ring is broken");
            return;
        }
        waiting_remove(engine, request);
        if (result != RESULT_OK) {
            fail_too_large(engine, request);
            continue;
        }
        live_request_submit(request);
        engine->with_worker++;
        worker_supervisor_expect_work(engine->supervisor, true);
    }
}

/* --- from the pool --------------------------------------------------------------------------- */

static void on_prepared(void *context, enum result result, struct prepared_chat *prepared,
                        const struct api_error *error)
{
    struct live_request *request = context;
    struct chat_engine *engine = request->engine;
    if (result != RESULT_OK) {
        request_fail(engine, request, error);
        return;
    }
    uint64_t usual = engine->config.options->max_tokens;
    if (prepared->request.max_new_tokens == 0 && usual > 0 && usual < prepared->max_new_tokens)
        prepared->max_new_tokens = (uint32_t)usual;
    live_request_queue(request, prepared);
    request->queued_us = monotonic_clock_us();
    waiting_push(engine, request);
    request->sink->prepared(request->sink_context, &request->prepared);
    chat_request_drop_body(&request->prepared.request); /* megabytes, for as long as it lives */
    waiting_submit(engine);
}

/* --- from the worker ------------------------------------------------------------------------- */

static bool is_stop_token(const struct chat_engine *engine, uint32_t token)
{
    for (uint32_t i = 0; i < engine->assets->stop_id_count; i++) {
        if (engine->assets->stop_ids[i] == token)
            return true;
    }
    return false;
}

/* The first step that had rows of the request has just ended, and says how long it took. */
static void on_progress(struct live_request *request, const struct token_event *event)
{
    if (request->scheduled_us != 0)
        return;
    int64_t now_us = monotonic_clock_us();
    int64_t waited_us = now_us - request->queued_us;
    bool plausible = waited_us > 0 && event->step_time_us < (uint64_t)waited_us;
    request->scheduled_us = plausible ? now_us - (int64_t)event->step_time_us : request->queued_us;
}

static enum result on_token(struct chat_engine *engine, struct live_request *request,
                            const struct token_event *event)
{
    int64_t now_us = monotonic_clock_us();
    struct request_timeline before = timeline_of(request);
    if (live_request_token(request, event->token, event->index, now_us) != RESULT_OK)
        return RESULT_CORRUPT;
    if (event->index == 0)
        request->cached_tokens = event->cached_tokens;
    serve_metrics_token(&engine->metrics, &before, request->prepared.prompt.count,
                        request->cached_tokens, now_us);
    bool complete = request->sink->token(request->sink_context, event->token,
                                         is_stop_token(engine, event->token));
    if (complete) {
        worker_cancel(engine, request);
        request_finish(engine, request, FINISH_STOP_TOKEN);
    } else if (!request->dirty) {
        must(engine->dirty_count < request_table_slots(engine->table));
        engine->dirty[engine->dirty_count++] = request->id;
        request->dirty = true;
    }
    return RESULT_OK;
}

/* Why a worker would not run a request, as an answer. */
static void failure_words(enum result failure, struct api_error *error)
{
    switch (failure) {
    case RESULT_CONTEXT_EXCEEDED:
        (void)api_error_set(error, failure, 400, "context_length_exceeded",
                            "the request does not fit into the model's context");
        break;
    case RESULT_OUT_OF_MEMORY:
    case RESULT_FULL:
    case RESULT_TOO_LARGE:
        (void)api_error_set(error, failure, 503, "out_of_memory",
                            "the request needs more memory than the worker has");
        break;
    default:
        (void)api_error_set(error, failure, 500, "worker_error",
                            "the worker could not finish the request: %s", result_name(failure));
        break;
    }
}

static void on_last_event(struct chat_engine *engine, struct live_request *request,
                          const struct token_event *event)
{
    struct api_error error;
    if (request->state != LIVE_REQUEST_LEAVING) {
        if (event->kind == TOKEN_EVENT_FINISHED && event->finish != FINISH_CANCELLED) {
            request_finish(engine, request, (enum finish_reason)event->finish);
        } else {
            failure_words(event->kind == TOKEN_EVENT_FAILED ? (enum result)event->failure
                                                            : RESULT_CANCELLED,
                          &error);
            request_fail(engine, request, &error);
        }
    }
    worker_done(engine, request);
}

static enum result on_event(void *context, const struct token_event *event)
{
    struct chat_engine *engine = context;
    struct live_request *request = request_table_find(engine->table, event->request);
    if (!request)
        return RESULT_OK; /* stale: it ended while the event was on its way */
    if (!live_request_is_with_worker(request))
        return RESULT_CORRUPT;
    if (event->kind == TOKEN_EVENT_FINISHED || event->kind == TOKEN_EVENT_FAILED)
        on_last_event(engine, request, event);
    else if (event->kind == TOKEN_EVENT_TOKEN && request->state != LIVE_REQUEST_LEAVING)
        return on_token(engine, request, event);
    else if (event->kind == TOKEN_EVENT_PROGRESS && request->state != LIVE_REQUEST_LEAVING)
        on_progress(request, event);
    return RESULT_OK;
}

static void on_batch_end(void *context)
{
    struct chat_engine *engine = context;
    for (uint32_t i = 0; i < engine->dirty_count; i++) {
        struct live_request *request = request_table_find(engine->table, engine->dirty[i]);
        if (!request || !request->dirty)
            continue;
        request->dirty = false;
        request->sink->flush(request->sink_context);
    }
    engine->dirty_count = 0;
    waiting_submit(engine);
}

static void on_worker_died(void *context, const char *why)
{
    struct chat_engine *engine = context;
    worker_link_take_rest(worker_supervisor_link(engine->supervisor));
    worker_totals_add(&engine->metrics.workers_gone,
                      worker_link_gauges(worker_supervisor_link(engine->supervisor)));
    engine->metrics.worker_restarts++;
    struct api_error error;
    (void)api_error_set(&error, RESULT_PEER_GONE, 500, "worker_crashed",
                        "the worker that ran this request ended (%.200s); try again", why);
    for (uint32_t i = 0; i < request_table_slots(engine->table); i++) {
        struct live_request *request = request_table_at(engine->table, i);
        if (!live_request_is_with_worker(request))
            continue;
        if (request->state != LIVE_REQUEST_LEAVING)
            request_fail(engine, request, &error);
        worker_done(engine, request);
    }
}

/* --- life ------------------------------------------------------------------------------------ */

static void ready_check(struct chat_engine *engine)
{
    if (!engine->assets || worker_supervisor_state(engine->supervisor) != SUPERVISOR_READY)
        return;
    if (!engine->ready_told) {
        /* Before the first request: nobody else reads the assets yet. */
        const struct worker_gauges *gauges =
            worker_link_gauges(worker_supervisor_link(engine->supervisor));
        uint32_t most = atomic_load_explicit(&gauges->context_tokens, memory_order_relaxed);
        if (most > 0 && most < engine->assets->context_tokens)
            engine->assets->context_tokens = most;
        log_info("model %s ready, context of %u tokens", engine->assets->model_id,
                 engine->assets->context_tokens);
        serve_metrics_set_context(&engine->metrics, engine->assets->context_tokens);
        engine->ready_told = true;
    }
    engine->config.ready(engine->config.context);
    waiting_submit(engine);
}

static void on_assets(void *context, enum result result, struct model_assets *assets,
                      const struct error_text *error)
{
    struct chat_engine *engine = context;
    if (result != RESULT_OK) {
        engine->config.failed(engine->config.context, error->text);
        return;
    }
    engine->assets = assets;
    ready_check(engine);
}

static void on_worker_ready(void *context)
{
    ready_check(context);
}

static void on_worker_failed(void *context, const char *why)
{
    struct chat_engine *engine = context;
    engine->config.failed(engine->config.context, why);
}

static void on_worker_drained(void *context)
{
    struct chat_engine *engine = context;
    engine->config.drained(engine->config.context);
}

enum result chat_engine_create(const struct chat_engine_config *config, struct chat_engine **engine,
                               struct error_text *error)
{
    const struct options *options = config->options;
    uint32_t slots = (uint32_t)(options->max_sequences + options->max_queue);
    struct chat_engine *made = must_alloc(1, sizeof *made);
    made->config = *config;
    serve_metrics_init(&made->metrics);
    made->waiting_end = &made->waiting_first;
    made->table = request_table_create(slots);
    made->weights = weight_holder_create();
    made->dirty = must_alloc(slots, sizeof made->dirty[0]);
    struct worker_supervisor_config supervision = {.base = config->base,
                                                   .options = options,
                                                   .weights = made->weights,
                                                   .live_requests = slots,
                                                   .context = made,
                                                   .ready = on_worker_ready,
                                                   .died = on_worker_died,
                                                   .failed = on_worker_failed,
                                                   .drained = on_worker_drained,
                                                   .event = on_event,
                                                   .batch_end = on_batch_end};
    enum result result = worker_supervisor_create(&supervision, &made->supervisor, error);
    if (result != RESULT_OK) {
        chat_engine_destroy(made);
        return result;
    }
    made->pool = prepare_pool_create(config->base, (uint32_t)options->prepare_threads);
    made->loader = asset_loader_create(&(struct asset_loader_config){
        .base = config->base,
        .assets = {.path = options->model,
                   .served_name = options->served_model_name,
                   .chat_template_path = options->chat_template,
                   .context_limit = (uint32_t)options->context_tokens},
        .context = made,
        .done = on_assets});
    *engine = made;
    return RESULT_OK;
}

void chat_engine_destroy(struct chat_engine *engine)
{
    if (!engine)
        return;
    worker_supervisor_destroy(engine->supervisor);
    weight_holder_destroy(engine->weights);
    prepare_pool_destroy(engine->pool);
    request_table_destroy(engine->table);
    asset_loader_destroy(engine->loader);
    free(engine->dirty);
    free(engine);
}

const struct model_assets *chat_engine_assets(const struct chat_engine *engine)
{
    return engine->assets;
}

/* --- from clients ---------------------------------------------------------------------------- */

static enum result refuse(struct api_error *error, int status, uint32_t retry_after_s,
                          const char *code, const char *words)
{
    (void)api_error_set(error, RESULT_FULL, status, code, "%s", words);
    error->retry_after_s = retry_after_s;
    return RESULT_FULL;
}

enum result chat_engine_check_ready(const struct chat_engine *engine, struct api_error *error)
{
    if (engine->draining)
        return refuse(error, 503, 5, "shutting_down", "the server is shutting down");
    if (engine->assets && worker_supervisor_state(engine->supervisor) == SUPERVISOR_READY)
        return RESULT_OK;
    if (engine->ready_told)
        return refuse(error, 503, 1, "worker_restarting", "the worker is being restarted");
    (void)api_error_set(error, RESULT_FULL, 503, "model_loading", "the model is loading: %.0f %%",
                        100 * worker_supervisor_load_progress(engine->supervisor));
    error->retry_after_s = 1;
    return RESULT_FULL;
}

enum result chat_engine_admit(struct chat_engine *engine, struct prepare_input *input,
                              const struct live_request_sink *sink, void *sink_context,
                              struct live_request **request, struct api_error *error)
{
    enum result result = chat_engine_check_ready(engine, error);
    struct live_request *taken = result == RESULT_OK ? request_table_take(engine->table) : NULL;
    if (result == RESULT_OK && !taken) {
        engine->metrics.refused_busy++;
        result = refuse(error, 429, 1, "queue_full", "too many requests are waiting; try again");
    }
    if (result != RESULT_OK) {
        free(input->body);
        free(input->raw_prompt);
        return result;
    }
    taken->engine = engine;
    live_request_admit(taken, sink, sink_context, monotonic_clock_us());
    live_request_prepare(
        taken, prepare_pool_submit(engine->pool, engine->assets, input, on_prepared, taken));
    *request = taken;
    return RESULT_OK;
}

/* Takes the request from whoever has it; the sink is told nothing. */
static void request_withdraw(struct chat_engine *engine, struct live_request *request,
                             enum request_outcome outcome)
{
    if (request->state == LIVE_REQUEST_PREPARING)
        prepare_pool_drop(engine->pool, request->job);
    else if (request->state == LIVE_REQUEST_WAITING)
        waiting_remove(engine, request);
    else
        worker_cancel(engine, request);
    request_end(engine, request, outcome);
}

void chat_engine_cancel(struct chat_engine *engine, struct live_request *request)
{
    request_withdraw(engine, request, OUTCOME_ABORT);
}

void chat_engine_drain(struct chat_engine *engine)
{
    engine->draining = true;
    drain_check(engine);
}

void chat_engine_fail_all(struct chat_engine *engine, const struct api_error *error)
{
    for (uint32_t i = 0; i < request_table_slots(engine->table); i++) {
        struct live_request *request = request_table_at(engine->table, i);
        if (request->state == LIVE_REQUEST_FREE || request->state == LIVE_REQUEST_LEAVING)
            continue;
        request->sink->failed(request->sink_context, error);
        request_withdraw(engine, request, OUTCOME_ERROR);
    }
}

/* --- figures --------------------------------------------------------------------------------- */

#define GAUGE(gauges, member) atomic_load_explicit(&(gauges)->member, memory_order_relaxed)

static const char *state_name(const struct chat_engine *engine)
{
    struct api_error error;
    if (engine->draining)
        return "draining";
    if (chat_engine_check_ready(engine, &error) == RESULT_OK)
        return "ready";
    return engine->ready_told ? "restarting" : "loading";
}

void chat_engine_read_status(const struct chat_engine *engine, struct chat_engine_status *status)
{
    *status = (struct chat_engine_status){
        .state = state_name(engine),
        .load_progress = worker_supervisor_load_progress(engine->supervisor),
        .live = request_table_live(engine->table),
        .preparing = request_table_count(engine->table, LIVE_REQUEST_PREPARING),
        .waiting = request_table_count(engine->table, LIVE_REQUEST_WAITING),
        .with_worker = engine->with_worker,
        .worker_restarts = worker_supervisor_restarts(engine->supervisor),
        .totals = engine->metrics.workers_gone};
    const struct worker_link *link = worker_supervisor_link(engine->supervisor);
    if (!link)
        return;
    const struct worker_gauges *gauges = worker_link_gauges(link);
    status->worker_running = GAUGE(gauges, running_sequences);
    status->worker_waiting = GAUGE(gauges, waiting_sequences);
    status->kv_blocks_total = GAUGE(gauges, kv_blocks_total);
    status->kv_blocks_used = GAUGE(gauges, kv_blocks_used);
    worker_totals_add(&status->totals, gauges);
    status->kv_block_tokens = GAUGE(gauges, kv_block_tokens);
    status->weights_bytes = GAUGE(gauges, weights_bytes);
    status->slab_used_bytes = worker_link_slab_used_bytes(link);
}

const struct serve_metrics *chat_engine_metrics(const struct chat_engine *engine)
{
    return &engine->metrics;
}
