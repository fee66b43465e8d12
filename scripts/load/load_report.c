/*
 * Names and layout follow `vllm bench serve`, so that scripts for its results can read these.
 * Additional figures (kinds of failures, requests that this tool disconnected) have plain names. In
 * detailed results, times are in seconds, as in vLLM's. A request that did not complete has length 0
 * in output_lens and its reason in errors.
 */
#include "scripts/load/load_report.h"

#include <math.h>
#include <string.h>

#define WIDTH 50

static const struct {
    const char *stem;
    const char *name;
    const char *title;
} metrics[LOAD_METRIC_COUNT] = {
    [LOAD_TTFT] = {"ttft", "TTFT", "Time to First Token"},
    [LOAD_TPOT] = {"tpot", "TPOT", "Time per Output Token (excl. 1st token)"},
    [LOAD_ITL] = {"itl", "ITL", "Inter-token Latency"},
    [LOAD_E2EL] = {"e2el", "E2EL", "End-to-end Latency"},
};

/* --- table ----------------------------------------------------------------------------------- */

static void print_rule(FILE *out, const char *title, char rule)
{
    int left = (WIDTH - (int)strlen(title)) / 2;
    for (int i = 0; i < left; i++)
        putc(rule, out);
    fputs(title, out);
    for (int i = left + (int)strlen(title); i < WIDTH; i++)
        putc(rule, out);
    putc('\n', out);
}

static void print_count(FILE *out, const char *name, uint64_t value)
{
    fprintf(out, "%-40s %-10llu\n", name, (unsigned long long)value);
}

static void print_value(FILE *out, const char *name, double value)
{
    fprintf(out, "%-40s %-10.2f\n", name, value);
}

static void print_failures(const struct load_summary *summary, FILE *out)
{
    static const char *const names[LOAD_OUTCOME_COUNT] = {
        [LOAD_DISCONNECTED] = "Disconnected by this tool:",
        [LOAD_REFUSED] = "Bad requests refused:",
        [LOAD_STOPPED] = "Stopped by interruption:",
        [LOAD_FAILED_CONNECT] = "  failed to connect:",
        [LOAD_FAILED_STATUS] = "  answered with another status:",
        [LOAD_FAILED_TIMEOUT] = "  timed out:",
        [LOAD_FAILED_BROKEN] = "  broken streams:",
        [LOAD_FAILED_ERROR_EVENT] = "  error events:",
        [LOAD_FAILED_BAD_ACCEPTED] = "  bad requests not refused:",
    };
    for (size_t i = LOAD_DISCONNECTED; i < LOAD_OUTCOME_COUNT; i++) {
        if (summary->outcomes[i] > 0)
            print_count(out, names[i], summary->outcomes[i]);
    }
    for (size_t status = 0; status < LOAD_STATUS_MAX; status++) {
        char name[32];
        snprintf(name, sizeof name, "  with status %zu:", status);
        if (summary->statuses[status] > 0 && status != 200)
            print_count(out, name, summary->statuses[status]);
    }
}

static void print_metric(const struct load_summary *summary, const struct load_options *options,
                         enum load_metric metric, FILE *out)
{
    const struct load_figures *figures = &summary->metrics[metric];
    char name[48];
    print_rule(out, metrics[metric].title, '-');
    snprintf(name, sizeof name, "Mean %s (ms):", metrics[metric].name);
    print_value(out, name, figures->mean);
    snprintf(name, sizeof name, "Median %s (ms):", metrics[metric].name);
    print_value(out, name, figures->median);
    for (uint32_t i = 0; i < options->percentile_count; i++) {
        snprintf(name, sizeof name, "P%g %s (ms):", options->percentiles[i], metrics[metric].name);
        print_value(out, name, figures->percentiles[i]);
    }
}

