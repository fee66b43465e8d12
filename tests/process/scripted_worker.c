/*
 * A worker without a model that answers with scripted text, for tests of the frontend: tool calls,
 * reasoning, agents of many turns, with text that no small model would write. It is not a test
 * itself; the frontend starts it in place of shoal-worker (tests/api/scripted_server.py), as
 *
 *     scripted_worker SCRIPT <the flags of shoal-worker>
 *
 * SCRIPT is a JSON list, read anew for each request: the k-th request since this worker's start
 * gets the list's k-th answer. An answer is a string, or an object:
 *
 *     {"text": "…",            marks in it (special tokens' text) become their tokens
 *      "finish": "length",     it ends there without a stop token; else it ends with one
 *      "token_ms": 50,         pause before each token
 *      "step_us": 5000,        instead: all such answers get a token at each multiple of this time
 *      "cycle": true,          the text is repeated up to the request's max_tokens
 *      "repeat": true}         all requests from here on get it
 *
 * "{images}" in a text becomes a description of the request's images: of each its width, height and
 * tiles, the position and number of its placeholders, and its first pixel.
 *
 * A forced prefix (proto/run_params.h) comes first, where the request has one; a thinking budget
 * is not kept. A token's log-probability is -0.125 * (1 + id % 4), that of its alternatives falls
 * from there. A request beyond the list fails.
 */
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontend/base/text_buffer.h"
#include "frontend/prompt/tokenizer/tokenizer.h"
#include "proto/gguf_file.h"
#include "proto/log.h"
#include "proto/mapped_file.h"
#include "proto/must.h"
#include "shm/peer_watch.h"
#include "worker/schedule/frontend_link.h"
#include "worker/schedule/gauge_board.h"
#include "worker/schedule/worker_options.h"

#define ANSWERS_AT_ONCE LIMIT_SEQUENCES
#define CONTEXT_TOKENS  8192u
#define TICK_MS         1
#define TICK_US         1000

struct scripted_answer {
    bool live;
    struct sequence_request request;
    uint32_t *tokens; /* [count] */
    uint32_t count;
    uint32_t next;
    bool ends_with_stop;
    bool cycles;
    int64_t token_us;
    int64_t step_us; /* 0: none */
    int64_t due_us;
};

struct scripted_worker {
    const char *script;
    struct tokenizer *tokenizer;
    struct frontend_link *link;
    struct worker_gauges *gauges;
    uint32_t requests; /* seen so far */
    bool draining;
    struct scripted_answer answers[ANSWERS_AT_ONCE];
};

static int64_t clock_us(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* --- the script ------------------------------------------------------------------------------ */

/* The entry for the next request, or NULL. One that repeats is the list's last. */
static cJSON *script_take(struct scripted_worker *worker)
{
    struct error_text error;
    struct mapped_file file;
    if (mapped_file_open(AT_FDCWD, worker->script, &file, &error) != RESULT_OK)
        return NULL;
    cJSON *list = cJSON_ParseWithLength((const char *)file.bytes, file.byte_count);
    int last = cJSON_GetArraySize(list) - 1;
    int at = (int)worker->requests++;
    if (at > last && cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetArrayItem(list, last), "repeat")))
        at = last;
    cJSON *entry = cJSON_DetachItemFromArray(list, at);
    cJSON_Delete(list);
    mapped_file_close(&file);
    return entry;
}

/* Where `part` first ends in the tokens; 0 where it is not. */
static uint32_t behind(const struct token_list *tokens, const uint32_t *part, uint32_t count)
{
    for (uint32_t at = 0; count > 0 && at + count <= tokens->count; at++) {
        if (memcmp(tokens->ids + at, part, count * sizeof *part) == 0)
            return at + count;
    }
    return 0;
}

/* "16x8x1 at 5 of 2 is 255 0 0, 32x16x1 at …" */
static void images_describe(const struct sequence_images *images, struct text_buffer *out)
{
    for (uint32_t i = 0; i < images->count; i++) {
        const struct image_record *record = &images->records[i];
        const uint8_t *pixel = sequence_images_pixels(images, i);
        text_buffer_append_format(out, "%s%ux%ux%u at %u of %u is %u %u %u", i > 0 ? ", " : "",
                                  record->width, record->height, record->tiles, record->first_token,
                                  record->token_count, pixel[0], pixel[1], pixel[2]);
    }
}

