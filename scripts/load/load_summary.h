/*
 * Computes a run's figures from its records.
 */
#ifndef SHOAL_SCRIPTS_LOAD_LOAD_SUMMARY_H
#define SHOAL_SCRIPTS_LOAD_LOAD_SUMMARY_H

#include <stddef.h>

#include "scripts/load/load_options.h"
#include "scripts/load/load_record.h"

enum load_metric { LOAD_TTFT, LOAD_TPOT, LOAD_ITL, LOAD_E2EL, LOAD_METRIC_COUNT };

/* Milliseconds. */
struct load_figures {
    double mean;
    double median;
    double std;
    double percentiles[LOAD_PERCENTILES]; /* as many as the options request */
};

#define LOAD_STATUS_MAX 600

struct load_summary {
    double duration_s;
    uint64_t outcomes[LOAD_OUTCOME_COUNT];
    uint64_t failed;
    uint64_t statuses[LOAD_STATUS_MAX]; /* [status]: failed requests with this status */
    uint64_t without_usage;             /* completed, with tokens counted as chunks */
    uint64_t total_input_tokens;        /* of completed requests; so is everything below */
    uint64_t total_output_tokens;
    double request_throughput;
    double request_goodput; /* negative: no objectives were given */
    double output_throughput;
    double total_token_throughput;
    double max_output_tokens_per_s; /* in its busiest second, counting pieces of text */
    uint64_t max_concurrent_requests;
    double max_late_ms; /* the largest delay of a start against the plan, over all requests */
    struct load_figures metrics[LOAD_METRIC_COUNT];
};

/* Pure function. `duration_s` is from the first start to the last end. */
void load_summary_compute(const struct load_record *records, size_t count, double duration_s,
                          const struct load_options *options, struct load_summary *summary);

#endif
