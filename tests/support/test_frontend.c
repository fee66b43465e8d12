/*
 * The frontend's side of the contract of proto/submit_record.h and proto/token_event.h, without HTTP.
 * It runs in one process with an engine, or beside a spawned worker.
 */
#include "tests/support/test_frontend.h"
#include "proto/submit_payload.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/must.h"

#define VOCABULARY_GENERATION UINT32_MAX /* of no request */

struct test_request test_request_of(const uint32_t *prompt, uint32_t prompt_tokens,
                                    uint32_t max_new_tokens)
{
    return (struct test_request){.prompt = prompt,
                                 .prompt_tokens = prompt_tokens,
                                 .max_new_tokens = max_new_tokens,
                                 .sampling = sampling_params_default()};
}

struct test_frontend *test_frontend_create(const struct test_frontend_sizes *sizes)
{
    struct test_frontend *frontend = must_alloc(1, sizeof *frontend);
    process_pair_open(&frontend->pair, sizes->submit_capacity, sizes->event_capacity,
                      sizes->slab_bytes);
    frontend->slab = payload_slab_create(frontend->pair.segment.slab, sizes->slab_bytes);
    frontend->vocab_tokens = sizes->vocab_tokens;
    return frontend;
}

void test_frontend_destroy(struct test_frontend *frontend)
{
    for (uint32_t slot = 0; slot < LIMIT_LIVE_REQUESTS; slot++) {
        free(frontend->replies[slot].tokens);
        free(frontend->replies[slot].logprobs);
        free(frontend->replies[slot].alternatives);
        free(frontend->replies[slot].alternative_counts);
        free(frontend->replies[slot].scores);
    }
    payload_slab_destroy(frontend->slab);
    process_pair_close(&frontend->pair);
    free(frontend);
}

static void write_payload(void *payload, const struct run_params *run,
                          const struct test_request *request)
{
    const uint32_t prefix = request->prefix_count;
    const struct submit_piece pieces[] = {
        {SUBMIT_PROMPT_IDS, request->prompt, 0, request->prompt_tokens},
        {SUBMIT_STOP_IDS, request->stop_ids, 0, request->stop_token_count},
        {SUBMIT_LOGIT_BIAS, request->logit_bias, 0, request->logit_bias_count},
        {SUBMIT_PREFIX_IDS, request->forced_ids, 0, prefix},
        {SUBMIT_THINK_START_IDS, request->forced_ids, prefix, request->think_start_count},
        {SUBMIT_THINK_END_IDS, request->forced_ids, prefix + request->think_start_count,
         request->think_end_count},
        {SUBMIT_GRAMMAR, request->grammar, 0, request->grammar_bytes},
        {SUBMIT_IMAGES, request->image_part, 0, request->image_bytes}};
    submit_payload_write(run, pieces, sizeof pieces / sizeof pieces[0], payload);
}

void test_frontend_send(struct test_frontend *frontend, const struct submit_record *record)
{
    void *slot;
    must(spsc_ring_claim(&frontend->pair.submit, &slot) == RESULT_OK);
    memcpy(slot, record, sizeof *record);
    spsc_ring_commit(&frontend->pair.submit);
    doorbell_ring(&frontend->pair.submit_bell);
}

/* Room for one more token. */
static void reserve(struct test_reply *reply)
{
    if (reply->token_count < reply->token_capacity)
        return;
    uint32_t capacity = reply->token_capacity ? 2 * reply->token_capacity : 16;
    reply->token_capacity = capacity;
    reply->tokens = realloc(reply->tokens, capacity * sizeof *reply->tokens);
    reply->logprobs = realloc(reply->logprobs, capacity * sizeof *reply->logprobs);
    reply->alternatives =
        realloc(reply->alternatives, capacity * LIMIT_TOP_LOGPROBS * sizeof *reply->alternatives);
    reply->alternative_counts =
        realloc(reply->alternative_counts, capacity * sizeof *reply->alternative_counts);
    must(reply->tokens && reply->logprobs && reply->alternatives && reply->alternative_counts);
}

static void expect_scores(struct test_reply *reply, const struct test_request *request)
{
    reply->score_from = request->score_from;
    reply->score_top = request->score_top;
    reply->score_end = request->prompt_tokens - request->generated_tokens;
    reply->score_count = 0;
    free(reply->scores);
    reply->scores = must_alloc(request->prompt_tokens, sizeof *reply->scores);
}