void load_report_print(const struct load_summary *summary, const struct load_options *options,
                       FILE *out)
{
    print_rule(out, " Serving Benchmark Result ", '=');
    print_count(out, "Successful requests:", summary->outcomes[LOAD_COMPLETED]);
    print_count(out, "Failed requests:", summary->failed);
    print_failures(summary, out);
    if (options->concurrency)
        print_count(out, "Maximum request concurrency:", options->concurrency);
    else
        print_value(out, "Request rate configured (RPS):", options->request_rate);
    print_value(out, "Benchmark duration (s):", summary->duration_s);
    print_count(out, "Total input tokens:", summary->total_input_tokens);
    print_count(out, "Total generated tokens:", summary->total_output_tokens);
    print_value(out, "Request throughput (req/s):", summary->request_throughput);
    if (summary->request_goodput >= 0)
        print_value(out, "Request goodput (req/s):", summary->request_goodput);
    print_value(out, "Output token throughput (tok/s):", summary->output_throughput);
    print_value(out, "Peak output token throughput (tok/s):", summary->max_output_tokens_per_s);
    print_value(out, "Peak concurrent requests:", (double)summary->max_concurrent_requests);
    print_value(out, "Total token throughput (tok/s):", summary->total_token_throughput);
    if (summary->without_usage > 0)
        print_count(out, "Requests without usage (chunks counted):", summary->without_usage);
    if (!options->concurrency)
        print_value(out, "Maximum delay of a start (ms):", summary->max_late_ms);
    for (size_t i = 0; i < LOAD_METRIC_COUNT; i++)
        print_metric(summary, options, (enum load_metric)i, out);
    print_rule(out, "", '=');
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void write_name(struct text_buffer *out, const char *name)
{
    text_buffer_append_text(out, out->length > 1 ? ",\n " : "\n ");
    text_buffer_append_json_string(out, name, strlen(name));
    text_buffer_append_text(out, ": ");
}

static void write_words(struct text_buffer *out, const char *name, const char *words)
{
    write_name(out, name);
    text_buffer_append_json_string(out, words, strlen(words));
}

/* JSON has no infinity: such a rate is written as a word, as in vLLM's results. */
static void write_number(struct text_buffer *out, const char *name, double value)
{
    write_name(out, name);
    if (isinf(value))
        text_buffer_append_text(out, "\"inf\"");
    else
        text_buffer_append_format(out, "%.15g", value);
}

static void write_metrics(const struct load_summary *summary, const struct load_options *options,
                          struct text_buffer *out)
{
    char name[64];
    for (size_t i = 0; i < LOAD_METRIC_COUNT; i++) {
        const struct load_figures *figures = &summary->metrics[i];
        snprintf(name, sizeof name, "mean_%s_ms", metrics[i].stem);
        write_number(out, name, figures->mean);
        snprintf(name, sizeof name, "median_%s_ms", metrics[i].stem);
        write_number(out, name, figures->median);
        snprintf(name, sizeof name, "std_%s_ms", metrics[i].stem);
        write_number(out, name, figures->std);
        for (uint32_t p = 0; p < options->percentile_count; p++) {
            snprintf(name, sizeof name, "p%g_%s_ms", options->percentiles[p], metrics[i].stem);
            write_number(out, name, figures->percentiles[p]);
        }
    }
}

static void write_failures(const struct load_summary *summary, struct text_buffer *out)
{
    write_name(out, "failures");
    for (size_t i = LOAD_FAILED_CONNECT; i < LOAD_OUTCOME_COUNT; i++)
        text_buffer_append_format(out, "%s\"%s\": %llu", i == LOAD_FAILED_CONNECT ? "{" : ", ",
                                  load_outcome_name((enum load_outcome)i),
                                  (unsigned long long)summary->outcomes[i]);
    text_buffer_append_text(out, "}");
    write_name(out, "failed_statuses");
    text_buffer_append_text(out, "{");
    const char *comma = "";
    for (size_t status = 0; status < LOAD_STATUS_MAX; status++) {
        if (summary->statuses[status] == 0)
            continue;
        text_buffer_append_format(out, "%s\"%zu\": %llu", comma, status,
                                  (unsigned long long)summary->statuses[status]);
        comma = ", ";
    }
    text_buffer_append_text(out, "}");
}

static void append_seconds(struct text_buffer *out, int64_t us)
{
    text_buffer_append_format(out, "%.6f", (double)us / 1e6);
}

static void append_input_length(struct text_buffer *out, const struct load_record *record)
{
    text_buffer_append_format(out, "%u", record->input_tokens);
}

static void append_output_length(struct text_buffer *out, const struct load_record *record)
{
    text_buffer_append_format(out, "%u",
                              record->outcome == LOAD_COMPLETED ? record->output_tokens : 0);
}

static void append_first(struct text_buffer *out, const struct load_record *record)
{
    append_seconds(out, record->first_us);
}

static void append_gaps(struct text_buffer *out, const struct load_record *record)
{
    text_buffer_append_text(out, "[");
    for (uint32_t i = 0; i < record->gap_count; i++) {
        text_buffer_append_text(out, i > 0 ? "," : "");
        append_seconds(out, record->gaps_us[i]);
    }
    text_buffer_append_text(out, "]");
}

static void append_latency(struct text_buffer *out, const struct load_record *record)
{
    append_seconds(out, record->latency_us);
}

static void append_start(struct text_buffer *out, const struct load_record *record)
{
    append_seconds(out, record->start_us);
}

static void append_outcome(struct text_buffer *out, const struct load_record *record)
{
    text_buffer_append_format(out, "\"%s\"", load_outcome_name(record->outcome));
}

static void append_error(struct text_buffer *out, const struct load_record *record)
{
    text_buffer_append_json_string(out, record->error, strlen(record->error));
}

static void write_records(const struct load_report_run *run, struct text_buffer *out)
{
    static const struct {
        const char *name;
        void (*append)(struct text_buffer *out, const struct load_record *record);
    } arrays[] = {{"input_lens", append_input_length},
                  {"output_lens", append_output_length},
                  {"ttfts", append_first},
                  {"itls", append_gaps},
                  {"latencies", append_latency},
                  {"start_times", append_start},
                  {"outcomes", append_outcome},
                  {"errors", append_error}};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        write_name(out, arrays[i].name);
        text_buffer_append_text(out, "[");
        for (size_t at = 0; at < run->record_count; at++) {
            text_buffer_append_text(out, at > 0 ? "," : "");
            arrays[i].append(out, &run->records[at]);
        }
        text_buffer_append_text(out, "]");
    }
}

