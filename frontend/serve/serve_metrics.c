/*
 * Counters as Prometheus reads them. Where vLLM has a name for the same thing, that name is used,
 * so that existing dashboards, and gateways that schedule by these figures, work unchanged; the
 * rest begins with shoal_.
 *
 * Written by the event loop only, so plain numbers suffice.
 */
#include "frontend/serve/serve_metrics.h"

static const double bounds_s[SERVE_METRICS_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08,
                                                       0.1,   0.15,   0.25,  0.5,  1,    2.5,  5,
                                                       10,    20,     40,    80,   160};

void metric_histogram_observe(struct metric_histogram *histogram, int64_t duration_us)
{
    double seconds = (double)duration_us / 1e6;
    size_t at = 0;
    while (at < SERVE_METRICS_BUCKETS && seconds > bounds_s[at])
        at++;
    histogram->counts[at]++;
    histogram->sum_s += seconds;
    histogram->count++;
}

static void write_type(struct text_buffer *out, const char *name, const char *type,
                       const char *help)
{
    text_buffer_append_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void serve_metrics_write_value(struct text_buffer *out, const char *name, const char *type,
                               const char *help, const char *labels, double value)
{
    write_type(out, name, type, help);
    text_buffer_append_format(out, "%s{%s} %.17g\n", name, labels, value);
}

static void write_histogram(struct text_buffer *out, const char *name, const char *help,
                            const char *labels, const struct metric_histogram *histogram)
{
    write_type(out, name, "histogram", help);
    uint64_t below = 0;
    for (size_t i = 0; i < SERVE_METRICS_BUCKETS; i++) {
        below += histogram->counts[i];
        text_buffer_append_format(out, "%s_bucket{%s,le=\"%g\"} %llu\n", name, labels, bounds_s[i],
                                  (unsigned long long)below);
    }
    text_buffer_append_format(out, "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, labels,
                              (unsigned long long)histogram->count);
    text_buffer_append_format(out, "%s_sum{%s} %.9g\n%s_count{%s} %llu\n", name, labels,
                              histogram->sum_s, name, labels, (unsigned long long)histogram->count);
}

void serve_metrics_write(const struct serve_metrics *metrics, const char *labels,
                         struct text_buffer *out)
{
    static const char *const reasons[OUTCOME_COUNT] = {"stop", "length", "abort", "error"};
    write_type(out, "vllm:request_success_total", "counter", "Requests ended, by reason.");
    for (size_t i = 0; i < OUTCOME_COUNT; i++)
        text_buffer_append_format(out,
                                  "vllm:request_success_total{%s,finished_reason=\"%s\"} %llu\n",
                                  labels, reasons[i], (unsigned long long)metrics->outcomes[i]);
    serve_metrics_write_value(out, "vllm:prompt_tokens_total", "counter",
                              "Prompt tokens of requests that began to answer.", labels,
                              (double)metrics->prompt_tokens);
    serve_metrics_write_value(out, "vllm:generation_tokens_total", "counter", "Tokens generated.",
                              labels, (double)metrics->generated_tokens);
    write_histogram(out, "vllm:time_to_first_token_seconds",
                    "From a request's arrival to its first token.", labels, &metrics->first_token);
    write_histogram(out, "vllm:inter_token_latency_seconds", "Between two tokens of one request.",
                    labels, &metrics->between_tokens);
    write_histogram(out, "vllm:e2e_request_latency_seconds", "From a request's arrival to its end.",
                    labels, &metrics->whole_request);
    serve_metrics_write_value(out, "shoal_requests_refused_total", "counter",
                              "Requests refused because the queue was full.", labels,
                              (double)metrics->refused_busy);
    serve_metrics_write_value(out, "shoal_worker_restarts_total", "counter",
                              "Workers started again after one died.", labels,
                              (double)metrics->worker_restarts);
}
