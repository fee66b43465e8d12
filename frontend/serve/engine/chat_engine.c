/*
 * The engine's life, and the calls of clients: admission, cancellation, drain. engine_state.h lists
 * the files for the rest; they move live requests through their state machine (live_request.h) as
 * preparation, workers and clients act.
 *
 * Admission is decided before a byte is parsed. It is refused while the model loads, while every
 * worker backs off after failed starts, during a drain, and if the table is full. While a dead
 * worker is being replaced, requests are admitted and wait.
 */
#include "frontend/serve/engine/chat_engine.h"

#include <event2/event.h>
#include <stdlib.h>

#include "frontend/api/generation/field_table.h"
#include "frontend/api/generation/generation_share.h"
#include "frontend/assets/adapter_set.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/grammar/grammar_cache.h"
#include "frontend/image/image_fetch.h"
#include "frontend/serve/engine/asset_loader.h"
#include "frontend/serve/engine/engine_state.h"
#include "frontend/serve/engine/request_dispatch.h"
#include "frontend/serve/engine/request_end.h"
#include "frontend/serve/engine/worker_events.h"
#include "frontend/serve/engine/worker_loss.h"
#include "proto/limits.h"
#include "proto/log.h"
#include "proto/must.h"

#define FETCH_THREADS 8 /* for image fetches, which wait for other hosts */

static enum result refuse(struct api_error *error, int status, uint32_t retry_after_s,
                          const char *code, const char *words)
{
    (void)api_error_set(error, RESULT_FULL, status, code, "%s", words);
    error->retry_after_s = retry_after_s;
    return RESULT_FULL;
}

/* --- from preparation ------------------------------------------------------------------------ */

/* All answers to one body are admitted, or none. */
static enum result room_check(struct chat_engine *engine, uint32_t answers, struct api_error *error)
{
    uint32_t slots = request_table_slots(engine->table);
    if (answers > slots)
        return api_error_invalid(error, "n", "this server computes at most %u answers at once",
                                 slots);
    if (answers - 1 <= slots - request_table_live(engine->table))
        return RESULT_OK;
    engine->metrics.refused_busy++;
    return refuse(error, 429, 1, "queue_full", "too many requests are waiting; try again");
}

static void queue(struct live_request *request, struct prepared_generation *prepared)
{
    struct chat_engine *engine = request->engine;
    uint64_t usual = engine->config.options->max_tokens; /* for requests without a maximum */
    if (prepared->request.max_new_tokens == 0 && usual > 0 && usual < prepared->max_new_tokens)
        prepared->max_new_tokens = (uint32_t)usual;
    live_request_queue(request, prepared);
    request->timeline.queued_us = monotonic_clock_us();
    request->arrival = engine->next_arrival++;
    request->fingerprint = poison_memory_fingerprint(&engine->poison, &request->prepared);
}

static void on_prepared(void *context, enum result result, struct prepared_generation *prepared,
                        const struct api_error *error)
{
    struct live_request *request = context;
    struct chat_engine *engine = request->engine;
    struct api_error no_room;
    if (result != RESULT_OK) {
        request_end_fail(engine, request, error);
        return;
    }
    if (room_check(engine, generation_share_answers(prepared), &no_room) != RESULT_OK) {
        prepared_generation_fini(prepared);
        request_end_fail(engine, request, &no_room);
        return;
    }
    queue(request, prepared);
    request->sink->prepared(request->sink_context, &request->prepared);
    generation_request_drop_body(&request->prepared.request); /* megabytes */
    if (request_dispatch_refuse_known(engine, request))
        return;
    request_dispatch_enqueue(engine, request);
    request_dispatch_run(engine);
}

void chat_engine_follow(struct live_request *request, const struct prepared_generation *prepared)
{
    must(!request->follow);
    struct request_follow *follow = must_alloc(1, sizeof *follow);
    *follow = (struct request_follow){.prepared = *prepared,
                                      .sink = request->sink,
                                      .sink_context = request->sink_context,
                                      .client_key = request->client_key,
                                      .arrived_us = request->timeline.arrived_us};
    request->follow = follow;
}

