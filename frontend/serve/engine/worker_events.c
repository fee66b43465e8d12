/*
 * A worker's event about a request counts only if that worker has the request: each event is
 * checked for slot, generation and worker.
 *
 * Tokens of one wake-up go to the sinks as they come; each request with tokens is flushed once,
 * when the batch ends. Requests that end are ended after that: ending one takes as long as flushing
 * several, and the streams that continue wait for their tokens. A token is journalled before the
 * sink gets it, so a replay continues from whatever a client has seen.
 */
#include "frontend/serve/engine/worker_events.h"

#include "frontend/api/generation/own_stops.h"
#include "frontend/assets/pooling_assets.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/engine/request_dispatch.h"
#include "frontend/serve/engine/request_end.h"
#include "proto/generation_end.h"
#include "proto/must.h"

enum finish_reason worker_events_find_end(const struct chat_engine *engine,
                                          const struct live_request *request)
{
    const struct prepared_generation *prepared = &request->prepared;
    uint32_t prompt_tokens = (uint32_t)prepared->prompt.count;
    uint32_t generated = (uint32_t)request->generated.count;
    if (generated == 0)
        return FINISH_NONE;
    struct stop_ids stops;
    stop_ids_collect(&prepared->request, engine->assets, &stops);
    const struct generation_end_rules rules = {.stop_ids = stops.ids,
                                               .stop_id_count = stops.count,
                                               .ignore_end = stops.ignored,
                                               .max_total_tokens =
                                                   prompt_tokens + prepared->max_new_tokens};
    return generation_end_find(&rules, request->generated.ids[generated - 1],
                               prompt_tokens + generated);
}

/* The first step with rows of the request has just ended; it reports its duration. */
static void schedule_note(struct live_request *request, const struct token_event *event,
                          int64_t now_us)
{
    if (request->timeline.scheduled_us != 0)
        return;
    int64_t queued_us = request->timeline.queued_us;
    int64_t waited_us = now_us - queued_us;
    bool plausible = waited_us > 0 && event->step_time_us < (uint64_t)waited_us;
    request->timeline.scheduled_us = plausible ? now_us - (int64_t)event->step_time_us : queued_us;
}

/* Puts the request on the list for the end of the batch. */
static void dirty_note(struct chat_engine *engine, struct live_request *request)
{
    if (request->dirty)
        return;
    must(engine->dirty_count < request_table_slots(engine->table));
    engine->dirty[engine->dirty_count++] = request->id;
    request->dirty = true;
}

static void on_progress(struct chat_engine *engine, struct live_request *request,
                        const struct token_event *event)
{
    int64_t now_us = monotonic_clock_us();
    request->prompt_done = event->prompt_done;
    schedule_note(request, event, now_us);
    /* After a replay the worker's prompt includes the generated tokens. */
    if (!request->sink->progress || request->generated.count > 0)
        return;
    const struct reply_progress progress = {.computed_tokens = event->prompt_done,
                                            .cached_tokens = event->cached_tokens,
                                            .prompt_tokens =
                                                (uint32_t)request->prepared.prompt.count,
                                            .scheduled_us = request->timeline.scheduled_us,
                                            .now_us = now_us};
    request->sink->progress(request->sink_context, &progress);
    dirty_note(engine, request);
}

/* Cache hits count as reported with the first token: a replay finds what the dead worker left, or
 * nothing, after the client was told how its prompt was computed. */
static enum result note_cached(struct live_request *request, const struct token_event *event)
{
    if (event->cached_tokens >= request->prepared.prompt.count ||
        event->cached_images > image_set_count(request->prepared.images))
        return RESULT_CORRUPT;
    request->cached =
        (struct cached_prompt){.tokens = event->cached_tokens, .images = event->cached_images};
    return RESULT_OK;
}

static uint32_t vector_rows(const struct chat_engine *engine, const struct live_request *request)
{
    bool all = engine->assets->pooling == POOLING_TOKENS;
    return all ? (uint32_t)request->prepared.prompt.count : 1;
}

/* Dense modules read the vector of a text, not those of its tokens. */
static const struct dense_layers *dense_of(const struct chat_engine *engine)
{
    enum pooling pooling = engine->assets->pooling;
    bool one = pooling != POOLING_OFF && pooling != POOLING_TOKENS;
    return one ? pooling_assets_dense(engine->assets->pools) : NULL;
}

