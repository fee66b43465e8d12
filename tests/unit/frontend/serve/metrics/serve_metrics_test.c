/*
 * Counters and histograms of requests, and their names.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/serve/metrics/serve_metrics.h"

static const struct metric_label label = {"model_name", "m"};

static void assert_lines(const struct serve_metrics *metrics, const struct worker_totals *totals,
                         const char *const *lines, size_t count)
{
    struct text_buffer out = {0};
    struct metric_text text = {.out = &out, .common = &label, .common_count = 1};
    serve_metrics_write(metrics, totals, &text);
    serve_metrics_write_own(metrics, totals, &text);
    for (size_t i = 0; i < count; i++) {
        if (!strstr(out.bytes, lines[i]))
            fail_msg("no line %s in\n%s", lines[i], out.bytes);
    }
    text_buffer_fini(&out);
}

#define ASSERT_LINES(metrics, totals, lines)                                                       \
    assert_lines(metrics, totals, lines, sizeof(lines) / sizeof(lines)[0])

static void answer(struct serve_metrics *metrics, enum request_outcome outcome)
{
    struct request_account account = {
        .timeline = {.arrived_us = 1000000, .queued_us = 1100000, .scheduled_us = 1500000},
        .prompt_tokens = 30,
        .cached_tokens = 10,
        .generated_tokens = 3,
        .max_generated = 100,
        .asked_max_tokens = 100};
    struct request_timeline *at = &account.timeline;
    static const int64_t tokens_us[3] = {2000000, 2400000, 3000000};
    for (size_t i = 0; i < 3; i++) {
        serve_metrics_token(metrics, at, 30, 10, tokens_us[i]);
        at->first_token_us = tokens_us[0];
        at->last_token_us = tokens_us[i];
    }
    serve_metrics_end(metrics, outcome, &account, 3500000);
}

static void an_answer_is_measured_by_phase(void **state)
{
    (void)state;
    struct serve_metrics metrics;
    struct worker_totals totals = {0};
    serve_metrics_init(&metrics);
    serve_metrics_set_context(&metrics, 60);
    answer(&metrics, OUTCOME_LENGTH);
    static const char *const lines[] = {
        "vllm:request_success_total{model_name=\"m\",finished_reason=\"length\"} 1\n",
        "vllm:request_success_total{model_name=\"m\",finished_reason=\"abort\"} 0\n",
        "vllm:prompt_tokens_total{model_name=\"m\"} 30\n",
        "vllm:generation_tokens_total{model_name=\"m\"} 3\n",
        "vllm:prefix_cache_hits_total{model_name=\"m\"} 10\n",
        "vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 1\n",
        "vllm:inter_token_latency_seconds_count{model_name=\"m\"} 2\n",
        "vllm:inter_token_latency_seconds_sum{model_name=\"m\"} 1\n",
        "vllm:inter_token_latency_seconds_bucket{model_name=\"m\",le=\"0.4\"} 1\n",
        "vllm:time_per_output_token_seconds_count{model_name=\"m\"} 2\n",
        "vllm:request_time_per_output_token_seconds_sum{model_name=\"m\"} 0.5\n",
        "vllm:e2e_request_latency_seconds_sum{model_name=\"m\"} 2.5\n",
        "vllm:request_queue_time_seconds_bucket{model_name=\"m\",le=\"0.3\"} 0\n",
        "vllm:request_queue_time_seconds_bucket{model_name=\"m\",le=\"0.5\"} 1\n",
        "vllm:request_prefill_time_seconds_sum{model_name=\"m\"} 0.5\n",
        "vllm:request_decode_time_seconds_sum{model_name=\"m\"} 1\n",
        "vllm:request_inference_time_seconds_sum{model_name=\"m\"} 1.5\n",
        "vllm:request_prompt_tokens_bucket{model_name=\"m\",le=\"50.0\"} 1\n",
        "vllm:request_prompt_tokens_bucket{model_name=\"m\",le=\"+Inf\"} 1\n",
        "vllm:request_generation_tokens_sum{model_name=\"m\"} 3\n",
        "vllm:request_max_num_generation_tokens_sum{model_name=\"m\"} 100\n",
        "vllm:request_params_max_tokens_sum{model_name=\"m\"} 100\n",
        "vllm:request_prefill_kv_computed_tokens_sum{model_name=\"m\"} 20\n",
    };
    ASSERT_LINES(&metrics, &totals, lines);
}

static void an_abandoned_request_is_only_counted(void **state)
{
    (void)state;
    struct serve_metrics metrics;
    struct worker_totals totals = {0};
    serve_metrics_init(&metrics);
    answer(&metrics, OUTCOME_ABORT);
    static const char *const lines[] = {
        "vllm:request_success_total{model_name=\"m\",finished_reason=\"abort\"} 1\n",
        "vllm:generation_tokens_total{model_name=\"m\"} 3\n",
        "vllm:e2e_request_latency_seconds_count{model_name=\"m\"} 0\n",
        "vllm:request_decode_time_seconds_count{model_name=\"m\"} 0\n",
        "vllm:request_prompt_tokens_count{model_name=\"m\"} 0\n",
    };
    ASSERT_LINES(&metrics, &totals, lines);
}

static void add_worker(struct worker_totals *totals, const struct worker_gauges *gauges)
{
    struct worker_counters counters;
    worker_counters_init(&counters, 0);
    worker_counters_read(&counters, gauges, 1000000);
    worker_totals_add(totals, &counters);
}

static void totals_of_dead_and_living_workers_add_up(void **state)
{
    (void)state;
    struct serve_metrics metrics;
    struct worker_gauges dead = {.steps = 5, .preemptions_total = 2, .prompt_tokens_total = 40};
    struct worker_gauges alive = {.steps = 1, .generated_tokens_total = 3};
    dead.step_tokens_classes[1] = 5;
    dead.image_hits_total = 3;
    alive.image_misses_total = 4;
    alive.step_tokens_classes[WORKER_STEP_TOKENS_CLASSES - 1] = 1;
    serve_metrics_init(&metrics);
    add_worker(&metrics.workers_gone, &dead);
    struct worker_totals totals = metrics.workers_gone;
    add_worker(&totals, &alive);
    static const char *const lines[] = {
        "shoal_worker_steps_total{model_name=\"m\"} 6\n",
        "vllm:num_preemptions_total{model_name=\"m\"} 2\n",
        "vllm:mm_cache_queries_total{model_name=\"m\"} 7\n",
        "vllm:mm_cache_hits_total{model_name=\"m\"} 3\n",
        "# TYPE vllm:iteration_tokens_total histogram\n",
        "vllm:iteration_tokens_total_bucket{model_name=\"m\",le=\"1.0\"} 0\n",
        "vllm:iteration_tokens_total_bucket{model_name=\"m\",le=\"8.0\"} 5\n",
        "vllm:iteration_tokens_total_bucket{model_name=\"m\",le=\"16384.0\"} 5\n",
        "vllm:iteration_tokens_total_bucket{model_name=\"m\",le=\"+Inf\"} 6\n",
        "vllm:iteration_tokens_total_sum{model_name=\"m\"} 43\n",
    };
    ASSERT_LINES(&metrics, &totals, lines);
}

static void drafts_are_counted_by_position(void **state)
{
    (void)state;
    struct serve_metrics metrics;
    const struct worker_totals totals = {0};
    serve_metrics_init(&metrics);
    serve_metrics_drafts(&metrics, 3, 1); /* three drafts, of which two come */
    serve_metrics_drafts(&metrics, 0, 2);
    serve_metrics_drafts(&metrics, 0, 0);
    serve_metrics_drafts(&metrics, LIMIT_DRAFT_TOKENS, 0);
    serve_metrics_drafts(&metrics, 1, 1);
    static const char *const lines[] = {
        "vllm:spec_decode_num_drafts_total{model_name=\"m\"} 3\n",
        "vllm:spec_decode_num_draft_tokens_total{model_name=\"m\"} 35\n",
        "vllm:spec_decode_num_accepted_tokens_total{model_name=\"m\"} 3\n",
        "_per_pos_total{model_name=\"m\",position=\"0\"} 2\n",
        "_per_pos_total{model_name=\"m\",position=\"1\"} 1\n",
        "_per_pos_total{model_name=\"m\",position=\"30\"} 0\n",
    };
    ASSERT_LINES(&metrics, &totals, lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_measured_by_phase),
        cmocka_unit_test(an_abandoned_request_is_only_counted),
        cmocka_unit_test(totals_of_dead_and_living_workers_add_up),
        cmocka_unit_test(drafts_are_counted_by_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
