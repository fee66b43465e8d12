/*
 * Requests continue when their worker dies.
 *
 * First all complete events that the worker published are handled; the journal then holds every
 * token that a client may have seen. Then each of its requests is ended if it had reached its end
 * (the last token arrived, the end did not), dropped if its client left, or requeued at its place,
 * to be continued by the next worker from prompt and journal. Draws of a replay equal those of the
 * first run, so no token is repeated, changed or lost.
 *
 * The segment's roster lists the requests that were being computed. It was written by a dead
 * worker, so it only decides which requests are suspected (poison_policy.h), never which are ended:
 * a conviction needs a crash alone.
 */
#include "frontend/serve/engine/worker_loss.h"

#include "frontend/serve/engine/request_dispatch.h"
#include "frontend/serve/engine/request_end.h"
#include "frontend/serve/engine/worker_events.h"
#include "proto/log.h"

/* The worker had no other request and died: returns true, and the request has its reply. */
static bool end_trial(struct chat_engine *engine, uint32_t worker)
{
    struct request_id id;
    if (!worker_pool_trial(engine->workers, worker, &id))
        return false;
    worker_pool_end_trial(engine->workers, worker);
    struct live_request *request = request_table_find(engine->table, id);
    if (!request || request->state == LIVE_REQUEST_LEAVING)
        return false;
    request_dispatch_convict(engine, request);
    request_end_worker_done(engine, request);
    return true;
}

/* Returns true if the request runs again. */
static bool take_back(struct chat_engine *engine, struct live_request *request, bool was_computed)
{
    enum finish_reason end = FINISH_NONE;
    bool suspect = false;
    if (request->state != LIVE_REQUEST_LEAVING) {
        end = worker_events_find_end(engine, request);
        if (was_computed)
            suspect = poison_policy_suspects(&request->crashes, (uint32_t)request->generated.count,
                                             (uint32_t)engine->config.options->poison_crashes);
        if (end != FINISH_NONE)
            request_end_finish(engine, request, end);
    }
    if (request->state == LIVE_REQUEST_LEAVING) {
        request_end_worker_done(engine, request);
        return false;
    }
    worker_pool_note_done(engine->workers, request->worker, request->id);
    live_request_requeue(request);
    request->suspect = suspect;
    request->replays++;
    engine->metrics.requests_replayed++;
    request_dispatch_enqueue(engine, request);
    return true;
}

static void fail_queue(struct chat_engine *engine, struct waiting_queue *queue,
                       const struct api_error *error)
{
    while (queue->first) {
        struct live_request *request = queue->first;
        waiting_queue_remove(queue, request);
        request_end_fail(engine, request, error);
    }
}

/* Ends waiting requests if no worker can be started any more. */
static void give_up_waiting(struct chat_engine *engine)
{
    struct api_error error;
    (void)api_error_set(&error, RESULT_PEER_GONE, 503, "worker_unavailable",
                        "the request waited for a worker, and none can be started");
    fail_queue(engine, &engine->waiting, &error);
    fail_queue(engine, &engine->suspects, &error);
}

void worker_loss_handle(void *context, uint32_t worker)
{
    struct chat_engine *engine = context;
    struct worker_link *link = worker_pool_link(engine->workers, worker);
    struct step_roster_copy roster;
    worker_link_take_rest(link);
    worker_link_read_roster(link, &roster);
    worker_totals_add(&engine->metrics.workers_gone, worker_link_gauges(link));
    engine->metrics.worker_restarts++;
    bool unknown = step_roster_copy_is_empty(&roster);
    bool culprit_found = end_trial(engine, worker);
    uint32_t replayed = 0;
    for (uint32_t i = 0; i < request_table_slots(engine->table); i++) {
        struct live_request *request = request_table_at(engine->table, i);
        if (live_request_is_with_worker(request) && request->worker == worker)
            replayed += take_back(engine, request, unknown || step_roster_copy_has(&roster, i));
    }
    if (culprit_found)
        request_dispatch_clear_suspects(engine);
    if (replayed > 0)
        log_info("worker %u: %u requests go on with the next worker", worker, replayed);
    if (worker_pool_is_hopeless(engine->workers))
        give_up_waiting(engine);
    request_dispatch_run(engine);
}