static enum result on_token(struct chat_engine *engine, struct live_request *request,
                            const struct token_event *event)
{
    int64_t now_us = monotonic_clock_us();
    struct request_timeline before = request->timeline;
    if (live_request_token(request, event->token, event->index, now_us) != RESULT_OK)
        return RESULT_CORRUPT;
    if (request->prepared.request.sampling.mirostat != 0)
        request->prepared.request.sampling.mirostat_mu = event->mirostat_mu;
    worker_pool_note_token(engine->workers, request->worker);
    if (request->vector_count % vector_rows(engine, request) != 0)
        return RESULT_CORRUPT;
    if (dense_of(engine) && live_request_project(request, dense_of(engine)) != RESULT_OK)
        return RESULT_CORRUPT;
    if (event->index == 0 && note_cached(request, event) != RESULT_OK)
        return RESULT_CORRUPT;
    serve_metrics_token(&engine->metrics, &before, request->prepared.prompt.count,
                        request->cached.tokens, now_us);
    serve_metrics_drafts(&engine->metrics, event->draft_tokens, event->draft_position);
    const struct reply_token token = {.id = event->token,
                                      .is_stop = worker_events_find_end(engine, request) ==
                                                 FINISH_STOP_TOKEN,
                                      .logprob = event->logprob,
                                      .alternatives = request->alternatives,
                                      .alternative_count = request->alternative_count,
                                      .vector = request->vector,
                                      .vector_count = request->vector_count,
                                      .vector_rows = vector_rows(engine, request),
                                      .draft_tokens = event->draft_tokens,
                                      .is_drafted = event->draft_position > 0,
                                      .now_us = now_us,
                                      .scheduled_us = request->timeline.scheduled_us};
    bool complete = request->sink->token(request->sink_context, &token);
    live_request_forget_alternatives(request);
    if (request->suspect &&
        poison_policy_acquits(&request->crashes, (uint32_t)request->generated.count))
        request_dispatch_acquit(engine, request);
    if (complete)
        request_end_cancel(engine, request);
    request->complete = complete;
    dirty_note(engine, request);
    return RESULT_OK;
}

static enum result on_prompt_token(struct chat_engine *engine, struct live_request *request,
                                   const struct token_event *event)
{
    if (live_request_prompt_token(request, event->token, event->index) != RESULT_OK)
        return RESULT_CORRUPT;
    const struct reply_token token = {.id = event->token,
                                      .logprob = event->logprob,
                                      .rank = event->rank,
                                      .alternatives = request->alternatives,
                                      .alternative_count = request->alternative_count};
    if (request->sink->prompt_token)
        request->sink->prompt_token(request->sink_context, &token);
    live_request_forget_alternatives(request);
    dirty_note(engine, request);
    return RESULT_OK;
}

/* The reply for a request that a worker refused. */
static void failure_words(enum result failure, struct api_error *error)
{
    switch (failure) {
    case RESULT_CONTEXT_EXCEEDED:
        (void)api_error_set(error, failure, 400, "context_length_exceeded",
                            "the prompt is too long: it exceeds the model's context window");
        break;
    case RESULT_UNSUPPORTED:
        (void)api_error_set(error, failure, 400, "images_not_supported",
                            "the model's worker takes no images on its device");
        break;
    case RESULT_GRAMMAR_FUEL:
        (void)api_error_set(error, failure, 400, "grammar_too_expensive",
                            "the schema or grammar takes more work for one token than the limit");
        break;
    case RESULT_GRAMMAR_DEAD_END:
        (void)api_error_set(error, failure, 400, "grammar_dead_end",
                            "no token of the model continues the answer in its schema or grammar");
        break;
    case RESULT_OUT_OF_MEMORY:
    case RESULT_FULL:
    case RESULT_TOO_LARGE:
        (void)api_error_set(error, failure, 503, "out_of_memory",
                            "the request needs more memory than the worker has");
        break;
    default:
        (void)api_error_set(error, failure, 500, "worker_error",
                            "the worker could not finish the request: %s", result_name(failure));
        break;
    }
}

/* A replayed request without room for a token has reached its length: the dead worker had sent its
 * last token but not its end. */
