/*
 * Several workers with one queue.
 *
 * A worker accepts somewhat more requests than it runs at once, so that it can begin the next one
 * without asking; all others wait in the common queue, where the first free worker takes them.
 * Among workers with room the routing policy chooses by load and by the longest prefix that a
 * worker has seen (prefix_table.h); a dead worker's prefixes are removed
 * unless its KV cache survives.
 *
 * If a worker dies, the engine queues its requests again for the others. The pool has failed only
 * when every worker has failed for good.
 *
 * The pool does not know what a request is: it counts them, and remembers which one is on trial.
 */
#include "frontend/serve/worker/worker_pool.h"

#include <stdlib.h>

#include "frontend/serve/settings/cache_folder.h"
#include "frontend/serve/worker/prefix_table.h"
#include "proto/log.h"
#include "proto/must.h"

#define AHEAD_SHARE 4u /* share of a worker's sequences that it may hold in addition */

struct pool_worker {
    struct worker_pool *pool;
    uint32_t index;
    uint32_t requests;
    bool on_trial;
    struct request_id trial;
    uint32_t device_workers;        /* number that share its device, itself included */
    struct vault_holder *weights;   /* the device's */
    struct vault_holder *kv_memory; /* its own; NULL: none, like the next */
    struct vault_holder *kv_device;
    struct worker_supervisor *supervisor;
    struct prefix_table *prefixes; /* NULL in a pool of one */
};

struct worker_pool {
    struct worker_pool_config config;
    struct keyed_hash_key key;
    char pipeline_cache[CACHE_FOLDER_BYTES];     /* "": none */
    struct vault_holder *holders[LIMIT_WORKERS]; /* one for each device */
    uint32_t holder_count;
    uint32_t count;
    uint32_t failed_count;
    uint32_t drained_count;
    uint64_t hashes[PREFIX_BLOCKS_MAX]; /* scratch: of the current prompt */
    struct pool_worker workers[LIMIT_WORKERS];
};

/* --- callbacks of supervisors ---------------------------------------------------------------- */

static void on_died(void *context, enum death_cause cause)
{
    struct pool_worker *worker = context;
    worker->pool->config.died(worker->pool->config.listener.context, worker->index, cause);
    must(worker->requests == 0);
    worker->on_trial = false;
    if (worker->prefixes && !worker->kv_memory)
        prefix_table_clear(worker->prefixes);
}

static void on_failed(void *context, const char *why)
{
    struct pool_worker *worker = context;
    struct worker_pool *pool = worker->pool;
    log_error("worker %u cannot be started and is given up: %s", worker->index, why);
    if (++pool->failed_count == pool->count)
        pool->config.failed(pool->config.owner, why);
}

static void on_drained(void *context)
{
    struct pool_worker *worker = context;
    struct worker_pool *pool = worker->pool;
    if (++pool->drained_count == pool->count)
        pool->config.drained(pool->config.owner);
}

/* --- life ------------------------------------------------------------------------------------ */

/* Workers of one device share its vault: their weights are there once. */
static void devices_share(struct worker_pool *pool)
{
    const struct options *options = pool->config.options;
    bool vulkan = false;
    for (uint32_t i = 0; i < options->workers; i++) {
        struct pool_worker *worker = &pool->workers[i];
        const struct device_set *devices = options_device(options, i);
        vulkan = vulkan || device_set_kind(devices) == DEVICE_VULKAN;
        for (uint32_t other = 0; other < options->workers; other++) {
            worker->device_workers += device_set_overlap(devices, options_device(options, other));
            if (other < i && device_set_equal(devices, options_device(options, other)))
                worker->weights = pool->workers[other].weights;
        }
        if (!worker->weights)
            worker->weights = pool->holders[pool->holder_count++] =
                vault_holder_create(device_set_kind(devices), "shoal-weights");
    }
    if (vulkan)
        cache_folder_find(options->pipeline_cache, pool->pipeline_cache);
}

/* The KV cache of each worker outlives it in vaults of its own. */
static void kv_vaults_open(struct pool_worker *worker, const struct options *options)
{
    const struct device_set *devices = options_device(options, worker->index);
    if (!options->kv_survives)
        return;
    if (devices->count > 1) {
        log_info("worker %u: its KV cache ends with it, as its layers are split over devices",
                 worker->index);
        return;
    }
    worker->kv_memory = vault_holder_create(DEVICE_CPU, "shoal-kv");
    enum device_kind kind = device_set_kind(devices);
    if (kind != DEVICE_CPU)
        worker->kv_device = vault_holder_create(kind, "shoal-kv");
}

