/*
 * Gauges are read once each, relaxed, without waiting. No figure is lost between a worker's last
 * step and its death, because its segment is still mapped when its totals are added.
 *
 * A worker may be wrong or hostile. A counter that falls, or grows faster than any device could
 * make it, is not believed: its last plausible value stays, in the sums of the living and of the
 * dead, and the reading is counted. One table names each counter and the greatest growth in a
 * second.
 */
#include "frontend/serve/metrics/worker_totals.h"

#include <stdbool.h>
#include <stddef.h>

#define EVENTS_A_S  100000000u /* tokens, patches, lookups: a thousand times the fastest device */
#define STEP_US_A_S 8000000u   /* step times overlap, and are rounded */
#define BURST_S     1          /* of growth that needs no time: clocks and loops are read in turn */

#define COUNTER(gauge, total, growth_a_s)                                                          \
    {                                                                                              \
        offsetof(struct worker_gauges, gauge), offsetof(struct worker_totals, total), growth_a_s   \
    }
#define STEP_CLASS(i)                                                                              \
    {                                                                                              \
        offsetof(struct worker_gauges, step_tokens_classes) + (i) * sizeof(uint64_t),              \
            offsetof(struct worker_totals, step_tokens_classes) + (i) * sizeof(uint64_t),          \
            EVENTS_A_S                                                                             \
    }

static const struct {
    size_t gauge;
    size_t total;
    uint64_t growth_a_s;
} counters[WORKER_COUNTERS] = {
    COUNTER(steps, steps, EVENTS_A_S),
    COUNTER(step_time_total_us, step_time_us, STEP_US_A_S),
    COUNTER(prompt_tokens_total, prompt_tokens, EVENTS_A_S),
    COUNTER(generated_tokens_total, generated_tokens, EVENTS_A_S),
    COUNTER(preemptions_total, preemptions, EVENTS_A_S),
    COUNTER(rejected_records_total, rejected_records, EVENTS_A_S),
    COUNTER(prefix_queries_total, prefix_queries, EVENTS_A_S),
    COUNTER(prefix_query_tokens_total, prefix_query_tokens, EVENTS_A_S),
    COUNTER(prefix_hit_tokens_total, prefix_hit_tokens, EVENTS_A_S),
    COUNTER(prefix_evictions_total, prefix_evictions, EVENTS_A_S),
    COUNTER(prefix_resets_total, prefix_resets, EVENTS_A_S),
    COUNTER(image_hits_total, image_hits, EVENTS_A_S),
    COUNTER(image_misses_total, image_misses, EVENTS_A_S),
    COUNTER(image_evictions_total, image_evictions, EVENTS_A_S),
    COUNTER(patch_rows_total, patch_rows, EVENTS_A_S),
    COUNTER(grammars_total, grammars, EVENTS_A_S),
    COUNTER(grammar_masks_total, grammar_masks, EVENTS_A_S),
    COUNTER(grammar_mask_us_total, grammar_mask_us, STEP_US_A_S),
    COUNTER(grammar_failures_total, grammar_failures, EVENTS_A_S),
    STEP_CLASS(0),
    STEP_CLASS(1),
    STEP_CLASS(2),
    STEP_CLASS(3),
    STEP_CLASS(4),
    STEP_CLASS(5),
    STEP_CLASS(6),
    STEP_CLASS(7),
    STEP_CLASS(8),
    STEP_CLASS(9),
    STEP_CLASS(10),
    STEP_CLASS(11),
    STEP_CLASS(12),
    STEP_CLASS(13),
};
_Static_assert(WORKER_STEP_TOKENS_CLASSES == 14, "a row for each class");

void worker_counters_init(struct worker_counters *kept, int64_t now_us)
{
    *kept = (struct worker_counters){.read_us = now_us};
}

/* True if a counter can have grown by `growth` within `elapsed_us`. */
static bool is_plausible(uint64_t growth, uint64_t growth_a_s, int64_t elapsed_us)
{
    return (double)growth <= (double)growth_a_s * ((double)elapsed_us / 1e6 + BURST_S);
}

void worker_counters_read(struct worker_counters *kept, const struct worker_gauges *gauges,
                          int64_t now_us)
{
    for (size_t i = 0; i < WORKER_COUNTERS; i++) {
        const _Atomic uint64_t *gauge =
            (const void *)((const unsigned char *)gauges + counters[i].gauge);
        uint64_t value = atomic_load_explicit(gauge, memory_order_relaxed);
        if (value >= kept->values[i] &&
            is_plausible(value - kept->values[i], counters[i].growth_a_s, now_us - kept->read_us))
            kept->values[i] = value;
        else
            kept->implausible++;
    }
    kept->read_us = now_us;
}

void worker_totals_add(struct worker_totals *totals, const struct worker_counters *kept)
{
    for (size_t i = 0; i < WORKER_COUNTERS; i++)
        *(uint64_t *)(void *)((unsigned char *)totals + counters[i].total) += kept->values[i];
    totals->implausible += kept->implausible;
}

uint64_t worker_gauge_bounded(uint64_t value, uint64_t most)
{
    return value > most ? 0 : value;
}
