/*
 * Several workers behind one queue.
 *
 * A worker takes somewhat more requests than it runs at once, so that it can begin the next one
 * without asking; everything beyond that waits in front of all workers, where it can still go to
 * whichever is free first. Among those with room the routing policy chooses by load and by the
 * longest prefix that a worker has seen (prefix_table.h); a worker that dies is forgotten there.
 *
 * One worker's end is the others' gain: its requests are told to the engine, which queues them
 * again. Only when every worker has failed for good has the pool failed.
 *
 * Refuses to know what a request is: it counts, and remembers which one is on trial.
 */
#include "frontend/serve/worker/worker_pool.h"

#include <stdlib.h>

#include "frontend/serve/settings/cache_folder.h"
#include "frontend/serve/worker/prefix_table.h"
#include "proto/log.h"
#include "proto/must.h"

#define AHEAD_SHARE    4u /* of what a worker runs at once: what it may have beyond that */
#define HOPELESS_TRIES 7u /* failed starts in a row: more than 6 s of backing off */

struct pool_worker {
    struct worker_pool *pool;
    uint32_t index;
    uint32_t requests;
    bool on_trial;
    struct request_id trial;
    uint32_t device_workers;       /* that share its device, itself with them */
    struct weight_holder *weights; /* the device's */
    struct worker_supervisor *supervisor;
    struct prefix_table *prefixes; /* NULL in a pool of one */
};

struct worker_pool {
    struct worker_pool_config config;
    struct keyed_hash_key key;
    char pipeline_cache[CACHE_FOLDER_BYTES];      /* "": none */
    struct weight_holder *holders[LIMIT_WORKERS]; /* one for each device */
    uint32_t holder_count;
    uint32_t count;
    uint32_t most; /* requests that one worker takes */
    uint32_t failed_count;
    uint32_t drained_count;
    uint64_t hashes[PREFIX_BLOCKS_MAX]; /* scratch: of the prompt in hand */
    struct pool_worker workers[LIMIT_WORKERS];
};

/* --- what supervisors say -------------------------------------------------------------------- */

static void on_ready(void *context)
{
    struct pool_worker *worker = context;
    worker->pool->config.ready(worker->pool->config.context, worker->index);
}

static void on_died(void *context)
{
    struct pool_worker *worker = context;
    worker->pool->config.died(worker->pool->config.context, worker->index);
    must(worker->requests == 0);
    worker->on_trial = false;
    if (worker->prefixes)
        prefix_table_clear(worker->prefixes);
}

static void on_failed(void *context, const char *why)
{
    struct pool_worker *worker = context;
    struct worker_pool *pool = worker->pool;
    log_error("worker %u cannot be started and is given up: %s", worker->index, why);
    if (++pool->failed_count == pool->count)
        pool->config.failed(pool->config.context, why);
}

static void on_drained(void *context)
{
    struct pool_worker *worker = context;
    struct worker_pool *pool = worker->pool;
    if (++pool->drained_count == pool->count)
        pool->config.drained(pool->config.context);
}

static enum result on_event(void *context, const struct token_event *event)
{
    struct pool_worker *worker = context;
    return worker->pool->config.event(worker->pool->config.context, worker->index, event);
}

static void on_batch_end(void *context)
{
    struct pool_worker *worker = context;
    worker->pool->config.batch_end(worker->pool->config.context);
}

/* --- life ------------------------------------------------------------------------------------ */

/* Workers of one device share its vault: their weights are there once. */
static void devices_share(struct worker_pool *pool)
{
    const struct options *options = pool->config.options;
    bool vulkan = false;
    for (uint32_t i = 0; i < options->workers; i++) {
        struct pool_worker *worker = &pool->workers[i];
        struct device_name device = options_device(options, i);
        vulkan = vulkan || device.kind == DEVICE_VULKAN;
        for (uint32_t other = 0; other < options->workers; other++) {
            if (!device_name_equal(device, options_device(options, other)))
                continue;
            worker->device_workers++;
            if (other < i)
                worker->weights = pool->workers[other].weights;
        }
        if (!worker->weights)
            worker->weights = pool->holders[pool->holder_count++] =
                weight_holder_create(device.kind);
    }
    if (vulkan)
        cache_folder_find(options->pipeline_cache, pool->pipeline_cache);
}

