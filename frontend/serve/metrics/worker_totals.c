/*
 * Gauges are read once each, relaxed, without waiting. No figure is lost between a worker's last
 * step and its death, because its segment is still mapped when its totals are added.
 *
 * A worker's figures are not checked: wrong ones only affect graphs.
 */
#include "frontend/serve/metrics/worker_totals.h"

static uint64_t value(const _Atomic uint64_t *gauge)
{
    return atomic_load_explicit(gauge, memory_order_relaxed);
}

void worker_totals_add(struct worker_totals *totals, const struct worker_gauges *gauges)
{
    totals->steps += value(&gauges->steps);
    totals->step_time_us += value(&gauges->step_time_total_us);
    totals->prompt_tokens += value(&gauges->prompt_tokens_total);
    totals->generated_tokens += value(&gauges->generated_tokens_total);
    totals->preemptions += value(&gauges->preemptions_total);
    totals->rejected_records += value(&gauges->rejected_records_total);
    totals->prefix_queries += value(&gauges->prefix_queries_total);
    totals->prefix_query_tokens += value(&gauges->prefix_query_tokens_total);
    totals->prefix_hit_tokens += value(&gauges->prefix_hit_tokens_total);
    totals->prefix_evictions += value(&gauges->prefix_evictions_total);
    totals->prefix_resets += value(&gauges->prefix_resets_total);
    totals->image_hits += value(&gauges->image_hits_total);
    totals->image_misses += value(&gauges->image_misses_total);
    totals->image_evictions += value(&gauges->image_evictions_total);
    totals->patch_rows += value(&gauges->patch_rows_total);
    for (unsigned i = 0; i < WORKER_STEP_TOKENS_CLASSES; i++)
        totals->step_tokens_classes[i] += value(&gauges->step_tokens_classes[i]);
}
