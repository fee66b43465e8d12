/*
 * What workers have counted, over all the workers that there have been. A worker's own totals begin
 * at nothing when it starts; these never go back.
 */
#ifndef SHOAL_FRONTEND_SERVE_METRICS_WORKER_TOTALS_H
#define SHOAL_FRONTEND_SERVE_METRICS_WORKER_TOTALS_H

#include "proto/worker_gauges.h"

struct worker_totals {
    uint64_t steps;
    uint64_t step_time_us;
    uint64_t prompt_tokens; /* computed, so with those computed again after a preemption or death */
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

/* Adds what one worker's gauges show. To be called once for each worker that has died, on totals
 * that are kept, and for each that lives, on a copy of them that is shown. */
void worker_totals_add(struct worker_totals *totals, const struct worker_gauges *gauges);

#endif
