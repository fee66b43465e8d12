/*
 * Buckets are counted separately and summed when they are written, so an observation changes one of
 * them. The bounds are part of the value: vLLM's lists differ per metric, and those of token counts
 * depend on the model's context length.
 */
#include "frontend/serve/metrics/metric_histogram.h"

#include <string.h>

#include "proto/must.h"

void metric_histogram_init(struct metric_histogram *histogram, const double *bounds, size_t count)
{
    must(count <= METRIC_HISTOGRAM_BOUNDS);
    *histogram = (struct metric_histogram){.bound_count = count};
    for (size_t i = 0; i < count; i++) {
        must(i == 0 || bounds[i] > bounds[i - 1]);
        histogram->bounds[i] = bounds[i];
    }
}

void metric_histogram_init_decades(struct metric_histogram *histogram, uint64_t greatest)
{
    static const unsigned steps[3] = {1, 2, 5};
    double bounds[METRIC_HISTOGRAM_BOUNDS];
    size_t count = 0;
    uint64_t decade = 1;
    for (size_t i = 0; count < METRIC_HISTOGRAM_BOUNDS && steps[i] * decade <= greatest;) {
        bounds[count++] = (double)(steps[i] * decade);
        i = (i + 1) % 3;
        decade *= i == 0 ? 10 : 1;
    }
    metric_histogram_init(histogram, bounds, count);
}

void metric_histogram_observe(struct metric_histogram *histogram, double value)
{
    if (!(value > 0))
        value = 0;
    size_t at = 0;
    while (at < histogram->bound_count && value > histogram->bounds[at])
        at++;
    histogram->counts[at]++;
    histogram->sum += value;
    histogram->count++;
}

void metric_histogram_observe_us(struct metric_histogram *histogram, int64_t duration_us)
{
    metric_histogram_observe(histogram, (double)duration_us / 1e6);
}
