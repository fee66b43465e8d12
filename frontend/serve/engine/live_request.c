/*
 * The edges of the request's state machine.
 *
 * Each edge asserts its start state, changes the state and sets the facts of the new one; nothing
 * is sent, submitted or called from here. So the rules "one run per slot", "tokens are contiguous"
 * and "no callback after a request left" are in one file, and tests cover them without processes or
 * sockets.
 */
#include "frontend/serve/engine/live_request.h"

#include <stdlib.h>

#include "frontend/assets/dense_layers.h"
#include "proto/must.h"

void live_request_admit(struct live_request *request, const struct live_request_sink *sink,
                        void *sink_context, int64_t now_us)
{
    must(request->state == LIVE_REQUEST_FREE);
    request->state = LIVE_REQUEST_ADMITTED;
    request->sink = sink;
    request->sink_context = sink_context;
    request->timeline = (struct request_timeline){.arrived_us = now_us};
}

void live_request_prepare(struct live_request *request, struct prepare_job *job)
{
    must(request->state == LIVE_REQUEST_ADMITTED);
    request->state = LIVE_REQUEST_PREPARING;
    request->job = job;
}

void live_request_queue(struct live_request *request, const struct prepared_generation *prepared)
{
    must(request->state == LIVE_REQUEST_PREPARING);
    request->state = LIVE_REQUEST_WAITING;
    request->job = NULL;
    request->prepared = *prepared;
}

void live_request_submit(struct live_request *request, uint32_t worker)
{
    must(request->state == LIVE_REQUEST_WAITING);
    must(request->generated.count < request->prepared.max_new_tokens);
    must(!request->previous_waiting && !request->next_waiting);
    request->state = LIVE_REQUEST_SUBMITTED;
    request->worker = worker;
    request->resumes = false;
    request->prompt_done = 0;
}

void live_request_requeue(struct live_request *request)
{
    must(request->state == LIVE_REQUEST_SUBMITTED || request->state == LIVE_REQUEST_STREAMING);
    request->state = LIVE_REQUEST_WAITING;
    request->recalled = false;
    live_request_forget_alternatives(request);
}

static enum result journal_append(struct token_list *list, uint32_t token)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        uint32_t *grown = realloc(list->ids, capacity * sizeof *grown);
        must(grown != NULL); /* limited by the context: at most 4 MB */
        list->ids = grown;
        list->capacity = capacity;
    }
    list->ids[list->count++] = token;
    return RESULT_OK;
}

/* Whether prompt tokens are still without their log-probability. */
static bool lacks_scores(const struct live_request *request)
{
    return request->prepared.request.scores_prompt &&
           request->scored_tokens + 1 < request->prepared.prompt.count;
}

enum result live_request_alternatives(struct live_request *request,
                                      const struct token_logprob *alternatives, uint32_t count)
{
    must(request->state == LIVE_REQUEST_SUBMITTED || request->state == LIVE_REQUEST_STREAMING);
    const struct generation_request *asked = &request->prepared.request;
    bool in_prompt = lacks_scores(request);
    uint32_t have = request->alternative_count;
    if (count > (in_prompt ? asked->top_prompt_logprobs : asked->top_logprobs) - have ||
        (have > 0 && count > 0 &&
         alternatives[0].logprob > request->alternatives[have - 1].logprob))
        return RESULT_CORRUPT;
    for (uint32_t i = 0; i < count; i++)
        request->alternatives[have + i] = alternatives[i];
    request->alternative_count += count;
    return RESULT_OK;
}

void live_request_forget_alternatives(struct live_request *request)
{
    request->alternative_count = 0;
    free(request->vector);
    request->vector = NULL;
    request->vector_count = request->vector_capacity = 0;
}

enum result live_request_vector(struct live_request *request, const float *values, uint32_t count)
{
    must(request->state == LIVE_REQUEST_SUBMITTED || request->state == LIVE_REQUEST_STREAMING);
    size_t most = request->prepared.prompt.count * LIMIT_HIDDEN;
    if (!request->prepared.request.pools || request->generated.count > 0 ||
        count > most - request->vector_count)
        return RESULT_CORRUPT;
    if (request->vector_count + count > request->vector_capacity) {
        size_t capacity = request->vector_capacity ? 2 * request->vector_capacity : 1024;
        float *grown = realloc(request->vector, capacity * sizeof *grown);
        must(grown != NULL);
        request->vector = grown;
        request->vector_capacity = capacity;
    }
    memcpy(request->vector + request->vector_count, values, count * sizeof *values);
    request->vector_count += count;
    return RESULT_OK;
}

enum result live_request_project(struct live_request *request, const struct dense_layers *layers)
{
    if (request->vector_count != dense_layers_inputs(layers))
        return RESULT_CORRUPT;
    float *projected = dense_layers_apply(layers, request->vector);
    must(projected != NULL);
    free(request->vector);
    request->vector = projected;
    request->vector_count = request->vector_capacity = dense_layers_outputs(layers);
    return RESULT_OK;
}

enum result live_request_prompt_token(struct live_request *request, uint32_t token, uint32_t index)
{
    must(request->state == LIVE_REQUEST_SUBMITTED || request->state == LIVE_REQUEST_STREAMING);
    if (!lacks_scores(request) || index != request->scored_tokens + 1 ||
        request->prepared.prompt.ids[index] != token)
        return RESULT_CORRUPT;
    request->scored_tokens++;
    return RESULT_OK;
}

enum result live_request_token(struct live_request *request, uint32_t token, uint32_t index,
                               int64_t now_us)
{
    must(request->state == LIVE_REQUEST_SUBMITTED || request->state == LIVE_REQUEST_STREAMING);
    if (index != request->generated.count || index >= request->prepared.max_new_tokens ||
        lacks_scores(request) || (request->prepared.request.pools && request->vector_count == 0))
        return RESULT_CORRUPT;
    request->state = LIVE_REQUEST_STREAMING;
    if (request->timeline.first_token_us == 0)
        request->timeline.first_token_us = now_us;
    request->timeline.last_token_us = now_us;
    return journal_append(&request->generated, token);
}

bool live_request_is_with_worker(const struct live_request *request)
{
    return request->state == LIVE_REQUEST_SUBMITTED || request->state == LIVE_REQUEST_STREAMING ||
           request->state == LIVE_REQUEST_LEAVING;
}

static void make_free(struct live_request *request)
{
    request->state = LIVE_REQUEST_FREE;
    request->id.generation++;
    request->dirty = request->complete = request->ended =
        false; /* entries of the list are of the former request */
}

const char *live_request_name(const struct live_request *request)
{
    return request->sink ? request->sink->name(request->sink_context) : "(gone)";
}

bool live_request_leave(struct live_request *request)
{
    must(request->state != LIVE_REQUEST_FREE && request->state != LIVE_REQUEST_LEAVING);
    bool with_worker = live_request_is_with_worker(request);
    request->sink = NULL;
    request->sink_context = NULL;
    request->job = NULL;
    request->cached = (struct cached_prompt){0};
    live_request_forget_alternatives(request);
    request->recalled = false;
    request->suspect = request->watched = request->resumes = false;
    request->replays = 0;
    request->scored_tokens = 0;
    request->crashes = (struct crash_record){0};
    prepared_generation_fini(&request->prepared);
    token_list_fini(&request->generated);
    request->generated = (struct token_list){0};
    if (with_worker)
        request->state = LIVE_REQUEST_LEAVING;
    else
        make_free(request);
    return !with_worker;
}

void live_request_worker_done(struct live_request *request)
{
    must(request->state == LIVE_REQUEST_LEAVING);
    make_free(request);
}