void chat_engine_start_follow(struct chat_engine *engine, struct request_follow *follow)
{
    struct live_request *request = request_table_take(engine->table);
    must(request != NULL); /* the slot of the request before */
    request->engine = engine;
    request->client_key = follow->client_key;
    live_request_admit(request, follow->sink, follow->sink_context, follow->arrived_us);
    live_request_prepare(request, NULL);
    queue(request, &follow->prepared);
    free(follow);
    if (request_dispatch_refuse_known(engine, request))
        return;
    request_dispatch_enqueue(engine, request);
    request->sink->follows(request->sink_context, request);
}

struct live_request *chat_engine_share(struct live_request *first, uint32_t answer,
                                       const struct live_request_sink *sink, void *sink_context)
{
    struct chat_engine *engine = first->engine;
    struct live_request *request = request_table_take(engine->table);
    struct prepared_generation own;
    must(request != NULL); /* room_check() */
    must(generation_share_take(&first->prepared, generation_prepare_max_tokens(engine->assets),
                               answer, &own) == RESULT_OK); /* bounded by the context: 4 MB */
    request->engine = engine;
    request->client_key = first->client_key;
    live_request_admit(request, sink, sink_context, first->timeline.arrived_us);
    live_request_prepare(request, NULL);
    queue(request, &own);
    request_dispatch_enqueue(engine, request);
    return request;
}

/* --- life ------------------------------------------------------------------------------------ */

/* Called before the first request: no other thread reads the assets yet. */
static void agree_on_context(struct chat_engine *engine, uint32_t worker)
{
    const struct worker_gauges *gauges =
        worker_link_gauges(worker_pool_link(engine->workers, worker));
    uint32_t most = atomic_load_explicit(&gauges->context_tokens, memory_order_relaxed);
    if (most > 0 && most < engine->assets->context_tokens)
        engine->assets->context_tokens = most;
    log_info("model %s ready, context of %u tokens", engine->assets->model_id,
             engine->assets->context_tokens);
    serve_metrics_set_context(&engine->metrics, engine->assets->context_tokens);
    engine->ready_told = true;
}

/* Assets are open or a worker is ready: with both, requests can be admitted. */
static void ready_check(void *context)
{
    struct chat_engine *engine = context;
    uint32_t worker = worker_pool_find_ready(engine->workers);
    if (!engine->assets || worker == ROUTING_NONE)
        return;
    if (!engine->ready_told)
        agree_on_context(engine, worker);
    if (engine->adapter_changes)
        adapter_changes_worker_ready(engine->adapter_changes);
    engine->config.ready(engine->config.context);
    if (engine->warming)
        prompt_warming_start(engine->warming);
    request_dispatch_run(engine);
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
    if (assets->vision || assets->speech)
        media_pool_start(engine->media);
    ready_check(engine);
}

static void on_watch_end(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    request_dispatch_run(context);
}

static enum result workers_start(struct chat_engine *engine, uint32_t slots,
                                 struct error_text *error)
{
    const struct options *options = engine->config.options;
    struct worker_pool_config config = {
        .base = engine->config.base,
        .options = options,
        .checkpoint_files =
            options->ignore_weight_changes ? NULL : checkpoint_watch_record(engine->checkpoint),
        .checkpoint_opened =
            options->ignore_weight_changes ? NULL : checkpoint_watch_files(engine->checkpoint),
        .state_directory = engine->config.state_directory,
        .adapter_memory = adapter_set_memory(engine->adapters),
        .live_requests = slots,
        .listener = {.context = engine,
                     .ready = ready_check,
                     .event = worker_events_handle,
                     .batch_end = worker_events_end_batch},
        .died = worker_loss_handle,
        .owner = engine->config.context,
        .failed = engine->config.failed,
        .drained = engine->config.drained};
    return worker_pool_create(&config, &engine->workers, error);
}

static enum result adapters_add(struct chat_engine *engine, struct error_text *error)
{
    const struct option_texts *given = &engine->config.options->adapters;
    enum result result = adapter_set_create(&engine->adapters, error);
    for (size_t i = 0; i < given->count && result == RESULT_OK; i++)
        result = adapter_set_add(engine->adapters, given->items[i], error);
    return result;
}