void load_report_write_json(const struct load_summary *summary, const struct load_report_run *run,
                            struct text_buffer *out)
{
    const struct load_options *options = run->options;
    text_buffer_append_text(out, "{");
    write_words(out, "date", run->date);
    write_words(out, "backend", "openai-chat");
    write_words(out, "model_id", run->model);
    write_number(out, "num_prompts", (double)run->record_count);
    write_number(out, "request_rate", options->concurrency ? INFINITY : options->request_rate);
    write_number(out, "burstiness", options->burstiness);
    write_name(out, "max_concurrency");
    if (options->concurrency)
        text_buffer_append_format(out, "%llu", (unsigned long long)options->concurrency);
    else
        text_buffer_append_text(out, "null");
    write_number(out, "duration", summary->duration_s);
    write_number(out, "completed", (double)summary->outcomes[LOAD_COMPLETED]);
    write_number(out, "failed", (double)summary->failed);
    write_number(out, "total_input_tokens", (double)summary->total_input_tokens);
    write_number(out, "total_output_tokens", (double)summary->total_output_tokens);
    write_number(out, "request_throughput", summary->request_throughput);
    write_name(out, "request_goodput");
    if (summary->request_goodput >= 0)
        text_buffer_append_format(out, "%.15g", summary->request_goodput);
    else
        text_buffer_append_text(out, "null");
    write_number(out, "output_throughput", summary->output_throughput);
    write_number(out, "total_token_throughput", summary->total_token_throughput);
    write_number(out, "max_output_tokens_per_s", summary->max_output_tokens_per_s);
    write_number(out, "max_concurrent_requests", (double)summary->max_concurrent_requests);
    write_metrics(summary, options, out);
    write_number(out, "requests_left", (double)summary->outcomes[LOAD_DISCONNECTED]);
    write_number(out, "bad_requests_refused", (double)summary->outcomes[LOAD_REFUSED]);
    write_number(out, "requests_stopped", (double)summary->outcomes[LOAD_STOPPED]);
    write_number(out, "requests_without_usage", (double)summary->without_usage);
    write_number(out, "max_late_ms", summary->max_late_ms);
    write_failures(summary, out);
    if (options->save_detailed)
        write_records(run, out);
    text_buffer_append_text(out, "\n}\n");
}
