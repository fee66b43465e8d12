/*
 * Figures of a run that was written by hand, and their names in table and JSON.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "scripts/load/load_report.h"

static void assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-6 * (1 + fabs(expected)))
        fail_msg("%.17g is not %.17g", value, expected);
}

#define RECORDS 6u

/* Two answers, one of a single token, one without text or usage, and others that do not count. */
static void make_records(struct load_record *records)
{
    memset(records, 0, RECORDS * sizeof records[0]);
    records[0] = (struct load_record){
        .start_us = 0, .input_tokens = 10, .output_tokens = 4, .has_usage = true, .status = 200};
    load_record_add_text(&records[0], 100000);
    load_record_add_text(&records[0], 150000);
    load_record_add_text(&records[0], 400000); /* a chunk of two tokens */
    records[0].latency_us = 400000;
    records[1] = (struct load_record){.start_us = 300000,
                                      .input_tokens = 20,
                                      .output_tokens = 1,
                                      .has_usage = true,
                                      .status = 200,
                                      .late_us = 2500};
    load_record_add_text(&records[1], 200000);
    records[1].latency_us = 250000;
    records[2] = (struct load_record){.start_us = 400000, .latency_us = 1600000, .status = 200};
    records[3] = (struct load_record){.outcome = LOAD_FAILED_STATUS,
                                      .status = 429,
                                      .start_us = 100000,
                                      .latency_us = 1000,
                                      .output_tokens = 50};
    snprintf(records[3].error, sizeof records[3].error, "{\"error\": \"full\"}");
    records[4] =
        (struct load_record){.outcome = LOAD_DISCONNECTED, .start_us = 10, .latency_us = 900000};
    records[5] = (struct load_record){.outcome = LOAD_FAILED_ERROR_EVENT, .status = 200};
}

static void free_records(struct load_record *records)
{
    for (size_t i = 0; i < RECORDS; i++)
        load_record_fini(&records[i]);
}

static void figures_are_those_of_the_definitions(void **state)
{
    (void)state;
    struct load_record records[RECORDS];
    static struct load_summary summary;
    struct load_options options = {
        .slo_ms = {150, 100, -1}, .percentiles = {50, 99}, .percentile_count = 2, .concurrency = 2};
    make_records(records);
    load_summary_compute(records, RECORDS, 2.0, &options, &summary);
    assert_int_equal(summary.outcomes[LOAD_COMPLETED], 3);
    assert_int_equal(summary.failed, 2);
    assert_int_equal(summary.outcomes[LOAD_DISCONNECTED], 1);
    assert_int_equal(summary.statuses[429], 1);
    assert_int_equal(summary.statuses[200], 1);
    assert_int_equal(summary.without_usage, 1);
    assert_int_equal(summary.total_input_tokens, 30);
    assert_int_equal(summary.total_output_tokens, 5);
    assert_near(summary.request_throughput, 1.5);
    assert_near(summary.output_throughput, 2.5);
    assert_near(summary.total_token_throughput, 17.5);
    /* Good: the first (100 ms, 100 ms a token); the second is late, the third has no text. */
    assert_near(summary.request_goodput, 0.5);
    assert_near(summary.metrics[LOAD_TTFT].mean, 150);
    assert_near(summary.metrics[LOAD_TTFT].std, 50);
    assert_near(summary.metrics[LOAD_TTFT].percentiles[1], 199);
    assert_near(summary.metrics[LOAD_TPOT].mean, 100); /* (400 - 100) / 3, of one request */
    assert_near(summary.metrics[LOAD_ITL].median, 150);
    assert_near(summary.metrics[LOAD_ITL].mean, 150);
    assert_near(summary.metrics[LOAD_E2EL].mean, 750);
    /* The third starts at the moment at which the first ends. */
    assert_int_equal(summary.max_concurrent_requests, 2);
    assert_near(summary.max_output_tokens_per_s, 4);
    assert_near(summary.max_late_ms, 2.5);
    options.slo_ms[LOAD_SLO_E2EL] = 399;
    load_summary_compute(records, RECORDS, 2.0, &options, &summary);
    assert_near(summary.request_goodput, 0);
    free_records(records);
}

