/*
 * Prometheus' text format, version 0.0.4: families of samples with escaped labels.
 *
 *   metric_text_family(&page, "vllm:num_requests_running", METRIC_GAUGE, "Requests that …");
 *   metric_text_sample(&page, "", NULL, NULL, 3);
 */
#ifndef SHOAL_FRONTEND_SERVE_METRICS_METRIC_TEXT_H
#define SHOAL_FRONTEND_SERVE_METRICS_METRIC_TEXT_H

#include "frontend/base/text_buffer.h"
#include "frontend/serve/metrics/metric_histogram.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_label {
    const char *name;
    const char *value; /* any bytes; escaped when written */
};

/* One page. The common labels come first in every sample. */
struct metric_text {
    struct text_buffer *out;
    const struct metric_label *common;
    size_t common_count;
    const char *family; /* name of the family being written */
};

/* Writes HELP and TYPE lines. The following samples belong to the family; `name` must outlive them.
 */
void metric_text_family(struct metric_text *text, const char *name, enum metric_type type,
                        const char *help);
/* Writes one sample with further labels `labels[0..count)`. */
void metric_text_sample(struct metric_text *text, const struct metric_label *labels, size_t count,
                        double value);
/* Writes all samples of a histogram. */
void metric_text_histogram(struct metric_text *text, const struct metric_histogram *histogram);
/* Writes a family of one sample without further labels. */
void metric_text_value(struct metric_text *text, const char *name, enum metric_type type,
                       const char *help, double value);

#endif
