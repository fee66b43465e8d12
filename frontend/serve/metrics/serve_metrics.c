/*
 * Counters in Prometheus' format. If vLLM has a metric of the same meaning, its name, labels and
 * bounds are used, so that existing dashboards and gateways work unchanged; other names start with
 * shoal_.
 *
 * A request's phases follow vLLM's definitions: queue from tokenized to scheduled, prefill from
 * there to the first token, decode from the first token to the last, inference both together. A
 * pause while a dead worker is replaced counts in the phase in which it happened, because the
 * client saw it. Refused, failed and abandoned requests are counted, but their times are left out
 * of the histograms, because they say nothing about speed.
 *
 * Only the event loop writes, so plain numbers suffice.
 */
#include "frontend/serve/metrics/serve_metrics.h"

#include <stdio.h>

#define COUNT_OF(list) (sizeof(list) / sizeof(list)[0])

static const double first_token_bounds_s[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                              0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                              20,    40,    80,   160,  640,  2560};
static const double token_gap_bounds_s[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                            0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
static const double request_bounds_s[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                          30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};

/* Bounds NULL: 1, 2, 5, 10 … up to the context length. */
static const struct {
    const char *name;
    const char *help;
    const double *bounds;
    size_t bound_count;
} histogram_table[SERVE_HISTOGRAM_COUNT] = {
    [SERVE_FIRST_TOKEN] = {"vllm:time_to_first_token_seconds",
                           "From a request's arrival to its first token.", first_token_bounds_s,
                           COUNT_OF(first_token_bounds_s)},
    [SERVE_BETWEEN_TOKENS] = {"vllm:inter_token_latency_seconds",
                              "Between two tokens of one request.", token_gap_bounds_s,
                              COUNT_OF(token_gap_bounds_s)},
    [SERVE_PER_TOKEN] = {"vllm:request_time_per_output_token_seconds",
                         "Mean time between an answered request's tokens.", token_gap_bounds_s,
                         COUNT_OF(token_gap_bounds_s)},
    [SERVE_WHOLE_REQUEST] = {"vllm:e2e_request_latency_seconds",
                             "From an answered request's arrival to its end.", request_bounds_s,
                             COUNT_OF(request_bounds_s)},
    [SERVE_QUEUE] = {"vllm:request_queue_time_seconds",
                     "From tokenized to the beginning of the prompt's computation.",
                     request_bounds_s, COUNT_OF(request_bounds_s)},
    [SERVE_INFERENCE] = {"vllm:request_inference_time_seconds",
                         "From the beginning of the prompt's computation to the last token.",
                         request_bounds_s, COUNT_OF(request_bounds_s)},
    [SERVE_PREFILL] = {"vllm:request_prefill_time_seconds",
                       "From the beginning of the prompt's computation to the first token.",
                       request_bounds_s, COUNT_OF(request_bounds_s)},
    [SERVE_DECODE] = {"vllm:request_decode_time_seconds", "From the first token to the last.",
                      request_bounds_s, COUNT_OF(request_bounds_s)},
    [SERVE_PROMPT_TOKENS] = {"vllm:request_prompt_tokens", "Prompt tokens of answered requests.",
                             NULL, 0},
    [SERVE_GENERATED_TOKENS] = {"vllm:request_generation_tokens",
                                "Generated tokens of answered requests.", NULL, 0},
    [SERVE_MAX_GENERATED] = {"vllm:request_max_num_generation_tokens",
                             "Tokens that an answered request could have had.", NULL, 0},
    [SERVE_ASKED_MAX_TOKENS] = {"vllm:request_params_max_tokens",
                                "max_tokens of answered requests that set it.", NULL, 0},
    [SERVE_COMPUTED_PROMPT] = {"vllm:request_prefill_kv_computed_tokens",
                               "Prompt tokens of answered requests that no cache had.", NULL, 0},
};

void serve_metrics_init(struct serve_metrics *metrics)
{
    *metrics = (struct serve_metrics){0};
    for (size_t i = 0; i < SERVE_HISTOGRAM_COUNT; i++)
        metric_histogram_init(&metrics->histograms[i], histogram_table[i].bounds,
                              histogram_table[i].bound_count);
}

void serve_metrics_set_context(struct serve_metrics *metrics, uint32_t context_tokens)
{
    for (size_t i = 0; i < SERVE_HISTOGRAM_COUNT; i++) {
        if (!histogram_table[i].bounds)
            metric_histogram_init_decades(&metrics->histograms[i], context_tokens);
    }
}

void serve_metrics_token(struct serve_metrics *metrics, const struct request_timeline *timeline,
                         uint64_t prompt_tokens, uint64_t cached_tokens, int64_t now_us)
{
    metrics->generated_tokens++;
    if (timeline->first_token_us) {
        metric_histogram_observe_us(&metrics->histograms[SERVE_BETWEEN_TOKENS],
                                    now_us - timeline->last_token_us);
        return;
    }
    metrics->prompt_tokens += prompt_tokens;
    metrics->cached_tokens += cached_tokens;
    metric_histogram_observe_us(&metrics->histograms[SERVE_FIRST_TOKEN],
                                now_us - timeline->arrived_us);
}

void serve_metrics_drafts(struct serve_metrics *metrics, uint32_t draft_tokens,
                          uint32_t draft_position)
{
    metrics->drafts += draft_tokens > 0;
    metrics->draft_tokens += draft_tokens;
    if (draft_position > 0)
        metrics->accepted_drafts[draft_position - 1]++;
}

static void observe_phases(struct metric_histogram *histograms,
                           const struct request_account *account)
{
    const struct request_timeline *at = &account->timeline;
    metric_histogram_observe_us(&histograms[SERVE_DECODE], at->last_token_us - at->first_token_us);
    if (account->generated_tokens > 1)
        metric_histogram_observe_us(&histograms[SERVE_PER_TOKEN],
                                    (at->last_token_us - at->first_token_us) /
                                        (int64_t)(account->generated_tokens - 1));
    metric_histogram_observe_us(&histograms[SERVE_QUEUE], at->scheduled_us - at->queued_us);
    metric_histogram_observe_us(&histograms[SERVE_PREFILL], at->first_token_us - at->scheduled_us);
    metric_histogram_observe_us(&histograms[SERVE_INFERENCE], at->last_token_us - at->scheduled_us);
}

void serve_metrics_end(struct serve_metrics *metrics, enum request_outcome outcome,
                       const struct request_account *account, int64_t now_us)
{
    metrics->outcomes[outcome]++;
    if (outcome != OUTCOME_STOP && outcome != OUTCOME_LENGTH)
        return;
    struct metric_histogram *histograms = metrics->histograms;
    metric_histogram_observe_us(&histograms[SERVE_WHOLE_REQUEST],
                                now_us - account->timeline.arrived_us);
    if (account->timeline.first_token_us)
        observe_phases(histograms, account);
    metric_histogram_observe(&histograms[SERVE_PROMPT_TOKENS], (double)account->prompt_tokens);
    metric_histogram_observe(&histograms[SERVE_GENERATED_TOKENS],
                             (double)account->generated_tokens);
    metric_histogram_observe(&histograms[SERVE_MAX_GENERATED], (double)account->max_generated);
    if (account->asked_max_tokens)
        metric_histogram_observe(&histograms[SERVE_ASKED_MAX_TOKENS],
                                 (double)account->asked_max_tokens);
    metric_histogram_observe(&histograms[SERVE_COMPUTED_PROMPT],
                             (double)account->prompt_tokens - (double)account->cached_tokens);
}

/* Steps by number of tokens, counted by the workers in classes with these bounds. */
static void write_step_tokens(const struct worker_totals *totals, struct metric_text *text)
{
    static const double bounds[] = WORKER_STEP_TOKENS_BOUNDS;
    struct metric_histogram histogram;
    metric_histogram_init(&histogram, bounds, COUNT_OF(bounds));
    for (size_t i = 0; i < WORKER_STEP_TOKENS_CLASSES; i++) {
        histogram.counts[i] = totals->step_tokens_classes[i];
        histogram.count += totals->step_tokens_classes[i];
    }
    histogram.sum = (double)(totals->prompt_tokens + totals->generated_tokens);
    metric_text_family(text, "vllm:iteration_tokens_total", METRIC_HISTOGRAM,
                       "Prompt tokens computed and tokens generated in one step of a worker.");
    metric_text_histogram(text, &histogram);
}

static void write_drafts(const struct serve_metrics *metrics, struct metric_text *text)
{
    uint64_t accepted = 0;
    for (uint32_t i = 0; i < LIMIT_DRAFT_TOKENS; i++)
        accepted += metrics->accepted_drafts[i];
    metric_text_value(text, "vllm:spec_decode_num_drafts_total", METRIC_COUNTER,
                      "Steps of a request that verified drafted tokens.", (double)metrics->drafts);
    metric_text_value(text, "vllm:spec_decode_num_draft_tokens_total", METRIC_COUNTER,
                      "Drafted tokens.", (double)metrics->draft_tokens);
    metric_text_value(text, "vllm:spec_decode_num_accepted_tokens_total", METRIC_COUNTER,
                      "Drafted tokens that were accepted.", (double)accepted);
    metric_text_family(text, "vllm:spec_decode_num_accepted_tokens_per_pos_total", METRIC_COUNTER,
                       "Drafted tokens that were accepted, by position in the draft.");
    for (uint32_t i = 0; i < LIMIT_DRAFT_TOKENS; i++) {
        char number[12];
        snprintf(number, sizeof number, "%u", i);
        struct metric_label position = {.name = "position", .value = number};
        metric_text_sample(text, &position, 1, (double)metrics->accepted_drafts[i]);
    }
}

void serve_metrics_write(const struct serve_metrics *metrics, const struct worker_totals *totals,
                         struct metric_text *text)
{
    static const char *const reasons[OUTCOME_COUNT] = {"stop", "length", "abort", "error"};
    metric_text_family(text, "vllm:request_success_total", METRIC_COUNTER,
                       "Requests ended, by reason.");
    for (size_t i = 0; i < OUTCOME_COUNT; i++) {
        struct metric_label reason = {.name = "finished_reason", .value = reasons[i]};
        metric_text_sample(text, &reason, 1, (double)metrics->outcomes[i]);
    }
    const struct {
        const char *name;
        const char *help;
        uint64_t value;
    } counters[] = {
        {"vllm:prompt_tokens_total", "Prompt tokens of requests that began to answer.",
         metrics->prompt_tokens},
        {"vllm:generation_tokens_total", "Tokens generated.", metrics->generated_tokens},
        {"vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
         metrics->prompt_tokens},
        {"vllm:prefix_cache_hits_total", "Prompt tokens that the prefix cache had.",
         metrics->cached_tokens},
        {"vllm:mm_cache_queries_total", "Images whose features a request needed.",
         totals->image_hits + totals->image_misses},
        {"vllm:mm_cache_hits_total", "Images whose features were there.", totals->image_hits},
        {"vllm:num_preemptions_total", "Sequences set back for lack of KV blocks.",
         totals->preemptions},
    };
    for (size_t i = 0; i < COUNT_OF(counters); i++)
        metric_text_value(text, counters[i].name, METRIC_COUNTER, counters[i].help,
                          (double)counters[i].value);
    for (size_t i = 0; i < SERVE_HISTOGRAM_COUNT; i++) {
        metric_text_family(text, histogram_table[i].name, METRIC_HISTOGRAM,
                           histogram_table[i].help);
        metric_text_histogram(text, &metrics->histograms[i]);
    }
    metric_text_family(text, "vllm:time_per_output_token_seconds", METRIC_HISTOGRAM,
                       "The former name of vllm:inter_token_latency_seconds.");
    metric_text_histogram(text, &metrics->histograms[SERVE_BETWEEN_TOKENS]);
    write_step_tokens(totals, text);
    write_drafts(metrics, text);
}

void serve_metrics_write_own(const struct serve_metrics *metrics,
                             const struct worker_totals *totals, struct metric_text *text)
{
    const struct {
        const char *name;
        const char *help;
        double value;
    } counters[] = {
        {"shoal_requests_refused_total", "Requests refused because the queue was full.",
         (double)metrics->refused_busy},
        {"shoal_image_evictions_total", "Images whose features were given up for others.",
         (double)totals->image_evictions},
        {"shoal_patch_rows_total", "Patches of images encoded.", (double)totals->patch_rows},
        {"shoal_grammar_requests_total", "Requests whose answer had to obey a grammar.",
         (double)totals->grammars},
        {"shoal_grammar_masks_total", "Masks computed for tokens of such answers.",
         (double)totals->grammar_masks},
        {"shoal_grammar_mask_seconds_total", "Time that workers spent on masks.",
         (double)totals->grammar_mask_us / 1e6},
        {"shoal_grammar_failures_total", "Requests that failed by their grammar while they ran.",
         (double)totals->grammar_failures},
        {"shoal_requests_replayed_total", "Requests that went on in another worker.",
         (double)metrics->requests_replayed},
        {"shoal_requests_quarantined_total", "Requests ended because workers died of them.",
         (double)metrics->requests_quarantined},
        {"shoal_worker_restarts_total", "Workers started again after one died.",
         (double)metrics->worker_restarts},
        {"shoal_worker_steps_total", "Steps of all workers.", (double)totals->steps},
        {"shoal_worker_step_seconds_total", "Time that workers spent in steps.",
         (double)totals->step_time_us / 1e6},
        {"shoal_worker_prompt_tokens_total",
         "Prompt tokens computed, with those computed again after a preemption or a death.",
         (double)totals->prompt_tokens},
        {"shoal_worker_implausible_counters_total",
         "Readings of workers' counters that fell or grew too fast, and were not used.",
         (double)totals->implausible},
        {"shoal_worker_rejected_records_total", "Submit records that workers refused.",
         (double)totals->rejected_records},
    };
    for (size_t i = 0; i < COUNT_OF(counters); i++)
        metric_text_value(text, counters[i].name, METRIC_COUNTER, counters[i].help,
                          counters[i].value);
}
