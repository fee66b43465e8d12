/*
 * Counters of all workers since the server's start. A worker's own totals start at 0; these never
 * decrease.
 */
#ifndef SHOAL_FRONTEND_SERVE_METRICS_WORKER_TOTALS_H
#define SHOAL_FRONTEND_SERVE_METRICS_WORKER_TOTALS_H

#include "proto/worker_gauges.h"

struct worker_totals {
    uint64_t steps;
    uint64_t step_time_us;
    uint64_t prompt_tokens; /* computed, with those computed again after a preemption or crash */
    uint64_t generated_tokens;
    uint64_t preemptions;
    uint64_t rejected_records;
    uint64_t prefix_queries;
    uint64_t prefix_query_tokens;
    uint64_t prefix_hit_tokens;
    uint64_t prefix_evictions;
    uint64_t prefix_resets;
    uint64_t image_hits;
    uint64_t image_misses;
    uint64_t image_evictions;
    uint64_t patch_rows;
    uint64_t grammars;
    uint64_t grammar_masks;
    uint64_t grammar_mask_us;
    uint64_t grammar_failures;
    uint64_t step_tokens_classes[WORKER_STEP_TOKENS_CLASSES];
    uint64_t implausible; /* readings of a counter that were not believed */
};

#define WORKER_COUNTERS (19u + WORKER_STEP_TOKENS_CLASSES)

/* The last plausible values of one worker process's counters. */
struct worker_counters {
    int64_t read_us; /* of the last reading, at first the start of the process */
    uint64_t values[WORKER_COUNTERS];
    uint64_t implausible;
};
void worker_counters_init(struct worker_counters *kept, int64_t now_us);
/* Takes each counter over unless it fell or grew more than the time since the last reading allows. */
void worker_counters_read(struct worker_counters *kept, const struct worker_gauges *gauges,
                          int64_t now_us);

/* Adds one worker's counters. Called once for each worker that died, on the kept totals, and for
 * each living worker, on a copy. */
void worker_totals_add(struct worker_totals *totals, const struct worker_counters *kept);

/* More than any worker can have: sequences, blocks or images, bytes. */
#define WORKER_GAUGE_SEQUENCES (1u << 20)
#define WORKER_GAUGE_ITEMS     UINT32_MAX
#define WORKER_GAUGE_BYTES     (1ull << 48)
/* A gauge that a worker set; 0 if it is more than it can be. */
uint64_t worker_gauge_bounded(uint64_t value, uint64_t most);

#endif