/* The script's text with {images} replaced. */
static void text_fill(const char *written, const struct sequence_images *images,
                      struct text_buffer *out)
{
    static const char mark[] = "{images}";
    const char *found = strstr(written, mark);
    size_t before = found ? (size_t)(found - written) : strlen(written);
    text_buffer_append(out, written, before);
    if (found) {
        images_describe(images, out);
        text_buffer_append_text(out, found + sizeof mark - 1);
    }
    must(!out->failed);
}

/* The script's text with the forced prefix in its place. */
static void answer_fill(struct scripted_worker *worker, struct scripted_answer *answer,
                        const char *written)
{
    struct text_buffer text = {0};
    text_fill(written, &answer->request.images, &text);
    const struct sequence_request *request = &answer->request;
    struct prompt_span span = {.text = text.bytes, .text_bytes = text.length, .trusted = true};
    struct token_list own = {0};
    must(tokenizer_encode(worker->tokenizer, &span, 1, CONTEXT_TOKENS, NULL, &own) == RESULT_OK);
    uint32_t at = 0;
    if (request->run.flags & SUBMIT_FLAG_THINKING_OPEN)
        at = behind(
            &own, request->forced_ids + request->run.prefix_count + request->run.think_start_count,
            request->run.think_end_count);
    uint32_t total = (uint32_t)own.count + request->run.prefix_count;
    answer->tokens = must_alloc(total + 1, sizeof *answer->tokens);
    memcpy(answer->tokens, own.ids, at * sizeof *own.ids);
    if (request->run.prefix_count > 0)
        memcpy(answer->tokens + at, request->forced_ids,
               request->run.prefix_count * sizeof *own.ids);
    memcpy(answer->tokens + at + request->run.prefix_count, own.ids + at,
           (own.count - at) * sizeof *own.ids);
    answer->count = total;
    if (answer->ends_with_stop)
        answer->tokens[answer->count++] = request->stop_ids[0];
    token_list_fini(&own);
    text_buffer_fini(&text);
}

/* --- one answer ------------------------------------------------------------------------------ */

static void answer_end(struct scripted_answer *answer)
{
    sequence_request_fini(&answer->request);
    free(answer->tokens);
    *answer = (struct scripted_answer){0};
}

static void next_token_plan(struct scripted_answer *answer)
{
    int64_t now_us = clock_us();
    answer->due_us = answer->step_us > 0 ? (now_us / answer->step_us + 1) * answer->step_us
                                         : now_us + answer->token_us;
}

static int64_t member_whole(const cJSON *entry, const char *name)
{
    const cJSON *member = cJSON_GetObjectItem(entry, name);
    return cJSON_IsNumber(member) ? member->valueint : 0;
}

static void tell_alternatives(struct scripted_worker *worker, struct request_id request,
                              uint32_t wanted, uint32_t token, float logprob)
{
    for (uint32_t told = 0; told < wanted;) {
        struct token_event event = {.kind = TOKEN_EVENT_ALTERNATIVES, .request = request};
        uint32_t count = 0;
        while (count < TOKEN_EVENT_ALTERNATIVES_MAX && told < wanted) {
            event.alternatives[count].token =
                (token + told) % tokenizer_vocab_tokens(worker->tokenizer);
            event.alternatives[count++].logprob = logprob - 0.5f * (float)told++;
        }
        event.alternative_count = count;
        frontend_link_emit(worker->link, &event);
    }
}

/* Log-probabilities of the prompt: of token t at place p, -(t + p) % 8, and rank 1. */
static void tell_scores(struct scripted_worker *worker, const struct sequence_request *request)
{
    const struct run_params *run = &request->run;
    uint32_t end = run->prompt_tokens - run->generated_tokens;
    for (uint32_t at = run->score_from; at > 0 && at < end; at++) {
        float logprob = -(float)((request->tokens[at] + at) % 8);
        tell_alternatives(worker, request->id, run->score_top, request->tokens[at], logprob);
        frontend_link_emit(worker->link, &(struct token_event){.kind = TOKEN_EVENT_PROMPT_TOKEN,
                                                               .request = request->id,
                                                               .token = request->tokens[at],
                                                               .index = at,
                                                               .rank = 1,
                                                               .logprob = logprob});
    }
}