static bool has_reached_length(const struct live_request *request)
{
    const struct worker_last_word *word = &request->last_word;
    return word->kind == TOKEN_EVENT_FAILED && request->generated.count > 0 &&
           (word->failure == RESULT_CONTEXT_EXCEEDED || word->failure == RESULT_TOO_LARGE);
}

static void note_last_event(struct chat_engine *engine, struct live_request *request,
                            const struct token_event *event)
{
    request->ended = true;
    request->last_word = (struct worker_last_word){.kind = (enum token_event_kind)event->kind,
                                                   .finish = (enum finish_reason)event->finish,
                                                   .failure = (enum result)event->failure};
    dirty_note(engine, request);
}

static void handle_final_event(struct chat_engine *engine, struct live_request *request)
{
    const struct worker_last_word *word = &request->last_word;
    bool cancelled = word->kind == TOKEN_EVENT_FINISHED && word->finish == FINISH_CANCELLED;
    if (cancelled && request->recalled && request->state != LIVE_REQUEST_LEAVING) {
        worker_pool_note_done(engine->workers, request->worker, request->id);
        live_request_requeue(request);
        request_dispatch_enqueue(engine, request);
        return;
    }
    if (request->state != LIVE_REQUEST_LEAVING) {
        if (word->kind == TOKEN_EVENT_FINISHED && !cancelled) {
            request_end_finish(engine, request, word->finish);
        } else if (has_reached_length(request)) {
            request_end_finish(engine, request, FINISH_LENGTH);
        } else {
            struct api_error error;
            failure_words(cancelled ? RESULT_CANCELLED : word->failure, &error);
            request_end_fail(engine, request, &error);
        }
    }
    request_end_worker_done(engine, request);
}

enum result worker_events_handle(void *context, uint32_t worker, const struct token_event *event)
{
    struct chat_engine *engine = context;
    if (event->kind == TOKEN_EVENT_ADAPTER) {
        if (engine->adapter_changes)
            adapter_changes_event(engine->adapter_changes, worker, event);
        return RESULT_OK;
    }
    struct live_request *request = request_table_find(engine->table, event->request);
    if (!request)
        return RESULT_OK; /* stale: it ended before the event arrived */
    if (!live_request_is_with_worker(request) || request->worker != worker)
        return RESULT_CORRUPT;
    bool listens = request->state != LIVE_REQUEST_LEAVING && !request->complete;
    if (request->ended)
        return RESULT_OK; /* stale as well */
    if (event->kind == TOKEN_EVENT_FINISHED || event->kind == TOKEN_EVENT_FAILED)
        note_last_event(engine, request, event);
    else if (event->kind == TOKEN_EVENT_TOKEN && listens)
        return on_token(engine, request, event);
    else if (event->kind == TOKEN_EVENT_PROMPT_TOKEN && listens)
        return on_prompt_token(engine, request, event);
    else if (event->kind == TOKEN_EVENT_PROGRESS && listens)
        on_progress(engine, request, event);
    else if (event->kind == TOKEN_EVENT_VECTOR && listens)
        return live_request_vector(request, event->values, event->value_count);
    else if (event->kind == TOKEN_EVENT_ALTERNATIVES && listens)
        return live_request_alternatives(request, event->alternatives, event->alternative_count);
    return RESULT_OK;
}

/* Ends what has ended, unless its client has left since. */
static void end(struct chat_engine *engine, struct live_request *request)
{
    bool complete = request->complete, ended = request->ended;
    request->dirty = request->complete = request->ended = false;
    if (complete && request->state != LIVE_REQUEST_LEAVING)
        request_end_finish(engine, request, FINISH_STOP_TOKEN);
    if (ended)
        handle_final_event(engine, request);
}

void worker_events_end_batch(void *context)
{
    struct chat_engine *engine = context;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < engine->dirty_count; i++) {
            struct live_request *request = request_table_find(engine->table, engine->dirty[i]);
            if (!request)
                continue;
            if (pass == 1)
                end(engine, request);
            else if (!request->complete && !request->ended &&
                     request->state != LIVE_REQUEST_LEAVING)
                request->sink->flush(request->sink_context);
        }
    }
    engine->dirty_count = 0;
    request_dispatch_run(engine);
}