static enum result worker_begin(struct worker_pool *pool, uint32_t index, struct error_text *error)
{
    struct pool_worker *worker = &pool->workers[index];
    worker->pool = pool;
    worker->index = index;
    if (pool->config.options->workers > 1)
        worker->prefixes = prefix_table_create();
    struct worker_supervisor_config supervision = {
        .base = pool->config.base,
        .options = pool->config.options,
        .weights = worker->weights,
        .device_workers = worker->device_workers,
        .pipeline_cache = pool->pipeline_cache[0] ? pool->pipeline_cache : NULL,
        .index = index,
        .live_requests = pool->config.live_requests,
        .context = worker,
        .ready = on_ready,
        .died = on_died,
        .failed = on_failed,
        .drained = on_drained,
        .event = on_event,
        .batch_end = on_batch_end};
    return worker_supervisor_create(&supervision, &worker->supervisor, error);
}

enum result worker_pool_create(const struct worker_pool_config *config, struct worker_pool **pool,
                               struct error_text *error)
{
    const struct options *options = config->options;
    must(options->workers > 0 && options->workers <= LIMIT_WORKERS);
    struct worker_pool *made = must_alloc(1, sizeof *made);
    made->config = *config;
    made->key = keyed_hash_random_key();
    made->most = (uint32_t)options->max_sequences;
    made->most += made->most / AHEAD_SHARE + 1;
    devices_share(made);
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < options->workers && result == RESULT_OK; i++) {
        made->count++;
        result = worker_begin(made, i, error);
    }
    if (result != RESULT_OK) {
        worker_pool_destroy(made);
        return result;
    }
    *pool = made;
    return RESULT_OK;
}

void worker_pool_destroy(struct worker_pool *pool)
{
    if (!pool)
        return;
    for (uint32_t i = 0; i < pool->count; i++) {
        worker_supervisor_destroy(pool->workers[i].supervisor);
        prefix_table_destroy(pool->workers[i].prefixes);
    }
    for (uint32_t i = 0; i < pool->holder_count; i++)
        weight_holder_destroy(pool->holders[i]);
    free(pool);
}

void worker_pool_condemn(struct worker_pool *pool, uint32_t worker, const char *why)
{
    must(worker < pool->count);
    worker_supervisor_condemn(pool->workers[worker].supervisor, why);
}

void worker_pool_drain(struct worker_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++)
        worker_supervisor_drain(pool->workers[i].supervisor);
}

/* --- who can do what ------------------------------------------------------------------------- */

uint32_t worker_pool_count(const struct worker_pool *pool)
{
    return pool->count;
}

struct worker_link *worker_pool_link(const struct worker_pool *pool, uint32_t worker)
{
    must(worker < pool->count);
    return worker_supervisor_link(pool->workers[worker].supervisor);
}

static bool is_ready(const struct worker_pool *pool, uint32_t index)
{
    return worker_supervisor_state(pool->workers[index].supervisor) == SUPERVISOR_READY;
}

uint32_t worker_pool_reset_caches(struct worker_pool *pool)
{
    uint32_t asked = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        if (!is_ready(pool, i))
            continue;
        if (worker_link_reset_cache(worker_pool_link(pool, i)) != RESULT_OK)
            worker_pool_condemn(pool, i, "its submit ring is full");
        asked++;
    }
    return asked;
}

uint32_t worker_pool_find_ready(const struct worker_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        if (is_ready(pool, i))
            return i;
    }
    return ROUTING_NONE;
}

bool worker_pool_is_usable(const struct worker_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        if (is_ready(pool, i) || worker_supervisor_is_resuming(pool->workers[i].supervisor))
            return true;
    }
    return false;
}

bool worker_pool_is_hopeless(const struct worker_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct worker_supervisor *supervisor = pool->workers[i].supervisor;
        if (worker_supervisor_state(supervisor) != SUPERVISOR_STOPPED &&
            worker_supervisor_failed_starts(supervisor) < HOPELESS_TRIES)
            return false;
    }
    return true;
}

double worker_pool_load_progress(const struct worker_pool *pool)
{
    double farthest = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        double progress = worker_supervisor_load_progress(pool->workers[i].supervisor);
        farthest = progress > farthest ? progress : farthest;
    }
    return farthest;
}

