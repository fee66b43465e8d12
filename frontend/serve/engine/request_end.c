/*
 * A request has two sides, its client and its worker, which end at different times. The first to
 * end is reported to the other; the slot is free when both have ended.
 *
 * The sink is called once with a finish or a failure and never again. If a worker has the request,
 * its slot stays LEAVING until the worker's last event about it, or its death.
 */
#include "frontend/serve/engine/request_end.h"

#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/engine/request_dispatch.h"

void request_end_check_drain(struct chat_engine *engine)
{
    if (!engine->draining || engine->workers_draining || request_table_live(engine->table) > 0)
        return;
    engine->workers_draining = true;
    worker_pool_drain(engine->workers);
}

static void slot_give(struct chat_engine *engine, struct live_request *request)
{
    struct request_follow *follow = request->follow;
    request->follow = NULL;
    request_table_give(engine->table, request);
    if (follow)
        chat_engine_start_follow(engine, follow);
    request_end_check_drain(engine);
}

void request_end_worker_done(struct chat_engine *engine, struct live_request *request)
{
    worker_pool_note_done(engine->workers, request->worker, request->id);
    live_request_worker_done(request);
    slot_give(engine, request);
}

static void measure(struct chat_engine *engine, const struct live_request *request,
                    enum request_outcome outcome)
{
    const struct prepared_generation *prepared = &request->prepared;
    struct request_account account = {.timeline = request->timeline,
                                      .prompt_tokens = prepared->prompt.count,
                                      .cached_tokens = request->cached.tokens,
                                      .generated_tokens = request->generated.count,
                                      .max_generated = prepared->max_new_tokens,
                                      .asked_max_tokens = prepared->request.max_new_tokens};
    serve_metrics_end(&engine->metrics, outcome, &account, monotonic_clock_us());
}

static void leave(struct chat_engine *engine, struct live_request *request,
                  enum request_outcome outcome)
{
    measure(engine, request, outcome);
    if (live_request_leave(request))
        slot_give(engine, request);
}

void request_end_fail(struct chat_engine *engine, struct live_request *request,
                      const struct api_error *error)
{
    request->sink->failed(request->sink_context, error);
    leave(engine, request, OUTCOME_ERROR);
}

void request_end_finish(struct chat_engine *engine, struct live_request *request,
                        enum finish_reason finish)
{
    request->sink->finished(request->sink_context, finish, request->cached);
    leave(engine, request, finish == FINISH_LENGTH ? OUTCOME_LENGTH : OUTCOME_STOP);
}

void request_end_cancel(struct chat_engine *engine, const struct live_request *request)
{
    struct worker_link *link = worker_pool_link(engine->workers, request->worker);
    if (request->recalled || !link)
        return; /* already asked */
    if (worker_link_cancel(link, request->id) != RESULT_OK)
        worker_pool_condemn(engine->workers, request->worker, "its submit ring is broken");
}

void request_end_withdraw(struct chat_engine *engine, struct live_request *request,
                          enum request_outcome outcome)
{
    if (request->state == LIVE_REQUEST_PREPARING)
        prepare_pool_drop(engine->preparation, request->job);
    else if (request->state == LIVE_REQUEST_WAITING)
        waiting_queue_remove(request_dispatch_queue(engine, request), request);
    else
        request_end_cancel(engine, request);
    leave(engine, request, outcome);
}
