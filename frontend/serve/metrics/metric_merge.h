/*
 * Joins pages of several engines: Prometheus' format wants all samples of a family in one place.
 */
#ifndef SHOAL_FRONTEND_SERVE_METRICS_METRIC_MERGE_H
#define SHOAL_FRONTEND_SERVE_METRICS_METRIC_MERGE_H

#include "frontend/base/text_buffer.h"

/* Appends the families of `pages` (metric_text.h) to `out`, each once, in the order of their first
 * appearance, with the samples of all pages. */
void metric_merge(const struct text_buffer *pages, size_t count, struct text_buffer *out);

#endif
