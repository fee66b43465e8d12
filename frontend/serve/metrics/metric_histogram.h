/*
 * A Prometheus histogram: a bucket for each upper bound, one above all of them, sum and count.
 */
#ifndef SHOAL_FRONTEND_SERVE_METRICS_METRIC_HISTOGRAM_H
#define SHOAL_FRONTEND_SERVE_METRICS_METRIC_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define METRIC_HISTOGRAM_BOUNDS 24u /* the longest list in use has 22 */

struct metric_histogram {
    double bounds[METRIC_HISTOGRAM_BOUNDS]; /* ascending; a value equal to a bound belongs to it */
    size_t bound_count;
    uint64_t counts[METRIC_HISTOGRAM_BOUNDS + 1]; /* the last one in use: above all bounds */
    double sum;
    uint64_t count;
};

/* Starts without observations. `bounds` are copied; at most METRIC_HISTOGRAM_BOUNDS. */
void metric_histogram_init(struct metric_histogram *histogram, const double *bounds, size_t count);
/* Bounds 1, 2, 5, 10, 20, 50 … up to `greatest`. */
void metric_histogram_init_decades(struct metric_histogram *histogram, uint64_t greatest);
/* Negative values count as 0: two processes read the clock. */
void metric_histogram_observe(struct metric_histogram *histogram, double value);
void metric_histogram_observe_us(struct metric_histogram *histogram, int64_t duration_us);

#endif