/* What some options ask for, before the workers. */
static enum result optional_parts_create(struct chat_engine *engine, struct error_text *error)
{
    const struct options *options = engine->config.options;
    enum result result = RESULT_OK;
    if (options->warm_prompts)
        result =
            prompt_warming_create(&(struct prompt_warming_config){.base = engine->config.base,
                                                                  .path = options->warm_prompts,
                                                                  .tenants = engine->config.tenants,
                                                                  .admit = chat_engine_admit,
                                                                  .engine = engine},
                                  &engine->warming, error);
    if (result == RESULT_OK && (options->adapters.count > 0 || options->adapter_directory))
        result = adapters_add(engine, error);
    return result;
}

static struct adapter_changes *changes_create(const struct chat_engine *engine)
{
    const struct options *options = engine->config.options;
    return adapter_changes_create(
        &(struct adapter_changes_config){.base = engine->config.base,
                                         .set = engine->adapters,
                                         .workers = engine->workers,
                                         .directory = options->adapter_directory,
                                         .answer_limit_s = (uint32_t)options->adapter_timeout_s});
}

enum result chat_engine_create(const struct chat_engine_config *config, struct chat_engine **engine,
                               struct error_text *error)
{
    const struct options *options = config->options;
    uint32_t slots =
        (uint32_t)(options->workers * options_sequences_limit(options) + options->max_queue);
    if (options->pooling != POOLING_OFF) /* one body has up to LIMIT_INPUTS short texts */
        slots = LIMIT_LIVE_REQUESTS;
    struct chat_engine *made = must_alloc(1, sizeof *made);
    made->config = *config;
    serve_metrics_init(&made->metrics);
    poison_memory_init(&made->poison, (int64_t)options->poison_memory_s * 1000);
    made->watch_timer = event_new(config->base, -1, 0, on_watch_end, made);
    must(made->watch_timer != NULL);
    made->checkpoint = checkpoint_watch_create(options->model, options->mmproj);
    made->table = request_table_create(slots);
    made->dirty = must_alloc(slots, sizeof made->dirty[0]);
    bool fetches = options->media_domains.count > 0;
    enum result result = fetches ? image_fetch_start(error) : RESULT_OK;
    if (result == RESULT_OK)
        result = optional_parts_create(made, error);
    if (result == RESULT_OK)
        result = workers_start(made, slots, error);
    if (result == RESULT_OK && options->adapter_directory)
        made->adapter_changes = changes_create(made);
    if (result != RESULT_OK) {
        chat_engine_destroy(made);
        return result;
    }
    made->media = media_pool_create(
        (uint32_t)(options->media_processes ? options->media_processes : options->prepare_threads));
    made->fields = field_watch_create(options->strict_fields);
    made->grammars = grammar_cache_create(LIMIT_COMPILED_GRAMMARS_BYTES);
    made->preparation = prepare_pool_create(
        &(struct prepare_pool_config){.base = config->base,
                                      .reader = media_pool_reader(made->media),
                                      .fields = made->fields,
                                      .grammars = made->grammars,
                                      .threads = (uint32_t)options->prepare_threads,
                                      .network_threads = fetches ? FETCH_THREADS : 0,
                                      .deadline_ms = (int64_t)options->prepare_deadline_s * 1000});
    made->image_key = config->key;
    made->loader = asset_loader_create(&(struct asset_loader_config){
        .base = config->base,
        .assets = {.path = options->model,
                   .mmproj = options->mmproj,
                   .draft_path = options->draft_model,
                   .served_names = options->served_model_names.items,
                   .served_name_count = (uint32_t)options->served_model_names.count,
                   .any_name = options->any_model_name,
                   .adapters = made->adapters,
                   .reranks = options->reranking,
                   .pooling = options->pooling,
                   .chat_template_path = options->chat_template,
                   .format_names = {options->reasoning_format, options->tool_call_parser},
                   .context_limit = (uint32_t)options->context_tokens,
                   .max_kv_tokens = (uint32_t)options->max_kv_tokens,
                   .media = options_media(options),
                   .documents = options->documents,
                   .image_bytes = options->image_memory_bytes,
                   .image_key = &made->image_key},
        .context = made,
        .done = on_assets});
    *engine = made;
    return RESULT_OK;
}

