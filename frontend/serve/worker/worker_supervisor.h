/*
 * Keeps one worker process alive: starts it on a fresh segment, sees it become ready, die or hang,
 * and starts the next one.
 *
 *   STARTING --ready--> READY --drain--> DRAINING --exit--> STOPPED
 *      | ^ ^               |
 *      | | +---at once-----+--died, it had made progress
 *      | +--timer-- BACKOFF <--died otherwise (STARTING, READY)
 *      +--failed for good--> STOPPED
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_WORKER_SUPERVISOR_H
#define SHOAL_FRONTEND_SERVE_WORKER_WORKER_SUPERVISOR_H

#include "frontend/serve/settings/options.h"
#include "frontend/serve/worker/weight_holder.h"
#include "frontend/serve/worker/worker_link.h"

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
    uint32_t device_workers;       /* how many share the device */
    const char *pipeline_cache;    /* folder, or NULL */
    uint32_t index;                /* which of them, for the worker's name */
    uint32_t live_requests;
    void *context;
    void (*ready)(void *context);
    /* The worker is dead and not READY; its link still exists, so that worker_link_take_rest() can
     * be called, and is gone afterwards. */
    void (*died)(void *context);
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
/* A worker that had made progress died, and the next one is being started: soon it goes on. */
bool worker_supervisor_is_resuming(const struct worker_supervisor *supervisor);
/* Deaths in a row of workers that were not ready or had not made progress. */
uint32_t worker_supervisor_failed_starts(const struct worker_supervisor *supervisor);

/* One worker as an operator sees it, from figures at hand. Strings are the supervisor's and change
 * with it. */
struct worker_status {
    int pid;            /* 0: no process */
    const char *device; /* "vulkan:0" */
    const char
        *backend;      /* in the worker's words: "vulkan NVIDIA H200, dot"; NULL: none ready yet */
    const char *state; /* "starting", "ready", "backing_off", "draining", "stopped"; of a pool also
                          "on_trial" */
    double load_progress;
    uint32_t restarts;
    uint32_t failed_starts;
    const char *last_death; /* in words; NULL: none yet */
    int64_t last_death_ms;  /* ago */
    int64_t next_start_ms;  /* from now; 0 unless it backs off */
    int64_t stalled_ms; /* for how long it has been seen to make no progress; 0 when it owes none */
    uint32_t requests;  /* that it was given and has not ended */
    uint32_t running;   /* sequences in its steps, by its own word; so are the rest */
    uint32_t waiting;
    uint64_t steps;
    uint64_t kv_blocks_used;
    uint64_t kv_blocks_total;
    uint64_t slab_used_bytes;
};
/* All but `requests`. */
void worker_supervisor_read_status(const struct worker_supervisor *supervisor,
                                   struct worker_status *status);

/* Whether the worker owes anything: only then must its heartbeat go on. */
void worker_supervisor_expect_work(struct worker_supervisor *supervisor, bool expected);
/* It has told a token: when it dies, the next one is started at once. */
void worker_supervisor_note_progress(struct worker_supervisor *supervisor);
/* The worker broke a rule: it is killed and counts as crashed. died() follows from the loop. */
void worker_supervisor_condemn(struct worker_supervisor *supervisor, const char *why);
/* Asks it to finish and exit; drained() follows. */
void worker_supervisor_drain(struct worker_supervisor *supervisor);

#endif
