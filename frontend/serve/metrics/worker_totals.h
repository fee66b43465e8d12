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
    uint64_t step_tokens_classes[WORKER_STEP_TOKENS_CLASSES];
};

/* Adds one worker's gauges. Called once for each worker that died, on the kept totals, and for each
 * living worker, on a copy. */
void worker_totals_add(struct worker_totals *totals, const struct worker_gauges *gauges);

#endif
