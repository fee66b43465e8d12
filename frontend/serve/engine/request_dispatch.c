/*
 * First come, first served: the head of the queue goes to the worker that the routing policy names,
 * and while it waits (every worker has enough requests, or no slab has room) no other request
 * overtakes it. A worker decides how many requests it runs at once; here it only never gets more
 * than it can begin soon.
 *
 * Suspects of crashing workers (poison_policy.h) wait in their own queue and are tried one by one:
 * a suspect gets a worker without other requests, and that worker gets no other request until the
 * suspect has got past the place of the crashes, has ended, or has crashed the worker. Only the
 * last convicts. To free a worker, the least busy one gets nothing new while suspects wait; after a
 * crash it is the new one. A suspect that is acquitted while others wait returns from the worker
 * and queues again, with its tokens in the journal.
 *
 * A suspect that was killed alone from outside is watched: it waits in a third queue until a timer
 * ends, and other requests run meanwhile.
 *
 * If there are several workers, a request whose worker died waits in a fourth queue for the restart of that worker, which has
 * its KV cache, while others overtake it. If the restart takes too long (resume_policy.h) or fails, any worker gets it.
 *
 * A convicted request is refused for a while before any worker gets it.
 */
#include "frontend/serve/engine/request_dispatch.h"

#include <event2/event.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/engine/request_end.h"
#include "frontend/serve/engine/resume_policy.h"
#include "proto/log.h"
#include "proto/must.h"

struct waiting_queue *request_dispatch_queue(struct chat_engine *engine,
                                             const struct live_request *request)
{
    if (request->watched)
        return &engine->watched;
    if (request->resumes)
        return &engine->resuming;
    return request->suspect ? &engine->suspects : &engine->waiting;
}

void request_dispatch_enqueue(struct chat_engine *engine, struct live_request *request)
{
    must(request->state == LIVE_REQUEST_WAITING);
    waiting_queue_insert(request_dispatch_queue(engine, request), request);
}

void request_dispatch_choose_resume(struct chat_engine *engine, struct live_request *request)
{
    const struct request_timeline *timeline = &request->timeline;
    bool streamed = request->generated.count > 0;
    uint32_t prompt = streamed ? (uint32_t)request->prepared.prompt.count : request->prompt_done;
    int64_t until_us = streamed ? timeline->first_token_us : monotonic_clock_us();
    uint32_t cached = request->cached.tokens < prompt ? request->cached.tokens : prompt;
    const struct resume_facts facts = {.held_tokens = prompt + (uint32_t)request->generated.count,
                                       .computed_tokens = prompt - cached,
                                       .spent_us = until_us - timeline->scheduled_us};
    int64_t wait_ms = resume_policy_wait_ms(&facts);
    request->resumes = !request->suspect && !request->prepared.request.no_prefix_cache &&
                       wait_ms > 0 && timeline->scheduled_us > 0 &&
                       worker_pool_is_resuming_with_cache(engine->workers, request->worker);
    request->resume_by_ms = monotonic_clock_ms() + wait_ms;
}

/* --- poison ---------------------------------------------------------------------------------- */

static void fail_as_poison(struct chat_engine *engine, struct live_request *request,
                           const char *words)
{
    struct api_error error;
    (void)api_error_set(&error, RESULT_PEER_GONE, 500, "worker_crashed", "%s", words);
    request_end_fail(engine, request, &error);
}

void request_dispatch_convict(struct chat_engine *engine, struct live_request *request,
                              enum death_cause cause)
{
    char id[POISON_ID_BYTES];
    poison_memory_write_id(request->fingerprint, id);
    const struct log_field fields[] = {
        LOG_TEXT("request_id", live_request_name(request)),
        LOG_WHOLE("slot", request->id.slot),
        LOG_WHOLE("generation", request->id.generation),
        LOG_WHOLE("prompt_tokens", request->prepared.prompt.count),
        LOG_WHOLE("output_tokens", request->generated.count),
        LOG_TEXT("conviction", id),
        LOG_TEXT("cause", death_cause_name(cause)),
        LOG_WHOLE("deaths", request->crashes.deaths),
    };
    const struct poison_conviction conviction = {.fingerprint = request->fingerprint,
                                                 .owner = request->client_key,
                                                 .cause = cause,
                                                 .deaths = request->crashes.deaths};
    log_event(LOG_ERROR, "request_quarantined", fields, sizeof fields / sizeof fields[0]);
    poison_memory_add(&engine->poison, &conviction, monotonic_clock_ms());
    engine->metrics.requests_quarantined++;
    fail_as_poison(engine, request,
                   "the worker ended unexpectedly every time that it ran this request");
}

