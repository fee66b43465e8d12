/*
 * Keeps one worker alive: starts its process on a fresh segment, sees it become ready, die or hang, and
 * starts the next one or lets its standby take over.
 *
 *   STARTING --ready--> READY --drain--> DRAINING --exit--> STOPPED
 *      | ^ ^               |
 *      | | +---at once-----+--died, it had made progress
 *      | +--timer-- BACKOFF <--died otherwise (STARTING, READY)
 *      +--failed for good--> STOPPED
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_WORKER_SUPERVISOR_H
#define SHOAL_FRONTEND_SERVE_WORKER_WORKER_SUPERVISOR_H

#include "frontend/serve/worker/death_cause.h"
#include "frontend/serve/worker/prefix_files.h"
#include "frontend/serve/worker/worker_launch.h"

struct worker_supervisor;

enum supervisor_state {
    SUPERVISOR_STARTING,
    SUPERVISOR_READY,
    SUPERVISOR_BACKOFF,
    SUPERVISOR_DRAINING,
    SUPERVISOR_STOPPED
};

struct worker_supervisor_config {
    struct worker_settings worker;
    struct prefix_files prefix_files; /* the first process loads, the last one saves */
    bool can_stand_by;                /* the KV cache and its index are kept */
    struct worker_listener listener;
    void *context; /* argument of the three functions below */
    /* The worker is dead and not READY; its link exists until this returns, for
     * worker_link_take_rest(). */
    void (*died)(void *context, enum death_cause cause);
    /* It reported that it cannot start; it is not restarted. */
    void (*failed)(void *context, const char *why);
    /* It ended after worker_supervisor_drain(). */
    void (*drained)(void *context);
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
/* 0 to 1, while a worker loads. */
double worker_supervisor_load_progress(const struct worker_supervisor *supervisor);
/* The last worker made progress or was killed from outside, and the next one is being started:
 * requests are admitted and wait for it. */
bool worker_supervisor_is_resuming(const struct worker_supervisor *supervisor);
/* The same, and the next worker takes over the KV cache. */
bool worker_supervisor_is_resuming_with_cache(const struct worker_supervisor *supervisor);
/* So many starts in a row failed that waiting for the next one is no use. */
bool worker_supervisor_is_hopeless(const struct worker_supervisor *supervisor);

/* The status of one worker for operators. The supervisor owns the strings and changes them. */
struct worker_status {
    int pid;            /* 0: no process */
    const char *device; /* "vulkan:0" */
    /* As the worker reports it: "vulkan NVIDIA H200, dot"; NULL: none ready yet. */
    const char *backend;
    const char *state; /* "starting", "ready", "backing_off", "draining", "stopped"; of a pool also
                          "on_trial" */
    double load_progress;
    uint32_t restarts;
    uint32_t takeovers;  /* of these, by a standby */
    const char *standby; /* "none", "loading" or "waiting" */
    int standby_pid;     /* 0: none */
    uint32_t failed_starts;
    const char *last_death; /* its cause; NULL: none yet */
    int64_t last_death_ms;  /* ago */
    int64_t next_start_ms;  /* from now; 0 except while backing off */
    int64_t stalled_ms;     /* time without progress; 0 if it has nothing to do */
    uint32_t requests;      /* submitted and not ended */
    uint32_t running;       /* sequences in its steps; from here on as it reports them */
    uint32_t waiting;
    uint64_t steps;
    uint64_t kv_blocks_used;
    uint64_t kv_blocks_total;
    uint64_t slab_used_bytes;
    /* Of each device in `devices`; zeros before the first ready state. */
    struct device_set devices;
    struct worker_device_status {
        uint32_t first_layer;
        uint32_t layers;
        uint64_t weights_bytes;
        uint64_t kv_bytes;
        uint64_t memory_bytes;
    } shares[LIMIT_SPLIT_DEVICES];
};
/* All but `requests`. */
void worker_supervisor_read_status(const struct worker_supervisor *supervisor,
                                   struct worker_status *status);

/* Sets whether the worker has requests: only then must its heartbeat grow. */
void worker_supervisor_expect_work(struct worker_supervisor *supervisor, bool expected);
/* It has produced a token: if it dies, the next one starts at once. */
void worker_supervisor_note_progress(struct worker_supervisor *supervisor);
/* Kills a worker that broke a rule; it counts as crashed. died() follows from the loop. */
void worker_supervisor_condemn(struct worker_supervisor *supervisor, const char *why);
/* Its prefix cache is not saved any more: another server has the directory. */
void worker_supervisor_end_saving(struct worker_supervisor *supervisor);
/* The worker clears its caches before its next request. If it is being restarted, or dies before it
 * has done so, the next one clears what it takes over before its first request. False: it is
 * draining or stopped; it saves no file of its prefix cache then. */
bool worker_supervisor_reset_cache(struct worker_supervisor *supervisor);
/* A ready worker reads the adapter before its next request and answers with an event. False: it is not ready; once
 * it is, it has read the adapters that were in use when it started. */
bool worker_supervisor_read_adapter(struct worker_supervisor *supervisor,
                                    struct adapter_id adapter);
/* Tells it to finish its requests and exit; drained() follows. */
void worker_supervisor_drain(struct worker_supervisor *supervisor);

#endif
