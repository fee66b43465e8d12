/*
 * Open loop: one timer, set to the next arrival of the process; all requests that are due are
 * started, and their delay against the plan is recorded, because a tool that falls behind measures
 * itself. Closed loop: the requested number at once, and each end starts the next.
 *
 * Prompts, arrivals and misbehaviour are drawn from three generators with separate seeds, so that
 * another rate sends the same prompts, and misbehaviour changes nothing else.
 */
#include "scripts/load/load_run.h"

#include <event2/event.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "proto/must.h"
#include "scripts/load/arrival_process.h"
#include "scripts/load/load_stream.h"

#define DISCONNECT_WITHIN_US 500000
#define CALIBRATION_SMALL    32u
#define CALIBRATION_LARGE    160u

struct load_run {
    struct load_run_config config;
    struct load_stream_config stream;
    struct event_base *base;
    struct event *arrival;
    struct event *signals[2];
    struct arrival_process process;
    struct load_random prompts;
    struct load_random choices;
    uint32_t words;
    struct load_record *records;  /* [started] */
    struct load_stream **running; /* [started], NULL if ended */
    size_t capacity;
    size_t started;
    size_t in_flight;
    int64_t due_us; /* of the next arrival */
    int64_t last_end_us;
    bool no_more;
    struct load_record probe; /* of a calibration's request */
};

/* --- one request ----------------------------------------------------------------------------- */

static void write_prompt(struct load_run *run, uint32_t words, uint32_t output_tokens,
                         struct text_buffer *out)
{
    const struct chat_dataset *dataset = run->config.dataset;
    if (dataset->count > 0) {
        chat_prompt_write_request(run->config.target,
                                  dataset->messages[run->started % dataset->count], output_tokens,
                                  out);
        return;
    }
    struct text_buffer messages = {0};
    chat_prompt_write_words(&run->prompts, words, &messages);
    must(!messages.failed);
    chat_prompt_write_request(run->config.target, messages.bytes, output_tokens, out);
    text_buffer_fini(&messages);
}

/* Draws whether and how the next request misbehaves. The same amount of random numbers is drawn in
 * any case. */
static struct load_stream_plan choose_plan(struct load_run *run)
{
    const struct load_options *options = run->config.options;
    struct load_random *choices = &run->choices;
    double lot = load_random_unit(choices);
    uint64_t way = load_random_below(choices, 4);
    struct load_stream_plan plan = {
        .reset = load_random_below(choices, 2) == 1,
        .disconnect_bytes = (uint32_t)load_random_below(choices, 400),
        .disconnect_pieces = 1 + (uint32_t)load_random_below(choices, options->output_tokens),
        .disconnect_delay_us = (int64_t)load_random_below(choices, DISCONNECT_WITHIN_US)};
    if (lot <= options->bad_request_share)
        plan.bad = true;
    else if (lot <= options->bad_request_share + options->disconnect_share)
        plan.disconnect = way == 0   ? LOAD_DISCONNECT_IN_REQUEST
                          : way == 1 ? LOAD_DISCONNECT_AFTER_REQUEST
                                     : LOAD_DISCONNECT_IN_ANSWER;
    return plan;
}

static void make_room(struct load_run *run)
{
    if (run->started < run->capacity)
        return;
    run->capacity = run->capacity ? 2 * run->capacity : 1024;
    run->records = realloc(run->records, run->capacity * sizeof run->records[0]);
    run->running = realloc(run->running, run->capacity * sizeof(struct load_stream *));
    must(run->records && run->running);
}

static void start_one(struct load_run *run, int64_t planned_us)
{
    struct text_buffer request = {0};
    struct load_stream_plan plan = choose_plan(run);
    if (plan.bad)
        chat_prompt_write_bad(run->config.target, &run->choices, &request);
    else
        write_prompt(run, run->words, (uint32_t)run->config.options->output_tokens, &request);
    make_room(run);
    size_t at = run->started++;
    run->in_flight++;
    run->records[at] = (struct load_record){
        .late_us = planned_us < 0 ? 0 : load_clock_us() - run->stream.begin_us - planned_us};
    run->running[at] = load_stream_start(&run->stream, &request, &plan, at);
    text_buffer_fini(&request);
}

/* --- the loops ------------------------------------------------------------------------------- */

static bool may_start(const struct load_run *run, int64_t at_us)
{
    const struct load_options *options = run->config.options;
    return !run->no_more && run->started < options->num_requests &&
           (options->duration_s == 0 || (double)at_us < options->duration_s * 1e6);
}

static void end_check(struct load_run *run)
{
    if (run->no_more && run->in_flight == 0)
        event_base_loopbreak(run->base);
}

/* Starts all requests that are due, and sets the timer to the next. */
static void on_arrival(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct load_run *run = context;
    for (;;) {
        if (!may_start(run, run->due_us)) {
            run->no_more = true;
            break;
        }
        int64_t wait_us = run->due_us - (load_clock_us() - run->stream.begin_us);
        if (wait_us > 0) {
            struct timeval after = {.tv_sec = wait_us / 1000000,
                                    .tv_usec = (suseconds_t)(wait_us % 1000000)};
            event_add(run->arrival, &after);
            return;
        }
        start_one(run, run->due_us);
        run->due_us = arrival_process_next_us(&run->process);
    }
    end_check(run);
}