bool test_frontend_submit(struct test_frontend *frontend, uint32_t slot,
                          const struct test_request *request)
{
    struct test_reply *reply = &frontend->replies[slot];
    must(!reply->live);
    struct submit_record record = {
        .kind = SUBMIT_RUN,
        .run.flags = request->flags,
        .request = {.slot = slot, .generation = reply->id.generation + 1},
        .run.prompt_tokens = request->prompt_tokens,
        .run.generated_tokens = request->generated_tokens,
        .run.max_new_tokens = request->max_new_tokens,
        .run.logit_bias_count = request->logit_bias_count,
        .run.stop_token_count = request->stop_token_count,
        .run.sampling = request->sampling,
        .run.min_tokens = request->min_tokens,
        .run.top_logprobs = request->top_logprobs,
        .run.prefix_count = request->prefix_count,
        .run.think_start_count = request->think_start_count,
        .run.think_end_count = request->think_end_count,
        .run.thinking_budget = request->thinking_budget,
        .run.grammar_bytes = request->grammar_bytes,
        .run.image_bytes = request->image_bytes,
        .run.image_count = request->image_count,
        .run.cache_salt = {request->cache_salt},
        .run.score_from = request->score_from,
        .run.score_top = request->score_top,
    };
    record.payload_bytes = submit_payload_bytes(&record.run);
    if (spsc_ring_free(&frontend->pair.submit) == 0)
        return false;
    struct payload_ref ref;
    void *payload;
    if (payload_slab_take(frontend->slab, record.payload_bytes, &ref, &payload) != RESULT_OK)
        return false;
    write_payload(payload, &record.run, request);
    record.payload_offset = ref.offset;
    record.payload_generation = ref.generation;

    reply->live = true;
    reply->id = record.request;
    reply->first_index = request->generated_tokens;
    reply->token_count = 0;
    reply->drafted = reply->accepted = 0;
    reply->cached_tokens = 0;
    reply->top_logprobs = request->top_logprobs;
    expect_scores(reply, request);
    reserve(reply);
    reply->alternative_counts[0] = 0;
    reply->prompt_done = 0;
    reply->prompt_total = request->prompt_tokens;
    reply->payload_done = false;
    reply->finish = FINISH_NONE;
    reply->failure = RESULT_OK;
    frontend->live_count++;
    test_frontend_send(frontend, &record);
    return true;
}

void test_frontend_send_vocabulary(struct test_frontend *frontend,
                                   const struct token_table_sizes *sizes, const void *payload)
{
    struct submit_record record = {.kind = SUBMIT_VOCABULARY,
                                   .request = {.generation = VOCABULARY_GENERATION},
                                   .payload_bytes = token_table_bytes(sizes),
                                   .vocabulary = *sizes};
    struct payload_ref ref;
    void *place;
    must(payload_slab_take(frontend->slab, record.payload_bytes, &ref, &place) == RESULT_OK);
    memcpy(place, payload, record.payload_bytes);
    record.payload_offset = ref.offset;
    record.payload_generation = ref.generation;
    test_frontend_send(frontend, &record);
}

void test_frontend_send_bytes(struct test_frontend *frontend)
{
    static uint32_t payload[256 + 2 + 256 / 4];
    must(frontend->vocab_tokens <= 256);
    const struct token_table_sizes sizes = {frontend->vocab_tokens, 1, frontend->vocab_tokens - 1};
    struct token_table table = token_table_place(&sizes, payload);
    table.offsets[0] = 0;
    table.end_tokens[0] = 0;
    for (uint32_t token = 0; token < frontend->vocab_tokens; token++) {
        table.offsets[token + 1] = token;
        if (token > 0)
            table.text[token - 1] = (uint8_t)token;
    }
    test_frontend_send_vocabulary(frontend, &sizes, payload);
}

void test_frontend_cancel(struct test_frontend *frontend, uint32_t slot)
{
    struct submit_record record = {.kind = SUBMIT_CANCEL, .request = frontend->replies[slot].id};
    test_frontend_send(frontend, &record);
}

void test_frontend_drain(struct test_frontend *frontend)
{
    test_frontend_send(frontend, &(struct submit_record){.kind = SUBMIT_DRAIN});
}

void test_frontend_reset_cache(struct test_frontend *frontend)
{
    test_frontend_send(frontend, &(struct submit_record){.kind = SUBMIT_RESET});
}

static bool expects_score(const struct test_reply *reply)
{
    return reply->score_from > 0 && reply->score_from + reply->score_count < reply->score_end;
}

static void take_score(const struct test_frontend *frontend, struct test_reply *reply,
                       const struct token_event *event)
{
    must(expects_score(reply) && reply->token_count == 0);
    must(event->index == reply->score_from + reply->score_count);
    must(event->index <= reply->prompt_done);
    must(reply->alternative_counts[0] == reply->score_top);
    must(event->rank >= 1 && event->rank <= frontend->vocab_tokens);
    reply->alternative_counts[0] = 0;
    reply->scores[reply->score_count++] = event->logprob;
}

