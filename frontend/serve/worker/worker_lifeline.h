/*
 * Tells when a worker process on a device has ended, before it can be reaped (shm/device_work.h): no
 * thread of it runs any more, and its device has finished all work that it submitted. On an H200 that was
 * within 27 ms of a SIGKILL, where the process could be reaped after 1.1 to 1.5 s (README.md).
 *
 * It is a hint: an end that it misses is seen when the process can be reaped.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_WORKER_LIFELINE_H
#define SHOAL_FRONTEND_SERVE_WORKER_WORKER_LIFELINE_H

#include <stdint.h>

#include "frontend/serve/worker/child_process.h"

struct event_base;
struct worker_lifeline;

/* RESULT_IO. */
enum result worker_lifeline_create(struct event_base *base, struct worker_lifeline **lifeline,
                                   struct error_text *error) RESULT_CHECKED;
/* NULL is allowed. */
void worker_lifeline_destroy(struct worker_lifeline *lifeline);

/* Descriptors for the process; open until worker_lifeline_begin(). */
struct child_lifeline_fds worker_lifeline_fds(const struct worker_lifeline *lifeline);
/* Once the process was spawned. */
void worker_lifeline_begin(struct worker_lifeline *lifeline);

/* Calls ended(context) once, as soon as `process` has ended and its device has finished; not if the
 * device does not mark its work. A process that lets go of its end while it still runs is killed.
 * `process` must stay valid until worker_lifeline_destroy(), which ended() may call. */
void worker_lifeline_watch(struct worker_lifeline *lifeline, const struct child_process *process,
                           void (*ended)(void *context), void *context);
/* Signal by which the process says that it died of a fault of its own, or 0. Untrusted. */
uint32_t worker_lifeline_crash_signal(const struct worker_lifeline *lifeline);

#endif