static void on_done(void *context, struct load_stream *stream, struct load_record *record)
{
    struct load_run *run = context;
    uint64_t at = load_stream_tag(stream);
    int64_t late_us = run->records[at].late_us;
    run->records[at] = *record;
    run->records[at].late_us = late_us;
    run->running[at] = NULL;
    run->in_flight--;
    int64_t now_us = load_clock_us() - run->stream.begin_us;
    run->last_end_us = now_us;
    if (run->config.options->concurrency > 0) {
        if (may_start(run, now_us))
            start_one(run, -1);
        else
            run->no_more = true;
    }
    end_check(run);
}

static void on_signal(int number, short what, void *context)
{
    (void)number;
    (void)what;
    struct load_run *run = context;
    run->no_more = true;
    event_del(run->arrival);
    for (size_t i = 0; i < run->started; i++) {
        if (run->running[i])
            load_stream_stop(run->running[i]);
    }
    end_check(run);
}

void load_run_drive(struct load_run *run)
{
    const struct load_options *options = run->config.options;
    run->stream.begin_us = load_clock_us();
    run->stream.done = on_done;
    if (options->concurrency > 0) {
        for (uint64_t i = 0; i < options->concurrency && may_start(run, 0); i++)
            start_one(run, -1);
    } else {
        run->due_us = arrival_process_next_us(&run->process);
        on_arrival(-1, 0, run);
    }
    event_base_dispatch(run->base);
}

/* --- calibration ----------------------------------------------------------------------------- */

static void on_probe_done(void *context, struct load_stream *stream, struct load_record *record)
{
    (void)stream;
    struct load_run *run = context;
    run->probe = *record;
    load_record_fini(&run->probe);
    event_base_loopbreak(run->base);
}

/* The number of prompt tokens that the server counts for `words` words. */
static enum result ask(struct load_run *run, uint32_t words, double *tokens,
                       struct error_text *error)
{
    struct text_buffer request = {0};
    struct load_stream_plan plan = {0};
    write_prompt(run, words, 1, &request);
    run->stream.done = on_probe_done;
    load_stream_start(&run->stream, &request, &plan, 0);
    text_buffer_fini(&request);
    event_base_dispatch(run->base);
    if (run->probe.outcome != LOAD_COMPLETED)
        return error_set(error, RESULT_IO, "measuring the length of a prompt: %s (%s)",
                         load_outcome_name(run->probe.outcome), run->probe.error);
    if (!run->probe.has_usage)
        return error_set(error, RESULT_UNSUPPORTED,
                         "the server reports no usage: set --input-words instead");
    *tokens = run->probe.input_tokens;
    return RESULT_OK;
}

enum result load_run_calibrate(struct load_run *run, struct error_text *error)
{
    double small = 0;
    double large = 0;
    enum result result = ask(run, CALIBRATION_SMALL, &small, error);
    if (result == RESULT_OK)
        result = ask(run, CALIBRATION_LARGE, &large, error);
    if (result != RESULT_OK)
        return result;
    double per_word = (large - small) / (CALIBRATION_LARGE - CALIBRATION_SMALL);
    if (!(per_word > 0))
        return error_set(error, RESULT_INVALID, "more words do not give more tokens");
    double overhead = small - CALIBRATION_SMALL * per_word;
    double words = round(((double)run->config.options->input_tokens - overhead) / per_word);
    run->words = words < 1 ? 1 : words > CHAT_PROMPT_WORDS ? CHAT_PROMPT_WORDS : (uint32_t)words;
    return RESULT_OK;
}

/* --- create and destroy ----------------------------------------------------------------------- */

struct load_run *load_run_create(const struct load_run_config *config)
{
    const struct load_options *options = config->options;
    struct load_run *run = must_alloc(1, sizeof *run);
    run->config = *config;
    run->words = (uint32_t)options->input_words;
    run->base = event_base_new();
    must(run->base != NULL);
    run->stream =
        (struct load_stream_config){.base = run->base,
                                    .address = (const struct sockaddr *)&config->address->address,
                                    .address_bytes = config->address->bytes,
                                    .timeout_us = (int64_t)(options->timeout_s * 1e6),
                                    .begin_us = load_clock_us(),
                                    .context = run};
    arrival_process_init(&run->process, options->request_rate > 0 ? options->request_rate : 1,
                         options->burstiness, options->seed);
    load_random_init(&run->prompts, options->seed ^ 0x70726f6d7074u);
    load_random_init(&run->choices, options->seed ^ 0x63686f696365u);
    run->arrival = event_new(run->base, -1, 0, on_arrival, run);
    must(run->arrival != NULL);
    static const int numbers[2] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        run->signals[i] = evsignal_new(run->base, numbers[i], on_signal, run);
        must(run->signals[i] && event_add(run->signals[i], NULL) == 0);
    }
    return run;
}

void load_run_destroy(struct load_run *run)
{
    if (!run)
        return;
    for (size_t i = 0; i < run->started; i++)
        load_record_fini(&run->records[i]);
    free(run->records);
    free(run->running);
    event_free(run->arrival);
    event_free(run->signals[0]);
    event_free(run->signals[1]);
    event_base_free(run->base);
    free(run);
}

const struct load_record *load_run_records(const struct load_run *run, size_t *count)
{
    *count = run->started;
    return run->records;
}

double load_run_duration_s(const struct load_run *run)
{
    return (double)run->last_end_us / 1e6;
}