/* Moves a waiting suspect back to the other requests. */
static void release(struct chat_engine *engine, struct live_request *request)
{
    waiting_queue_remove(request_dispatch_queue(engine, request), request);
    request->suspect = request->watched = false;
    request_dispatch_enqueue(engine, request);
}

static void clear_queue(struct chat_engine *engine, struct waiting_queue *queue)
{
    while (queue->first) {
        poison_policy_forget(&queue->first->crashes, (uint32_t)queue->first->generated.count);
        release(engine, queue->first);
    }
}

void request_dispatch_clear_suspects(struct chat_engine *engine)
{
    clear_queue(engine, &engine->suspects);
    clear_queue(engine, &engine->watched);
}

void request_dispatch_note_outside_kill(struct chat_engine *engine, uint32_t worker)
{
    uint32_t most_crashes = (uint32_t)engine->config.options->poison_crashes;
    for (uint32_t i = 0; i < request_table_slots(engine->table); i++) {
        struct live_request *request = request_table_at(engine->table, i);
        bool placed = live_request_is_with_worker(request);
        if (!request->suspect || (placed && request->worker == worker) ||
            !poison_policy_clears(&request->crashes, most_crashes))
            continue;
        if (placed) {
            request->suspect = false;
            worker_pool_end_trial(engine->workers, request->worker);
        } else {
            release(engine, request);
        }
    }
}

void request_dispatch_acquit(struct chat_engine *engine, struct live_request *request)
{
    const struct log_field field = LOG_TEXT("request_id", live_request_name(request));
    log_event(LOG_INFO, "request_acquitted", &field, 1); /* it ran alone without a crash */
    request->suspect = false;
    poison_policy_forget(&request->crashes, (uint32_t)request->generated.count);
    worker_pool_end_trial(engine->workers, request->worker);
    if (engine->suspects.count > 0) {
        request_end_cancel(engine, request);
        request->recalled = true;
    }
}

static bool is_known(struct chat_engine *engine, const struct live_request *request)
{
    return engine->poison.count > 0 &&
           poison_memory_find(&engine->poison, request->fingerprint, monotonic_clock_ms());
}

bool request_dispatch_refuse_known(struct chat_engine *engine, struct live_request *request)
{
    if (!is_known(engine, request))
        return false;
    engine->metrics.requests_quarantined++;
    fail_as_poison(engine, request,
                   "a request like this one has ended every worker that ran it; it is refused for "
                   "a while");
    return true;
}

/* The first request of the queue that may run, or NULL. */
static struct live_request *next_of(struct chat_engine *engine, struct waiting_queue *queue)
{
    while (queue->first && is_known(engine, queue->first)) {
        struct live_request *request = queue->first;
        waiting_queue_remove(queue, request);
        (void)request_dispatch_refuse_known(engine, request);
    }
    return queue->first;
}

/* --- to a worker ----------------------------------------------------------------------------- */

static void fail_too_large(struct chat_engine *engine, struct live_request *request)
{
    struct api_error error;
    (void)api_error_set(
        &error, RESULT_TOO_LARGE, 400, "context_length_exceeded",
        "the prompt is too long: it%s not fit into this server's memory for prompts (--slab-bytes)",
        request->prepared.images ? " and its images do" : " does");
    request_end_fail(engine, request, &error);
}

/* Submits the queue's request to the worker. RESULT_FULL: its slab has no room now, nothing
 * happened. RESULT_CORRUPT: the worker is killed, nothing else happened. */
