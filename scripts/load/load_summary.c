/*
 * The definitions are those of `vllm bench serve`, so that figures can be compared:
 *
 *   TTFT  start to first text                     E2EL  start to end
 *   TPOT  (E2EL - TTFT) / (output tokens - 1), a number per request with more than one token
 *   ITL   every gap between pieces of text, of all requests together
 *
 * Only completed requests count in latencies, tokens and throughput. A request counts for goodput
 * if it meets every objective; one with a single token has a TPOT of 0. The maximum concurrency is
 * exact over half-open intervals: an end comes before a start at the same moment.
 */
#include "scripts/load/load_summary.h"

#include <stdlib.h>

#include "proto/must.h"
#include "scripts/load/sample_list.h"

static double first_ms(const struct load_record *record)
{
    /* For an answer without text the end counts as the first text. */
    return (double)(record->first_us ? record->first_us : record->latency_us) / 1e3;
}

static double per_token_ms(const struct load_record *record)
{
    if (record->output_tokens < 2)
        return 0;
    return ((double)record->latency_us / 1e3 - first_ms(record)) / (record->output_tokens - 1);
}

static bool is_good(const struct load_record *record, const struct load_options *options)
{
    const double figures[LOAD_SLO_COUNT] = {[LOAD_SLO_TTFT] = first_ms(record),
                                            [LOAD_SLO_TPOT] = per_token_ms(record),
                                            [LOAD_SLO_E2EL] = (double)record->latency_us / 1e3};
    for (size_t i = 0; i < LOAD_SLO_COUNT; i++) {
        if (options->slo_ms[i] >= 0 && figures[i] > options->slo_ms[i])
            return false;
    }
    return true;
}

static bool has_objectives(const struct load_options *options)
{
    for (size_t i = 0; i < LOAD_SLO_COUNT; i++) {
        if (options->slo_ms[i] >= 0)
            return true;
    }
    return false;
}

static void take_samples(const struct load_record *record, struct sample_list *lists)
{
    if (record->first_us)
        sample_list_add(&lists[LOAD_TTFT], first_ms(record));
    if (record->output_tokens > 1)
        sample_list_add(&lists[LOAD_TPOT], per_token_ms(record));
    for (uint32_t i = 0; i < record->gap_count; i++)
        sample_list_add(&lists[LOAD_ITL], record->gaps_us[i] / 1e3);
    sample_list_add(&lists[LOAD_E2EL], (double)record->latency_us / 1e3);
}

static void figures_compute(struct sample_list *list, const struct load_options *options,
                            struct load_figures *figures)
{
    sample_list_sort(list);
    figures->mean = sample_list_mean(list);
    figures->std = sample_list_deviation(list);
    figures->median = sample_list_percentile(list, 50);
    for (uint32_t i = 0; i < options->percentile_count; i++)
        figures->percentiles[i] = sample_list_percentile(list, options->percentiles[i]);
}

static uint64_t most_at_once(const struct load_record *records, size_t count)
{
    struct sample_list starts = {0};
    struct sample_list ends = {0};
    for (size_t i = 0; i < count; i++) {
        if (records[i].outcome != LOAD_COMPLETED)
            continue;
        sample_list_add(&starts, (double)records[i].start_us);
        sample_list_add(&ends, (double)(records[i].start_us + records[i].latency_us));
    }
    sample_list_sort(&starts);
    sample_list_sort(&ends);
    size_t most = 0;
    size_t ended = 0;
    for (size_t started = 0; started < starts.count; started++) {
        while (ends.values[ended] <= starts.values[started])
            ended++;
        if (started + 1 - ended > most)
            most = started + 1 - ended;
    }
    sample_list_fini(&starts);
    sample_list_fini(&ends);
    return most;
}

/* The maximum number of pieces of text in one second, in seconds counted from the first start. */
static double fullest_second(const struct load_record *records, size_t count, double duration_s)
{
    size_t seconds = (size_t)duration_s + 2;
    uint32_t *pieces = must_alloc(seconds, sizeof pieces[0]);
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        const struct load_record *record = &records[i];
        if (record->outcome != LOAD_COMPLETED || !record->first_us)
            continue;
        int64_t at_us = record->start_us + record->first_us;
        for (uint32_t gap = 0;; gap++) {
            size_t second = (size_t)(at_us / 1000000);
            if (second < seconds && ++pieces[second] > most)
                most = pieces[second];
            if (gap == record->gap_count)
                break;
            at_us += record->gaps_us[gap];
        }
    }
    free(pieces);
    return most;
}

static void count_record(const struct load_record *record, struct load_summary *summary)
{
    summary->outcomes[record->outcome]++;
    if ((double)record->late_us / 1e3 > summary->max_late_ms)
        summary->max_late_ms = (double)record->late_us / 1e3;
    if (load_outcome_is_failure(record->outcome)) {
        summary->failed++;
        if (record->status > 0 && record->status < LOAD_STATUS_MAX)
            summary->statuses[record->status]++;
    }
    if (record->outcome == LOAD_COMPLETED) {
        summary->without_usage += !record->has_usage;
        summary->total_input_tokens += record->input_tokens;
        summary->total_output_tokens += record->output_tokens;
    }
}

void load_summary_compute(const struct load_record *records, size_t count, double duration_s,
                          const struct load_options *options, struct load_summary *summary)
{
    *summary = (struct load_summary){.duration_s = duration_s};
    struct sample_list lists[LOAD_METRIC_COUNT] = {0};
    uint64_t good = 0;
    for (size_t i = 0; i < count; i++) {
        count_record(&records[i], summary);
        if (records[i].outcome != LOAD_COMPLETED)
            continue;
        take_samples(&records[i], lists);
        good += is_good(&records[i], options);
    }
    for (size_t i = 0; i < LOAD_METRIC_COUNT; i++) {
        figures_compute(&lists[i], options, &summary->metrics[i]);
        sample_list_fini(&lists[i]);
    }
    double per_s = duration_s > 0 ? 1 / duration_s : 0;
    double output = (double)summary->total_output_tokens;
    summary->request_throughput = (double)summary->outcomes[LOAD_COMPLETED] * per_s;
    summary->request_goodput = has_objectives(options) ? (double)good * per_s : -1;
    summary->output_throughput = output * per_s;
    summary->total_token_throughput = (output + (double)summary->total_input_tokens) * per_s;
    summary->max_output_tokens_per_s = fullest_second(records, count, duration_s);
    summary->max_concurrent_requests = most_at_once(records, count);
}
