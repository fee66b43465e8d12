/*
 * What the frontend counts about requests, and its text form for Prometheus.
 */
#ifndef SHOAL_FRONTEND_SERVE_SERVE_METRICS_H
#define SHOAL_FRONTEND_SERVE_SERVE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/reply/text_buffer.h"

#define SERVE_METRICS_BUCKETS 19u

struct metric_histogram {
    uint64_t
        counts[SERVE_METRICS_BUCKETS + 1]; /* [i]: at most bound i; the last: above all bounds */
    double sum_s;
    uint64_t count;
};

enum request_outcome { OUTCOME_STOP, OUTCOME_LENGTH, OUTCOME_ABORT, OUTCOME_ERROR, OUTCOME_COUNT };

struct serve_metrics {
    uint64_t outcomes[OUTCOME_COUNT];
    uint64_t refused_busy; /* 429 */
    uint64_t prompt_tokens;
    uint64_t generated_tokens;
    uint64_t worker_restarts;
    struct metric_histogram first_token;
    struct metric_histogram between_tokens;
    struct metric_histogram whole_request;
};

void metric_histogram_observe(struct metric_histogram *histogram, int64_t duration_us);

/* One counter or gauge with its HELP and TYPE lines; `type` is "counter" or "gauge". */
void serve_metrics_write_value(struct text_buffer *out, const char *name, const char *type,
                               const char *help, const char *labels, double value);
/* Everything in `metrics`; `labels` such as `model_name="m"`. */
void serve_metrics_write(const struct serve_metrics *metrics, const char *labels,
                         struct text_buffer *out);

#endif