static void answer_begin(struct scripted_worker *worker, struct sequence_request *request)
{
    struct scripted_answer *answer = worker->answers;
    while (answer->live)
        must(++answer < worker->answers + ANSWERS_AT_ONCE);
    cJSON *entry = script_take(worker);
    const cJSON *text = cJSON_IsObject(entry) ? cJSON_GetObjectItem(entry, "text") : entry;
    if (!cJSON_IsString(text)) {
        log_error("the script has no answer %u", worker->requests);
        frontend_link_emit_failed(worker->link, request->id, RESULT_INVALID);
        sequence_request_fini(request);
        cJSON_Delete(entry);
        return;
    }
    bool cycles = cJSON_IsTrue(cJSON_GetObjectItem(entry, "cycle"));
    *answer = (struct scripted_answer){.live = true,
                                       .request = *request,
                                       .ends_with_stop = !cycles &&
                                                         !cJSON_GetObjectItem(entry, "finish") &&
                                                         request->run.stop_token_count > 0,
                                       .cycles = cycles,
                                       .token_us = 1000 * member_whole(entry, "token_ms"),
                                       .step_us = member_whole(entry, "step_us"),
                                       .next = request->run.generated_tokens};
    answer_fill(worker, answer, text->valuestring);
    must(!cycles || answer->count > 0);
    next_token_plan(answer);
    frontend_link_emit(worker->link,
                       &(struct token_event){.kind = TOKEN_EVENT_PROGRESS,
                                             .request = request->id,
                                             .prompt_done = request->run.prompt_tokens,
                                             .prompt_total = request->run.prompt_tokens});
    tell_scores(worker, &answer->request);
    cJSON_Delete(entry);
}

static void answer_step(struct scripted_worker *worker, struct scripted_answer *answer)
{
    const struct sequence_request *request = &answer->request;
    bool has_room = answer->next < request->run.generated_tokens + request->run.max_new_tokens;
    if ((answer->next < answer->count || answer->cycles) && has_room) {
        uint32_t token = answer->tokens[answer->next % answer->count];
        bool with_logprob = request->run.flags & SUBMIT_FLAG_LOGPROBS;
        float logprob = with_logprob ? -0.125f * (float)(1 + token % 4) : 0;
        tell_alternatives(worker, answer->request.id, answer->request.run.top_logprobs, token,
                          logprob);
        frontend_link_emit(worker->link, &(struct token_event){.kind = TOKEN_EVENT_TOKEN,
                                                               .request = request->id,
                                                               .token = token,
                                                               .index = answer->next,
                                                               .logprob = logprob});
        answer->next++;
        next_token_plan(answer);
        return;
    }
    bool stopped = answer->ends_with_stop && answer->next == answer->count;
    frontend_link_emit_finished(worker->link, request->id,
                                stopped ? FINISH_STOP_TOKEN : FINISH_LENGTH);
    answer_end(answer);
}

/* --- the loop -------------------------------------------------------------------------------- */

static void command_take(struct scripted_worker *worker, struct frontend_command *command)
{
    if (command->kind == SUBMIT_DRAIN)
        worker->draining = true;
    if (command->kind == SUBMIT_VOCABULARY)
        free(command->vocabulary.payload);
    if (command->kind == SUBMIT_RUN)
        answer_begin(worker, &command->sequence);
    for (uint32_t i = 0; command->kind == SUBMIT_CANCEL && i < ANSWERS_AT_ONCE; i++) {
        struct scripted_answer *answer = &worker->answers[i];
        if (!answer->live || answer->request.id.slot != command->request.slot ||
            answer->request.id.generation != command->request.generation)
            continue;
        frontend_link_emit_finished(worker->link, command->request, FINISH_CANCELLED);
        answer_end(answer);
    }
}

/* Whether any is live; those that are due go on by one token. *step_us: the time of the next step. */
static bool answers_step(struct scripted_worker *worker, int64_t *step_us)
{
    bool any = false;
    int64_t now_us = clock_us();
    *step_us = INT64_MAX;
    for (uint32_t i = 0; i < ANSWERS_AT_ONCE; i++) {
        struct scripted_answer *answer = &worker->answers[i];
        if (answer->live && now_us >= answer->due_us)
            answer_step(worker, answer);
        any = any || answer->live;
        if (answer->live && answer->step_us > 0 && answer->due_us < *step_us)
            *step_us = answer->due_us;
    }
    return any;
}

