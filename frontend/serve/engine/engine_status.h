/*
 * Figures of the engine for operators and metrics, from gauges and counts only.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_ENGINE_STATUS_H
#define SHOAL_FRONTEND_SERVE_ENGINE_ENGINE_STATUS_H

#include "frontend/base/client_key.h"
#include "frontend/grammar/grammar_cache.h"
#include "frontend/media/media_pool.h"
#include "frontend/serve/engine/checkpoint_watch.h"
#include "frontend/serve/engine/poison_memory.h"
#include "frontend/serve/engine/prepare_pool.h"
#include "frontend/serve/metrics/serve_metrics.h"
#include "frontend/serve/metrics/worker_totals.h"
#include "frontend/serve/worker/worker_supervisor.h"
#include "proto/step_trace.h"

struct chat_engine;

struct engine_status {
    const char *state; /* "loading", "ready", "weights_changed", "restarting", "draining" */
    bool checkpoint_changed;
    char changed_file[CHECKPOINT_FILE_NAME_BYTES];
    double load_progress;
    uint32_t live;
    uint32_t preparing;
    uint32_t waiting; /* for room in the slab */
    uint32_t with_worker;
    uint32_t worker_running;
    uint32_t worker_waiting;
    uint64_t kv_block_tokens; /* 0 until a worker is ready */
    uint64_t kv_blocks_total;
    uint64_t kv_blocks_used;
    uint64_t kv_blocks_cached; /* in the prefix cache and used by no sequence */
    uint64_t prefix_places;
    bool prefix_cache;      /* enabled */
    uint64_t images_cached; /* with features in a worker */
    uint64_t feature_bytes_used;
    uint64_t feature_bytes_total;
    uint64_t state_bytes; /* recurrent state of all workers */
    uint64_t weights_bytes;
    uint64_t slab_used_bytes;
    uint32_t worker_restarts;
    struct media_figures media;
    struct prepare_figures preparation;
    struct grammar_cache_counts grammars; /* compiled ones, cached */
    struct worker_totals totals;          /* of all workers since the start */
};
void engine_status_read(const struct chat_engine *engine, struct engine_status *status);
/* True if a worker is ready, requests are admitted, and the checkpoint is unchanged (unless
 * --ignore-weight-changes), or only replaced by one that is loaded next (unless --no-reload). */
bool engine_status_is_serving(const struct chat_engine *engine);
/* True if the checkpoint's files are others than the opened ones and complete, as far as can be seen. */
bool engine_status_change_settled(const struct chat_engine *engine);

uint32_t engine_status_workers(const struct chat_engine *engine);
/* `worker` < engine_status_workers(). */
void engine_status_read_worker(const struct chat_engine *engine, uint32_t worker,
                               struct worker_status *status);
/* Copies the worker's trace and asks it for a new map of its KV cache. False: it has no process. */
bool engine_status_look(struct chat_engine *engine, uint32_t worker, struct step_trace_copy *trace);

struct request_status {
    struct request_id id;
    struct client_key client_key;
    const char *name;  /* its name in the log; NULL if its client is gone */
    const char *phase; /* "preparing", "waiting", "suspected", "handed_over", "prefill", "decode",
                          "leaving" */
    bool has_worker;
    uint32_t worker;
    uint64_t prompt_tokens;
    uint64_t prompt_done; /* of the prompt and, after a replay, of the generated tokens */
    uint64_t generated_tokens;
    uint64_t max_new_tokens; /* 0 until it is prepared */
    uint32_t replays;
    int64_t arrived_us;
};
uint32_t engine_status_slots(const struct chat_engine *engine);
/* `slot` < engine_status_slots(). False if it is free. */
bool engine_status_read_request(const struct chat_engine *engine, uint32_t slot,
                                struct request_status *status);

/* Number of convictions; expired ones are removed first. */
uint32_t engine_status_convictions(struct chat_engine *engine);
/* `index` < engine_status_convictions(). */
const struct poison_conviction *engine_status_conviction(const struct chat_engine *engine,
                                                         uint32_t index);
/* NULL if there is none with this id. */
const struct poison_conviction *engine_status_find_conviction(struct chat_engine *engine,
                                                              uint64_t id);

const struct serve_metrics *engine_status_metrics(const struct chat_engine *engine);

#endif