void chat_engine_destroy(struct chat_engine *engine)
{
    if (!engine)
        return;
    bool set_is_free = adapter_changes_destroy(engine->adapter_changes);
    engine->adapter_changes = NULL;
    worker_pool_destroy(engine->workers);
    prepare_pool_destroy(engine->preparation);
    media_pool_destroy(engine->media); /* after its last user */
    grammar_cache_destroy(engine->grammars);
    field_watch_destroy(engine->fields);
    request_table_destroy(engine->table);
    asset_loader_destroy(engine->loader);
    if (set_is_free)
        adapter_set_destroy(engine->adapters);
    checkpoint_watch_destroy(engine->checkpoint);
    event_free(engine->watch_timer);
    prompt_warming_destroy(engine->warming);
    free(engine->dirty);
    free(engine);
}

const struct model_assets *chat_engine_assets(const struct chat_engine *engine)
{
    return engine->assets;
}

/* --- from clients ---------------------------------------------------------------------------- */

enum result chat_engine_check_ready(const struct chat_engine *engine, struct api_error *error)
{
    if (engine->draining)
        return refuse(error, 503, 5, "shutting_down", "the server is shutting down");
    if (engine->ready_told && worker_pool_is_usable(engine->workers))
        return RESULT_OK;
    if (engine->ready_told)
        return refuse(error, 503, 1, "worker_restarting", "the worker is being restarted");
    (void)api_error_set(error, RESULT_FULL, 503, "model_loading", "the model is loading: %.0f %%",
                        100 * worker_pool_load_progress(engine->workers));
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
        return result;
    }
    taken->engine = engine;
    taken->client_key = input->client_key;
    live_request_admit(taken, sink, sink_context, monotonic_clock_us());
    live_request_prepare(
        taken, prepare_pool_submit(engine->preparation, engine->assets, input, on_prepared, taken));
    *request = taken;
    return RESULT_OK;
}

enum result chat_engine_inspect(struct chat_engine *engine, struct prepare_input *input,
                                inspection *inspect, inspect_done *done, void *context,
                                struct prepare_job **job, struct api_error *error)
{
    if (engine->draining || !engine->ready_told) {
        free(input->body);
        return chat_engine_check_ready(engine, error);
    }
    *job = prepare_pool_inspect(engine->preparation, engine->assets, input, inspect, done, context);
    return RESULT_OK;
}

void chat_engine_drop_inspection(struct chat_engine *engine, struct prepare_job *job)
{
    prepare_pool_drop(engine->preparation, job);
}

void chat_engine_cancel(struct chat_engine *engine, struct live_request *request)
{
    request_end_withdraw(engine, request, OUTCOME_ABORT);
}

void chat_engine_end_saving(struct chat_engine *engine)
{
    worker_pool_end_saving(engine->workers);
}

uint32_t chat_engine_reset_caches(struct chat_engine *engine)
{
    return worker_pool_reset_caches(engine->workers);
}

struct adapter_changes *chat_engine_adapter_changes(struct chat_engine *engine)
{
    return engine->adapter_changes;
}

bool chat_engine_revoke(struct chat_engine *engine, uint64_t conviction)
{
    if (!poison_memory_find(&engine->poison, conviction, monotonic_clock_ms()))
        return false;
    char id[POISON_ID_BYTES];
    poison_memory_write_id(conviction, id);
    const struct log_field field = LOG_TEXT("conviction", id);
    log_event(LOG_INFO, "conviction_revoked", &field, 1);
    poison_memory_remove(&engine->poison, conviction);
    return true;
}

void chat_engine_drain(struct chat_engine *engine)
{
    engine->draining = true;
    request_end_check_drain(engine);
}

void chat_engine_fail_all(struct chat_engine *engine, const struct api_error *error)
{
    if (engine->adapter_changes)
        adapter_changes_fail_all(engine->adapter_changes, error);
    for (uint32_t i = 0; i < request_table_slots(engine->table); i++) {
        struct live_request *request = request_table_at(engine->table, i);
        if (request->state == LIVE_REQUEST_FREE || request->state == LIVE_REQUEST_LEAVING)
            continue;
        request->sink->failed(request->sink_context, error);
        request_end_withdraw(engine, request, OUTCOME_ERROR);
    }
}