/* --- routing --------------------------------------------------------------------------------- */

static bool is_open(const struct worker_pool *pool, uint32_t index, uint32_t closed)
{
    return is_ready(pool, index) && !pool->workers[index].on_trial && !(closed >> index & 1);
}

/* The bit of the least busy open worker, or 0 when a trial is running anyway. */
static uint32_t reserved_bit(const struct worker_pool *pool, uint32_t closed)
{
    uint32_t least = ROUTING_NONE;
    for (uint32_t i = 0; i < pool->count; i++) {
        if (pool->workers[i].on_trial)
            return 0;
        if (is_open(pool, i, closed) &&
            (least == ROUTING_NONE || pool->workers[i].requests < pool->workers[least].requests))
            least = i;
    }
    return least == ROUTING_NONE ? 0 : 1u << least;
}

uint32_t worker_pool_route(struct worker_pool *pool, const struct token_list *prompt,
                           uint32_t closed, bool reserve)
{
    struct routing_candidate candidates[LIMIT_WORKERS];
    if (reserve)
        closed |= reserved_bit(pool, closed);
    uint32_t blocks = 0;
    if (pool->count > 1)
        blocks = prefix_blocks_hash(&pool->key, prompt->ids, prompt->count, pool->hashes);
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct pool_worker *worker = &pool->workers[i];
        candidates[i] =
            (struct routing_candidate){.open = is_open(pool, i, closed), .load = worker->requests};
        if (candidates[i].open && worker->prefixes)
            candidates[i].shared_blocks =
                prefix_table_shared(worker->prefixes, pool->hashes, blocks);
    }
    return routing_policy_choose(candidates, pool->count, pool->most);
}

uint32_t worker_pool_find_empty(const struct worker_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        if (is_open(pool, i, 0) && pool->workers[i].requests == 0)
            return i;
    }
    return ROUTING_NONE;
}

/* --- what a worker has ----------------------------------------------------------------------- */

void worker_pool_note_submit(struct worker_pool *pool, uint32_t worker,
                             const struct token_list *prompt)
{
    must(worker < pool->count);
    struct pool_worker *entry = &pool->workers[worker];
    entry->requests++;
    worker_supervisor_expect_work(entry->supervisor, true);
    if (!entry->prefixes)
        return;
    uint32_t blocks = prefix_blocks_hash(&pool->key, prompt->ids, prompt->count, pool->hashes);
    prefix_table_add(entry->prefixes, pool->hashes, blocks);
}

void worker_pool_note_token(struct worker_pool *pool, uint32_t worker)
{
    must(worker < pool->count);
    worker_supervisor_note_progress(pool->workers[worker].supervisor);
}

void worker_pool_note_done(struct worker_pool *pool, uint32_t worker, struct request_id request)
{
    must(worker < pool->count && pool->workers[worker].requests > 0);
    struct pool_worker *entry = &pool->workers[worker];
    entry->requests--;
    worker_supervisor_expect_work(entry->supervisor, entry->requests > 0);
    if (entry->on_trial && entry->trial.slot == request.slot &&
        entry->trial.generation == request.generation)
        entry->on_trial = false;
}

void worker_pool_begin_trial(struct worker_pool *pool, uint32_t worker, struct request_id request)
{
    must(worker < pool->count && pool->workers[worker].requests == 1);
    pool->workers[worker].on_trial = true;
    pool->workers[worker].trial = request;
}

void worker_pool_end_trial(struct worker_pool *pool, uint32_t worker)
{
    must(worker < pool->count);
    pool->workers[worker].on_trial = false;
}

bool worker_pool_trial(const struct worker_pool *pool, uint32_t worker, struct request_id *request)
{
    must(worker < pool->count);
    *request = pool->workers[worker].trial;
    return pool->workers[worker].on_trial;
}

/* --- figures --------------------------------------------------------------------------------- */

void worker_pool_read_status(const struct worker_pool *pool, uint32_t worker,
                             struct worker_status *status)
{
    must(worker < pool->count);
    const struct pool_worker *entry = &pool->workers[worker];
    worker_supervisor_read_status(entry->supervisor, status);
    status->requests = entry->requests;
    if (entry->on_trial)
        status->state = "on_trial";
}
