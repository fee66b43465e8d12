/*
 * The frontend's counters of requests, written for Prometheus.
 */
#ifndef SHOAL_FRONTEND_SERVE_METRICS_SERVE_METRICS_H
#define SHOAL_FRONTEND_SERVE_METRICS_SERVE_METRICS_H

#include "frontend/serve/metrics/metric_text.h"
#include "frontend/serve/metrics/worker_totals.h"
#include "proto/limits.h"

enum request_outcome { OUTCOME_STOP, OUTCOME_LENGTH, OUTCOME_ABORT, OUTCOME_ERROR, OUTCOME_COUNT };

enum serve_histogram {
    SERVE_FIRST_TOKEN,
    SERVE_BETWEEN_TOKENS,
    SERVE_PER_TOKEN,
    SERVE_WHOLE_REQUEST,
    SERVE_QUEUE,
    SERVE_INFERENCE,
    SERVE_PREFILL,
    SERVE_DECODE,
    SERVE_PROMPT_TOKENS,
    SERVE_GENERATED_TOKENS,
    SERVE_MAX_GENERATED,
    SERVE_ASKED_MAX_TOKENS,
    SERVE_COMPUTED_PROMPT,
    SERVE_HISTOGRAM_COUNT
};

struct serve_metrics {
    uint64_t outcomes[OUTCOME_COUNT];
    uint64_t refused_busy; /* 429 */
    uint64_t prompt_tokens;
    uint64_t cached_tokens; /* of these, from the prefix cache */
    uint64_t generated_tokens;
    uint64_t drafts;                              /* steps of a request with drafted tokens */
    uint64_t draft_tokens;                        /* drafted for them */
    uint64_t accepted_drafts[LIMIT_DRAFT_TOKENS]; /* of these, accepted, by position */
    uint64_t worker_restarts;
    uint64_t requests_replayed;
    uint64_t requests_quarantined;
    struct worker_totals workers_gone; /* counters of workers that have ended */
    struct metric_histogram histograms[SERVE_HISTOGRAM_COUNT];
};

void serve_metrics_init(struct serve_metrics *metrics);
/* Token bounds reach up to the model's context length: set it before the first request. */
void serve_metrics_set_context(struct serve_metrics *metrics, uint32_t context_tokens);

/* The points of a request's life on the monotonic clock; 0: not reached. */
struct request_timeline {
    int64_t arrived_us;
    int64_t queued_us;    /* parsed and tokenized */
    int64_t scheduled_us; /* the worker began its prompt */
    int64_t first_token_us;
    int64_t last_token_us;
};

/* A token arrived at `now_us`; the timeline is that before it. `prompt_tokens` and `cached_tokens`
 * count at a request's first token. */
void serve_metrics_token(struct serve_metrics *metrics, const struct request_timeline *timeline,
                         uint64_t prompt_tokens, uint64_t cached_tokens, int64_t now_us);
/* Counts what a token says of drafts (draft_tokens and draft_position of its event). */
void serve_metrics_drafts(struct serve_metrics *metrics, uint32_t draft_tokens,
                          uint32_t draft_position);

struct request_account {
    struct request_timeline timeline;
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t generated_tokens;
    uint64_t max_generated;    /* the maximum it could have had */
    uint64_t asked_max_tokens; /* 0: not given */
};
/* Counts a request's end. The histograms are about answered requests only. */
void serve_metrics_end(struct serve_metrics *metrics, enum request_outcome outcome,
                       const struct request_account *account, int64_t now_us);

/* Writes `metrics`, with `totals` of all workers and the labels of `text`: the first function
 * vLLM's names, the second Shoal's own. */
void serve_metrics_write(const struct serve_metrics *metrics, const struct worker_totals *totals,
                         struct metric_text *text);
void serve_metrics_write_own(const struct serve_metrics *metrics,
                             const struct worker_totals *totals, struct metric_text *text);

#endif