/* Waits a tick, or until the next step if that is near. True if the parent has died. */
static bool answers_wait(struct scripted_worker *worker, int64_t step_us)
{
    struct timespec step = {.tv_sec = step_us / 1000000, .tv_nsec = step_us % 1000000 * 1000};
    if (step_us - clock_us() > 2 * TICK_US)
        return frontend_link_sleep_for_room(worker->link, TICK_MS);
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &step, NULL);
    return false;
}

static enum result run(struct scripted_worker *worker)
{
    bool any = false;
    int64_t step_us;
    while (any || !worker->draining) {
        struct frontend_command command;
        enum result result;
        while ((result = frontend_link_take(worker->link, &command)) == RESULT_OK)
            command_take(worker, &command);
        if (result == RESULT_CORRUPT)
            return result;
        any = answers_step(worker, &step_us);
        gauge_board_beat(worker->gauges);
        while ((result = frontend_link_flush(worker->link)) == RESULT_FULL)
            (void)frontend_link_sleep_for_room(worker->link, TICK_MS);
        if (result == RESULT_CORRUPT)
            return result;
        if (any ? answers_wait(worker, step_us)
                : !worker->draining && frontend_link_sleep(worker->link))
            return RESULT_PEER_GONE;
    }
    return RESULT_OK;
}

/* Of a GGUF file, or of a folder with a tokenizer.json. */
static void tokenizer_open(struct scripted_worker *worker, const char *model)
{
    struct error_text error;
    struct mapped_file file;
    struct gguf_file *gguf = NULL;
    char path[4200];
    snprintf(path, sizeof path, "%s/tokenizer.json", model);
    if (mapped_file_open(AT_FDCWD, path, &file, &error) == RESULT_OK) {
        must(tokenizer_open_json((const char *)file.bytes, file.byte_count, &worker->tokenizer,
                                 &error) == RESULT_OK);
        mapped_file_close(&file);
        return;
    }
    must(mapped_file_open(AT_FDCWD, model, &file, &error) == RESULT_OK);
    must(gguf_file_open(file.bytes, file.byte_count, &gguf, &error) == RESULT_OK);
    must(tokenizer_open_gguf(gguf, &worker->tokenizer, &error) == RESULT_OK);
    gguf_file_close(gguf);
    mapped_file_close(&file);
}

static void attach(struct scripted_worker *worker, const struct worker_options *options)
{
    struct error_text error;
    struct frontend_link_fds fds = {.segment = options->segment_fd,
                                    .submit_bell = options->submit_bell_fd,
                                    .event_bell = options->event_bell_fd,
                                    .parent = -1};
    must(peer_watch_die_with_parent((pid_t)options->parent_pid) == RESULT_OK);
    must(peer_watch_open((pid_t)options->parent_pid, &fds.parent, &error) == RESULT_OK);
    must(frontend_link_open(&fds, &worker->link, &error) == RESULT_OK);
    worker->gauges = frontend_link_gauges(worker->link);
    uint32_t vocab_tokens = tokenizer_vocab_tokens(worker->tokenizer);
    frontend_link_set_vocabulary(worker->link, vocab_tokens);
    gauge_board_set_ready(worker->gauges,
                          &(struct gauge_ready){.vocab_tokens = vocab_tokens,
                                                .context_tokens = options->context_tokens
                                                                      ? options->context_tokens
                                                                      : CONTEXT_TOKENS,
                                                .max_sequences = options->max_sequences,
                                                .kv_blocks_total = 1,
                                                .kv_block_tokens = CONTEXT_TOKENS,
                                                .backend = "scripted"});
    frontend_link_ring(worker->link);
}

int main(int argc, char **argv)
{
    static struct scripted_worker worker;
    struct worker_options options;
    struct error_text error;
    if (argc < 2)
        return 2;
    worker.script = argv[1];
    argv[1] = argv[0];
    if (worker_options_parse(argc - 1, argv + 1, &options, &error) != RESULT_OK) {
        fprintf(stderr, "scripted_worker: %s\n", error.text);
        return 2;
    }
    log_init("scripted worker", options.log_level);
    log_set_format(options.log_format);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    tokenizer_open(&worker, options.model);
    attach(&worker, &options);
    enum result result = run(&worker);
    frontend_link_close(worker.link);
    tokenizer_close(worker.tokenizer);
    return result == RESULT_OK || result == RESULT_PEER_GONE ? 0 : 3;
}