static void take_alternatives(struct test_reply *reply, const struct token_event *event)
{
    uint32_t *have = &reply->alternative_counts[reply->token_count];
    struct token_logprob *to = reply->alternatives + reply->token_count * LIMIT_TOP_LOGPROBS;
    must((expects_score(reply) ? reply->score_top : reply->top_logprobs) - *have >=
         event->alternative_count);
    must(*have == 0 || to[*have - 1].logprob >= event->alternatives[0].logprob);
    for (uint32_t i = 0; i < event->alternative_count; i++)
        to[(*have)++] = event->alternatives[i];
}

/* Accepted drafts come in the order of their positions. */
static void take_drafts(struct test_frontend *frontend, struct test_reply *reply,
                        const struct token_event *event)
{
    if (event->draft_tokens > 0) {
        reply->drafted = event->draft_tokens;
        reply->accepted = 0;
        frontend->draft_tokens += event->draft_tokens;
    }
    if (event->draft_position > 0) {
        must(event->draft_position == ++reply->accepted && reply->accepted <= reply->drafted);
        frontend->accepted_drafts[event->draft_position]++;
    }
}

static void take_token(struct test_reply *reply, const struct token_event *event)
{
    must(event->index == reply->first_index + reply->token_count);
    must(reply->prompt_done == reply->prompt_total && !expects_score(reply));
    must(event->cached_tokens < reply->prompt_total);
    must(reply->token_count == 0 || event->cached_tokens == reply->cached_tokens);
    reply->cached_tokens = event->cached_tokens;
    reply->tokens[reply->token_count] = event->token;
    reply->logprobs[reply->token_count] = event->logprob;
    reply->cached_images = event->cached_images;
    reply->token_count++;
    reserve(reply);
    reply->alternative_counts[reply->token_count] = 0;
}

static void take_event(struct test_frontend *frontend, const struct token_event *event)
{
    must(token_event_check(event, frontend->vocab_tokens, frontend->pair.segment.slab_bytes,
                           NULL) == RESULT_OK);
    struct test_reply *reply = &frontend->replies[event->request.slot];
    if (event->kind == TOKEN_EVENT_PAYLOAD_DONE &&
        event->request.generation == VOCABULARY_GENERATION) {
        must(payload_slab_give(frontend->slab, event->payload_offset, event->payload_generation) ==
             RESULT_OK);
        return;
    }
    if (event->request.generation != reply->id.generation)
        return; /* reply to a record that a test made itself */
    must(reply->live);
    switch ((enum token_event_kind)event->kind) {
    case TOKEN_EVENT_TOKEN:
        take_drafts(frontend, reply, event);
        take_token(reply, event);
        break;
    case TOKEN_EVENT_PROMPT_TOKEN: take_score(frontend, reply, event); break;
    case TOKEN_EVENT_ALTERNATIVES: take_alternatives(reply, event); break;
    case TOKEN_EVENT_VECTOR: /* these workers do not pool, and are asked for no adapter */
    case TOKEN_EVENT_ADAPTER: must(false); break;
    case TOKEN_EVENT_PAYLOAD_DONE:
        must(!reply->payload_done);
        must(payload_slab_give(frontend->slab, event->payload_offset, event->payload_generation) ==
             RESULT_OK);
        reply->payload_done = true;
        break;
    case TOKEN_EVENT_PROGRESS:
        must(reply->payload_done);
        must(event->prompt_total == reply->prompt_total);
        must(event->prompt_done > reply->prompt_done);
        reply->prompt_done = event->prompt_done;
        break;
    case TOKEN_EVENT_FINISHED:
    case TOKEN_EVENT_FAILED:
        must(reply->payload_done);
        reply->finish = (enum finish_reason)event->finish;
        reply->failure = (enum result)event->failure;
        reply->live = false;
        frontend->live_count--;
        break;
    }
}

uint32_t test_frontend_collect(struct test_frontend *frontend)
{
    uint32_t count = 0;
    for (;;) {
        const void *record;
        enum result result = spsc_ring_peek(&frontend->pair.event, &record);
        must(result == RESULT_OK || result == RESULT_EMPTY);
        if (result == RESULT_EMPTY)
            break;
        struct token_event event;
        memcpy(&event, record, sizeof event);
        spsc_ring_release(&frontend->pair.event);
        take_event(frontend, &event);
        count++;
    }
    frontend->event_count += count;
    return count;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void test_frontend_finish(struct test_frontend *frontend, int patience_ms)
{
    int64_t limit_ms = now_ms() + patience_ms;
    while (frontend->live_count > 0) {
        must(now_ms() < limit_ms);
        if (test_frontend_collect(frontend) > 0)
            continue;
        doorbell_prepare_sleep(&frontend->pair.event_bell);
        if (test_frontend_collect(frontend) > 0) {
            doorbell_cancel_sleep(&frontend->pair.event_bell);
            continue;
        }
        if (doorbell_wait(&frontend->pair.event_bell, frontend->pair.child_fd, 1000)) {
            /* The worker has ended; all its events must be in the ring. */
            test_frontend_collect(frontend);
            must(frontend->live_count == 0);
        }
    }
}
