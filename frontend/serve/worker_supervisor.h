/*
 * Keeps one worker process alive: starts it on a fresh segment, sees it become ready, die or hang,
 * and starts the next one.
 *
 *   STARTING --ready--> READY --drain--> DRAINING --exit--> STOPPED
 *      |  ^               |
 *      |  +--timer-- BACKOFF <--died-- (STARTING, READY)
 *      +--failed for good--> STOPPED
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_SUPERVISOR_H
#define SHOAL_FRONTEND_SERVE_WORKER_SUPERVISOR_H

#include "frontend/serve/options.h"
#include "frontend/serve/weight_holder.h"
#include "frontend/serve/worker_link.h"

struct worker_supervisor;

enum supervisor_state {
    SUPERVISOR_STARTING,
    SUPERVISOR_READY,
    SUPERVISOR_BACKOFF,
    SUPERVISOR_DRAINING,
    SUPERVISOR_STOPPED
};

struct worker_supervisor_config {
    struct event_base *base;
    const struct options *options;
    struct weight_holder *weights; /* may be shared with other supervisors */
    uint32_t live_requests;
    void *context;
    void (*ready)(void *context);
    /* The worker is dead (`why` may be told to clients); its link still exists, so that
     * worker_link_take_rest() can be called, and is gone afterwards. */
    void (*died)(void *context, const char *why);
    /* It can never start (its own words): nothing will be tried again. */
    void (*failed)(void *context, const char *why);
    /* It ended because it was asked to. */
    void (*drained)(void *context);
    /* For the link. */
    enum result (*event)(void *context, const struct token_event *event);
    void (*batch_end)(void *context);
};

/* Starts the first worker. */
enum result worker_supervisor_create(const struct worker_supervisor_config *config,
                                     struct worker_supervisor **supervisor,
                                     struct error_text *error) RESULT_CHECKED;
/* Kills the worker and waits for it. */
void worker_supervisor_destroy(struct worker_supervisor *supervisor);

enum supervisor_state worker_supervisor_state(const struct worker_supervisor *supervisor);
/* NULL while there is no worker. */
struct worker_link *worker_supervisor_link(const struct worker_supervisor *supervisor);
/* 0 to 1, of a worker that loads. */
double worker_supervisor_load_progress(const struct worker_supervisor *supervisor);
uint32_t worker_supervisor_restarts(const struct worker_supervisor *supervisor);

/* Whether the worker owes anything: only then must its heartbeat go on. */
void worker_supervisor_expect_work(struct worker_supervisor *supervisor, bool expected);
/* The worker broke a rule: it is killed and counts as crashed. died() follows from the loop. */
void worker_supervisor_condemn(struct worker_supervisor *supervisor, const char *why);
/* Asks it to finish and exit; drained() follows. */
void worker_supervisor_drain(struct worker_supervisor *supervisor);

#endif