static void nothing_at_all_is_zeros(void **state)
{
    (void)state;
    static struct load_summary summary;
    struct load_options options = {.slo_ms = {-1, -1, -1}, .percentile_count = 1};
    load_summary_compute(NULL, 0, 0, &options, &summary);
    assert_near(summary.request_throughput, 0);
    assert_near(summary.metrics[LOAD_ITL].percentiles[0], 0);
    assert_true(summary.request_goodput < 0);
}

static void assert_has_numbers(const cJSON *json)
{
    static const char *const numbers[] = {"burstiness",
                                          "duration",
                                          "completed",
                                          "failed",
                                          "total_input_tokens",
                                          "total_output_tokens",
                                          "request_throughput",
                                          "output_throughput",
                                          "total_token_throughput",
                                          "max_output_tokens_per_s",
                                          "max_concurrent_requests",
                                          "num_prompts",
                                          "mean_ttft_ms",
                                          "median_ttft_ms",
                                          "std_ttft_ms",
                                          "p50_ttft_ms",
                                          "p99.9_ttft_ms",
                                          "mean_tpot_ms",
                                          "median_tpot_ms",
                                          "std_tpot_ms",
                                          "p99.9_tpot_ms",
                                          "mean_itl_ms",
                                          "median_itl_ms",
                                          "std_itl_ms",
                                          "p50_itl_ms",
                                          "mean_e2el_ms",
                                          "median_e2el_ms",
                                          "std_e2el_ms",
                                          "p99.9_e2el_ms"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(json, numbers[i])))
            fail_msg("no number %s", numbers[i]);
    }
}

static void json_has_the_names_of_vllm(void **state)
{
    (void)state;
    struct load_record records[RECORDS];
    static struct load_summary summary;
    struct load_options options = {.slo_ms = {-1, -1, -1},
                                   .percentiles = {50, 99.9},
                                   .percentile_count = 2,
                                   .request_rate = INFINITY,
                                   .burstiness = 1,
                                   .save_detailed = true};
    struct load_report_run run = {.options = &options,
                                  .model = "a \"model\"",
                                  .date = "20261121-000000",
                                  .records = records,
                                  .record_count = RECORDS};
    struct text_buffer out = {0};
    make_records(records);
    load_summary_compute(records, RECORDS, 2.0, &options, &summary);
    load_report_write_json(&summary, &run, &out);
    cJSON *json = cJSON_Parse(out.bytes);
    assert_non_null(json);
    assert_has_numbers(json);
    static const char *const arrays[] = {"input_lens", "output_lens", "ttfts",    "itls",
                                         "latencies",  "start_times", "outcomes", "errors"};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, arrays[i])),
                         RECORDS);
    const cJSON *rate = cJSON_GetObjectItemCaseSensitive(json, "request_rate");
    assert_string_equal(cJSON_GetStringValue(rate), "inf");
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(json, "request_goodput")));
    const cJSON *errors = cJSON_GetObjectItemCaseSensitive(json, "errors");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(errors, 3)), records[3].error);
    const cJSON *lengths = cJSON_GetObjectItemCaseSensitive(json, "output_lens");
    assert_near(cJSON_GetNumberValue(cJSON_GetArrayItem(lengths, 0)), 4);
    assert_near(cJSON_GetNumberValue(cJSON_GetArrayItem(lengths, 3)), 0);
    const cJSON *gaps = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(json, "itls"), 0);
    assert_near(cJSON_GetNumberValue(cJSON_GetArrayItem(gaps, 1)), 0.25);
    const cJSON *failures = cJSON_GetObjectItemCaseSensitive(json, "failures");
    assert_near(cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(failures, "status")), 1);
    cJSON_Delete(json);
    text_buffer_fini(&out);
    free_records(records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_the_definitions),
        cmocka_unit_test(nothing_at_all_is_zeros),
        cmocka_unit_test(json_has_the_names_of_vllm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
