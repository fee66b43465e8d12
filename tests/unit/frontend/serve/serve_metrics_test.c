/*
 * Counters as Prometheus text: names, cumulative buckets, sums.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/serve/serve_metrics.h"

static void buckets_are_cumulative(void **state)
{
    (void)state;
    struct serve_metrics metrics = {0};
    struct text_buffer out = {0};
    metric_histogram_observe(&metrics.first_token, 1000);       /* exactly a bound: in it */
    metric_histogram_observe(&metrics.first_token, 30000);      /* 0.03 s */
    metric_histogram_observe(&metrics.first_token, 1000000000); /* above all bounds */
    serve_metrics_write(&metrics, "model_name=\"m\"", &out);
    static const char *const lines[] = {
        "# TYPE vllm:time_to_first_token_seconds histogram\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.001\"} 1\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.02\"} 1\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.04\"} 2\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"160\"} 2\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 3\n",
        "vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 1000.031\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"m\"} 3\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_non_null(strstr(out.bytes, lines[i]));
    text_buffer_fini(&out);
}

static void outcomes_carry_their_reason(void **state)
{
    (void)state;
    struct serve_metrics metrics = {.outcomes = {[OUTCOME_STOP] = 3, [OUTCOME_ERROR] = 1}};
    struct text_buffer out = {0};
    serve_metrics_write(&metrics, "model_name=\"m\"", &out);
    assert_non_null(strstr(
        out.bytes, "vllm:request_success_total{model_name=\"m\",finished_reason=\"stop\"} 3\n"));
    assert_non_null(strstr(
        out.bytes, "vllm:request_success_total{model_name=\"m\",finished_reason=\"error\"} 1\n"));
    assert_non_null(strstr(
        out.bytes, "vllm:request_success_total{model_name=\"m\",finished_reason=\"abort\"} 0\n"));
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_cumulative),
        cmocka_unit_test(outcomes_carry_their_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
