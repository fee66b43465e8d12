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
 * a conviction needs a death while the request ran alone.
 *
 * Repeated crashes may also come from the KV cache that the workers inherited, whose contents
 * cannot be checked. So when a crash makes a request a suspect, the next worker drops what it takes
 * over, and the trial computes everything from the tokens. Deaths from outside say nothing about
 * the KV cache: a trial after them resumes from it.
 */
#include "frontend/serve/engine/worker_loss.h"

#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/engine/request_dispatch.h"
#include "frontend/serve/engine/request_end.h"
#include "frontend/serve/engine/worker_events.h"
#include "proto/log.h"

struct loss {
    uint32_t worker;
    enum death_cause cause;
    bool had_trial;
    struct request_id trial;        /* the only request that the worker had */
    struct step_roster_copy roster; /* empty: unknown which requests were being computed */
    uint32_t replayed;
    bool culprit_found;
    bool crash_suspected; /* a crash made a request a suspect */
};

static bool is_on_trial(const struct loss *loss, struct request_id id)
{
    return loss->had_trial && loss->trial.slot == id.slot &&
           loss->trial.generation == id.generation;
}

static enum poison_verdict judge(const struct chat_engine *engine, const struct loss *loss,
                                 struct live_request *request)
{
    bool alone = is_on_trial(loss, request->id);
    if (!alone && !step_roster_copy_is_empty(&loss->roster) &&
        !step_roster_copy_has(&loss->roster, request->id.slot))
        return POISON_INNOCENT;
    const struct poison_death death = {
        .outside = death_cause_is_outside(loss->cause),
        .alone = alone,
        .place = {.generated_tokens = (uint32_t)request->generated.count,
                  .computed_tokens = request->prompt_done}};
    return poison_policy_judge(&request->crashes, &death,
                               (uint32_t)engine->config.options->poison_crashes);
}

static void watch_begin(struct live_request *request)
{
    int64_t watch_ms = poison_policy_watch_ms(&request->crashes);
    const struct log_field fields[] = {LOG_TEXT("request_id", live_request_name(request)),
                                       LOG_WHOLE("watch_ms", watch_ms)};
    log_event(LOG_INFO, "request_watched", fields, sizeof fields / sizeof fields[0]);
    request->trial_at_ms = monotonic_clock_ms() + watch_ms;
}

static void requeue(struct chat_engine *engine, struct live_request *request,
                    enum poison_verdict verdict)
{
    worker_pool_note_done(engine->workers, request->worker, request->id);
    live_request_requeue(request);
    request->suspect = verdict != POISON_INNOCENT;
    request->watched = verdict == POISON_WATCHED;
    if (request->watched)
        watch_begin(request);
    request->replays++;
    engine->metrics.requests_replayed++;
    request_dispatch_choose_resume(engine, request);
    request_dispatch_enqueue(engine, request);
}

static void take_back(struct chat_engine *engine, struct loss *loss, struct live_request *request)
{
    enum poison_verdict verdict = POISON_INNOCENT;
    if (request->state != LIVE_REQUEST_LEAVING) {
        enum finish_reason end = worker_events_find_end(engine, request);
        if (end != FINISH_NONE)
            request_end_finish(engine, request, end);
        else
            verdict = judge(engine, loss, request);
    }
    if (verdict == POISON_GUILTY) {
        request_dispatch_convict(engine, request, loss->cause);
        loss->culprit_found = true;
    }
    if (request->state == LIVE_REQUEST_LEAVING) {
        request_end_worker_done(engine, request);
        return;
    }
    loss->crash_suspected = loss->crash_suspected ||
                            (verdict == POISON_SUSPECT && !death_cause_is_outside(loss->cause));
    requeue(engine, request, verdict);
    loss->replayed++;
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

/* Ends waiting requests if no worker can be started any more; `worker` is the last that failed. */
static void give_up_waiting(struct chat_engine *engine, uint32_t worker)
{
    struct api_error error;
    struct worker_status status;
    worker_pool_read_status(engine->workers, worker, &status);
    (void)api_error_set(&error, RESULT_PEER_GONE, 503, "worker_unavailable",
                        "the request waited for a worker, and none can be started: %.300s",
                        status.last_death ? status.last_death : "the cause is not known");
    fail_queue(engine, &engine->waiting, &error);
    fail_queue(engine, &engine->resuming, &error);
    fail_queue(engine, &engine->suspects, &error);
    fail_queue(engine, &engine->watched, &error);
}

void worker_loss_handle(void *context, uint32_t worker, enum death_cause cause)
{
    struct chat_engine *engine = context;
    struct worker_link *link = worker_pool_link(engine->workers, worker);
    struct loss loss = {.worker = worker, .cause = cause};
    worker_link_take_rest(link);
    if (engine->adapter_changes)
        adapter_changes_worker_died(engine->adapter_changes, worker);
    worker_link_read_roster(link, &loss.roster);
    worker_link_add_totals(link, &engine->metrics.workers_gone);
    engine->metrics.worker_restarts++;
    loss.had_trial = worker_pool_trial(engine->workers, worker, &loss.trial);
    worker_pool_end_trial(engine->workers, worker);
    if (death_cause_is_outside(cause))
        request_dispatch_note_outside_kill(engine, worker);
    for (uint32_t i = 0; i < request_table_slots(engine->table); i++) {
        struct live_request *request = request_table_at(engine->table, i);
        if (live_request_is_with_worker(request) && request->worker == worker)
            take_back(engine, &loss, request);
    }
    if (loss.crash_suspected)
        worker_pool_reset_cache(engine->workers, worker);
    if (loss.culprit_found)
        request_dispatch_clear_suspects(engine);
    if (loss.replayed > 0)
        log_info("worker %u: %u requests go on with the next worker", worker, loss.replayed);
    if (worker_pool_is_hopeless(engine->workers))
        give_up_waiting(engine, worker);
    request_dispatch_run(engine);
}