/* Prefix caches are saved by workers whose KV cache is kept. */
static struct prefix_files prefix_files_of(const struct worker_pool *pool,
                                           const struct pool_worker *worker)
{
    const struct options *options = pool->config.options;
    bool saves = worker->kv_memory && options->prefix_cache > 0 && options->prefix_cache_bytes > 0;
    return (struct prefix_files){.directory = saves ? pool->config.state_directory : -1,
                                 .most_bytes = options->prefix_cache_bytes};
}

static enum result worker_begin(struct worker_pool *pool, uint32_t index, struct error_text *error)
{
    struct pool_worker *worker = &pool->workers[index];
    worker->pool = pool;
    worker->index = index;
    kv_vaults_open(worker, pool->config.options);
    if (pool->config.options->workers > 1)
        worker->prefixes = prefix_table_create();
    struct worker_supervisor_config supervision = {
        .worker = {.base = pool->config.base,
                   .options = pool->config.options,
                   .weights = worker->weights,
                   .kv_memory = worker->kv_memory,
                   .kv_device = worker->kv_device,
                   .adapter_memory = pool->config.adapter_memory,
                   .device_workers = worker->device_workers,
                   .pipeline_cache = pool->pipeline_cache[0] ? pool->pipeline_cache : NULL,
                   .checkpoint_files = pool->config.checkpoint_files,
                   .checkpoint_opened = pool->config.checkpoint_opened,
                   .index = index,
                   .live_requests = pool->config.live_requests},
        .prefix_files = prefix_files_of(pool, worker),
        .can_stand_by = worker->kv_memory && pool->config.options->prefix_cache > 0,
        .listener = pool->config.listener,
        .context = worker,
        .died = on_died,
        .failed = on_failed,
        .drained = on_drained};
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
        vault_holder_destroy(pool->workers[i].kv_memory);
        vault_holder_destroy(pool->workers[i].kv_device);
    }
    for (uint32_t i = 0; i < pool->holder_count; i++)
        vault_holder_destroy(pool->holders[i]);
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

/* --- state ----------------------------------------------------------------------------------- */

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

static bool cache_reset(struct pool_worker *worker)
{
    if (worker->prefixes)
        prefix_table_clear(worker->prefixes);
    return worker_supervisor_reset_cache(worker->supervisor);
}

void worker_pool_reset_cache(struct worker_pool *pool, uint32_t worker)
{
    must(worker < pool->count);
    log_info("worker %u: its KV cache is dropped, because requests that used it crashed", worker);
    (void)cache_reset(&pool->workers[worker]);
}

bool worker_pool_read_adapter(struct worker_pool *pool, uint32_t worker, struct adapter_id adapter)
{
    return worker_supervisor_read_adapter(pool->workers[worker].supervisor, adapter);
}

uint32_t worker_pool_reset_caches(struct worker_pool *pool)
{
    uint32_t asked = 0;
    prefix_files_remove(&(struct prefix_files){.directory = pool->config.state_directory});
    for (uint32_t i = 0; i < pool->count; i++)
        asked += cache_reset(&pool->workers[i]);
    return asked;
}

void worker_pool_end_saving(struct worker_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++)
        worker_supervisor_end_saving(pool->workers[i].supervisor);
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
        if (!worker_supervisor_is_hopeless(pool->workers[i].supervisor))
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

bool worker_pool_is_open(const struct worker_pool *pool, uint32_t worker)
{
    must(worker < pool->count);
    return is_open(pool, worker, 0);
}

bool worker_pool_is_resuming_with_cache(const struct worker_pool *pool, uint32_t worker)
{
    must(worker < pool->count);
    return pool->count > 1 && pool->config.options->prefix_cache > 0 &&
           worker_supervisor_is_resuming_with_cache(pool->workers[worker].supervisor);
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

/* Requests that one worker accepts, by the largest number of sequences of a ready one. */
static uint32_t most_requests(const struct worker_pool *pool)
{
    uint32_t limit = options_sequences_limit(pool->config.options), sequences = 1;
    for (uint32_t i = 0; i < pool->count; i++) {
        if (!is_ready(pool, i))
            continue;
        const struct worker_gauges *gauges = worker_link_gauges(worker_pool_link(pool, i));
        uint32_t own = atomic_load_explicit(&gauges->max_sequences, memory_order_relaxed);
        sequences = own > sequences ? own : sequences;
    }
    sequences = sequences < limit ? sequences : limit;
    return sequences + sequences / AHEAD_SHARE + 1;
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
    return routing_policy_choose(candidates, pool->count, most_requests(pool));
}

uint32_t worker_pool_find_empty(const struct worker_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        if (is_open(pool, i, 0) && pool->workers[i].requests == 0)
            return i;
    }
    return ROUTING_NONE;
}

/* --- requests of a worker -------------------------------------------------------------------- */

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