static enum result hand_over(struct chat_engine *engine, struct waiting_queue *queue,
                             struct live_request *request, uint32_t worker)
{
    enum result result = worker_link_submit(worker_pool_link(engine->workers, worker), request->id,
                                            &request->prepared, &request->generated,
                                            request->scored_tokens, engine->assets);
    if (result == RESULT_CORRUPT)
        worker_pool_condemn(engine->workers, worker, "its submit ring is broken");
    if (result == RESULT_CORRUPT || result == RESULT_FULL)
        return result;
    waiting_queue_remove(queue, request);
    if (result != RESULT_OK) {
        fail_too_large(engine, request);
        return result;
    }
    live_request_submit(request, worker);
    worker_pool_note_submit(engine->workers, worker, &request->prepared.prompt);
    return RESULT_OK;
}

/* Starts the trials for which there is an empty worker. */
static void try_suspects(struct chat_engine *engine)
{
    struct live_request *request;
    while ((request = next_of(engine, &engine->suspects)) != NULL) {
        uint32_t worker = worker_pool_find_empty(engine->workers);
        if (worker == ROUTING_NONE)
            return;
        enum result result = hand_over(engine, &engine->suspects, request, worker);
        if (result == RESULT_CORRUPT || result == RESULT_FULL)
            return;
        if (result == RESULT_OK)
            worker_pool_begin_trial(engine->workers, worker, request->id);
    }
}

/* Moves watched requests whose time has come to the suspects. Returns the time of the next trial. */
static int64_t end_watches(struct chat_engine *engine, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    struct live_request *next;
    for (struct live_request *request = engine->watched.first; request; request = next) {
        next = request->next_waiting;
        if (request->trial_at_ms <= now_ms) {
            waiting_queue_remove(&engine->watched, request);
            request->watched = false;
            request_dispatch_enqueue(engine, request);
        } else if (request->trial_at_ms < next_ms) {
            next_ms = request->trial_at_ms;
        }
    }
    return next_ms;
}

/* Hands requests that wait for their worker's restart to it once it is ready; those whose wait is over or in vain join the
 * others. Returns when the next wait ends. */
static int64_t end_resumes(struct chat_engine *engine, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    struct live_request *next;
    for (struct live_request *request = engine->resuming.first; request; request = next) {
        next = request->next_waiting;
        bool open = worker_pool_is_open(engine->workers, request->worker);
        if (open && !is_known(engine, request)) {
            enum result result = hand_over(engine, &engine->resuming, request, request->worker);
            if (result != RESULT_CORRUPT && result != RESULT_FULL) {
                if (result != RESULT_OK)
                    next = engine->resuming.first; /* its end may have ended others */
                continue;
            }
        } else if (!open && request->resume_by_ms > now_ms &&
                   worker_pool_is_resuming_with_cache(engine->workers, request->worker)) {
            next_ms = request->resume_by_ms < next_ms ? request->resume_by_ms : next_ms;
            continue;
        }
        waiting_queue_remove(&engine->resuming, request);
        request->resumes = false;
        request_dispatch_enqueue(engine, request);
    }
    return next_ms;
}

static void timer_set(struct chat_engine *engine, int64_t now_ms, int64_t at_ms)
{
    if (at_ms == INT64_MAX) {
        event_del(engine->watch_timer);
        return;
    }
    int64_t left_ms = at_ms - now_ms;
    struct timeval after = {.tv_sec = left_ms / 1000, .tv_usec = left_ms % 1000 * 1000};
    event_add(engine->watch_timer, &after);
}

void request_dispatch_run(struct chat_engine *engine)
{
    uint32_t closed = 0; /* a bit for each worker that cannot take the current request */
    int64_t now_ms = monotonic_clock_ms();
    int64_t trial_at_ms = end_watches(engine, now_ms);
    try_suspects(engine);
    int64_t resume_by_ms = end_resumes(engine, now_ms);
    timer_set(engine, now_ms, trial_at_ms < resume_by_ms ? trial_at_ms : resume_by_ms);
    struct live_request *request;
    while ((request = next_of(engine, &engine->waiting)) != NULL) {
        uint32_t worker = worker_pool_route(engine->workers, &request->prepared.prompt, closed,
                                            engine->suspects.count > 0);
        if (worker == ROUTING_NONE)
            return;
        enum result result = hand_over(engine, &engine->waiting, request, worker);
        if (result == RESULT_CORRUPT || result == RESULT_FULL)
            closed |= 1u << worker;
    }
}
