/*
 * The engine's status: sums over the workers' gauges and counts of the request table. It never
 * waits for a worker. A worker's own figures are shown separately from what the frontend knows.
 */
#include "frontend/serve/engine/engine_status.h"

#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/engine/engine_state.h"
#include "proto/must.h"

#define GAUGE(gauges, member) atomic_load_explicit(&(gauges)->member, memory_order_relaxed)

/* Replaced files that are going to be loaded by another engine count only if they were overwritten:
 * the workers still have the old ones open. */
static bool is_changed(const struct chat_engine *engine)
{
    char name[CHECKPOINT_FILE_NAME_BYTES];
    return !engine->config.options->ignore_weight_changes &&
           checkpoint_watch_changed(engine->checkpoint, name) &&
           (engine->config.options->no_reload || checkpoint_watch_overwritten(engine->checkpoint));
}

bool engine_status_change_settled(const struct chat_engine *engine)
{
    return checkpoint_watch_settled(engine->checkpoint);
}

static bool has_worker(const struct chat_engine *engine)
{
    return !engine->draining && engine->assets &&
           worker_pool_find_ready(engine->workers) != ROUTING_NONE;
}

bool engine_status_is_serving(const struct chat_engine *engine)
{
    return has_worker(engine) && !is_changed(engine);
}

static const char *state_name(const struct chat_engine *engine)
{
    if (engine->draining)
        return "draining";
    if (has_worker(engine))
        return is_changed(engine) ? "weights_changed" : "ready";
    return engine->ready_told ? "restarting" : "loading";
}

static void add_worker(const struct chat_engine *engine, uint32_t worker,
                       struct engine_status *status)
{
    struct worker_status one;
    worker_pool_read_status(engine->workers, worker, &one);
    status->with_worker += one.requests;
    status->worker_restarts += one.restarts;
    status->worker_running += one.running;
    status->worker_waiting += one.waiting;
    status->kv_blocks_total += one.kv_blocks_total;
    status->kv_blocks_used += one.kv_blocks_used;
    status->slab_used_bytes += one.slab_used_bytes;
    struct worker_link *link = worker_pool_link(engine->workers, worker);
    if (!link)
        return;
    const struct worker_gauges *gauges = worker_link_gauges(link);
    worker_link_add_totals(link, &status->totals);
    uint64_t block_tokens =
        worker_gauge_bounded(GAUGE(gauges, kv_block_tokens), WORKER_GAUGE_ITEMS);
    uint64_t weights_bytes = worker_gauge_bounded(GAUGE(gauges, weights_bytes), WORKER_GAUGE_BYTES);
    status->state_bytes += worker_gauge_bounded(GAUGE(gauges, state_bytes), WORKER_GAUGE_BYTES);
    status->kv_blocks_cached +=
        worker_gauge_bounded(GAUGE(gauges, kv_blocks_cached), WORKER_GAUGE_ITEMS);
    status->prefix_places += worker_gauge_bounded(GAUGE(gauges, prefix_places), WORKER_GAUGE_ITEMS);
    status->images_cached += worker_gauge_bounded(GAUGE(gauges, images_cached), WORKER_GAUGE_ITEMS);
    status->feature_bytes_used +=
        worker_gauge_bounded(GAUGE(gauges, feature_bytes_used), WORKER_GAUGE_BYTES);
    status->feature_bytes_total +=
        worker_gauge_bounded(GAUGE(gauges, feature_bytes_total), WORKER_GAUGE_BYTES);
    status->prefix_cache |= GAUGE(gauges, prefix_cache) != 0;
    if (block_tokens > 0)
        status->kv_block_tokens = block_tokens;
    if (weights_bytes > status->weights_bytes)
        status->weights_bytes = weights_bytes; /* all workers share one copy */
}

void engine_status_read(const struct chat_engine *engine, struct engine_status *status)
{
    *status = (struct engine_status){
        .state = state_name(engine),
        .load_progress = worker_pool_load_progress(engine->workers),
        .live = request_table_live(engine->table),
        .preparing = request_table_count(engine->table, LIVE_REQUEST_PREPARING),
        .waiting = request_table_count(engine->table, LIVE_REQUEST_WAITING),
        .totals = engine->metrics.workers_gone};
    media_pool_read(engine->media, &status->media);
    status->checkpoint_changed = checkpoint_watch_changed(engine->checkpoint, status->changed_file);
    prepare_pool_read(engine->preparation, &status->preparation);
    if (engine->grammars)
        grammar_cache_count(engine->grammars, &status->grammars);
    for (uint32_t i = 0; i < worker_pool_count(engine->workers); i++)
        add_worker(engine, i, status);
}

uint32_t engine_status_workers(const struct chat_engine *engine)
{
    return worker_pool_count(engine->workers);
}

void engine_status_read_worker(const struct chat_engine *engine, uint32_t worker,
                               struct worker_status *status)
{
    worker_pool_read_status(engine->workers, worker, status);
}

bool engine_status_look(struct chat_engine *engine, uint32_t worker, struct step_trace_copy *trace)
{
    struct worker_link *link = worker_pool_link(engine->workers, worker);
    if (link)
        worker_link_look(link, trace);
    return link != NULL;
}

static const char *phase_name(const struct live_request *request)
{
    switch (request->state) {
    case LIVE_REQUEST_PREPARING: return "preparing";
    case LIVE_REQUEST_WAITING: return request->suspect ? "suspected" : "waiting";
    case LIVE_REQUEST_SUBMITTED: return request->prompt_done > 0 ? "prefill" : "handed_over";
    case LIVE_REQUEST_STREAMING: return "decode";
    case LIVE_REQUEST_LEAVING: return "leaving";
    default: return "admitted";
    }
}

bool engine_status_read_request(const struct chat_engine *engine, uint32_t slot,
                                struct request_status *status)
{
    const struct live_request *request = request_table_at(engine->table, slot);
    if (request->state == LIVE_REQUEST_FREE)
        return false;
    *status = (struct request_status){.id = request->id,
                                      .client_key = request->client_key,
                                      .name = request->sink ? live_request_name(request) : NULL,
                                      .phase = phase_name(request),
                                      .has_worker = live_request_is_with_worker(request),
                                      .worker = request->worker,
                                      .prompt_tokens = request->prepared.prompt.count,
                                      .prompt_done = request->prompt_done,
                                      .generated_tokens = request->generated.count,
                                      .max_new_tokens = request->prepared.max_new_tokens,
                                      .replays = request->replays,
                                      .arrived_us = request->timeline.arrived_us};
    return true;
}

uint32_t engine_status_slots(const struct chat_engine *engine)
{
    return request_table_slots(engine->table);
}

uint32_t engine_status_convictions(struct chat_engine *engine)
{
    return poison_memory_refresh(&engine->poison, monotonic_clock_ms());
}

const struct poison_conviction *engine_status_conviction(const struct chat_engine *engine,
                                                         uint32_t index)
{
    must(index < engine->poison.count);
    return &engine->poison.places[index];
}

const struct poison_conviction *engine_status_find_conviction(struct chat_engine *engine,
                                                              uint64_t id)
{
    return poison_memory_find(&engine->poison, id, monotonic_clock_ms());
}

const struct serve_metrics *engine_status_metrics(const struct chat_engine *engine)
{
    return &engine->metrics;
}
