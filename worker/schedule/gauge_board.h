/*
 * Writes struct worker_gauges, whose only writer is this worker. Stores are relaxed, except that
 * the state is a release store after the texts and sizes that it announces.
 */
#ifndef SHOAL_WORKER_SCHEDULE_GAUGE_BOARD_H
#define SHOAL_WORKER_SCHEDULE_GAUGE_BOARD_H

#include <stdbool.h>

#include "proto/worker_gauges.h"
#include "worker/backend/host/backend.h"
#include "worker/cache/feature_cache.h"

void gauge_board_set_state(struct worker_gauges *gauges, enum worker_state state);
/* Writes the text, then the state FAILED. */
/* The reason why an adapter was refused, before its event. */
void gauge_board_set_refusal(struct worker_gauges *gauges, const char *words);
void gauge_board_fail(struct worker_gauges *gauges, const char *words);
void gauge_board_beat(struct worker_gauges *gauges);
void gauge_board_set_load(struct worker_gauges *gauges, uint64_t done_bytes, uint64_t total_bytes);

/* Before gauge_board_set_ready(). */
void gauge_board_set_device(struct worker_gauges *gauges, uint32_t index,
                            const struct backend_share *share);

struct gauge_ready {
    uint32_t vocab_tokens;
    uint32_t context_tokens;
    uint32_t max_sequences;
    uint64_t kv_blocks_total;
    uint32_t kv_block_tokens;
    uint64_t state_bytes;
    uint64_t weights_bytes;
    enum worker_weights weights;
    bool prefix_cache;
    bool on_gpu;
    const char *backend;
};
/* Writes all fields, then the state READY. */
void gauge_board_set_ready(struct worker_gauges *gauges, const struct gauge_ready *ready);

struct gauge_load {
    uint32_t running_sequences;
    uint32_t waiting_sequences;
    uint64_t kv_blocks_used;
    uint64_t kv_blocks_cached;
    uint64_t prefix_places;
    uint64_t prefix_evictions;
};
void gauge_board_set_sequences(struct worker_gauges *gauges, const struct gauge_load *load);

struct gauge_step {
    uint32_t prompt_rows;
    uint32_t generated_tokens;
    uint64_t step_time_us;
};
/* Adds one finished step to the totals. */
void gauge_board_add_step(struct worker_gauges *gauges, const struct gauge_step *step);
void gauge_board_add_preemption(struct worker_gauges *gauges);
/* Counts a sequence of `tokens` that starts, with `hits` tokens found in the prefix cache. */
void gauge_board_add_lookup(struct worker_gauges *gauges, uint32_t tokens, uint32_t hits);
/* Counts a request with a grammar; masks computed together; a request that fails by its grammar. */
void gauge_board_add_grammar(struct worker_gauges *gauges);
void gauge_board_add_masks(struct worker_gauges *gauges, uint32_t masks, uint64_t time_us);
void gauge_board_add_grammar_failure(struct worker_gauges *gauges);
void gauge_board_add_reset(struct worker_gauges *gauges);
/* Counts a sequence's use of an image: whether its features were in the cache. */
void gauge_board_add_image(struct worker_gauges *gauges, bool is_hit);
void gauge_board_add_patches(struct worker_gauges *gauges, uint32_t patch_rows);
void gauge_board_set_features(struct worker_gauges *gauges,
                              const struct feature_cache_figures *figures, uint32_t row_bytes);

#endif
