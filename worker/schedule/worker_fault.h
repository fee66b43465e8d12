/*
 * Injects faults, for tests of the frontend: `--fault [WORKER:]NAME=N`.
 *
 *   abort-on-token=ID     aborts in a step that computes the token ID, also as a draft
 *   kill-on-token=ID      ends by SIGKILL there, as by the kernel's OOM killer
 *   abort-at-step=N       aborts in the N-th step of every worker process
 *   abort-on-inherited=N  aborts in the first step of a worker process if a sequence begins there at
 *                         position N or later, which only blocks of an earlier worker allow
 *   open-at-step=N        opens a file in the N-th step of every worker process
 *   socket-at-step=N      makes a network socket there: with the sandbox, both end the process
 *   hang-at-step=N        hangs in the N-th step of every worker process
 *   fail-from-life=N      fails to start from the N-th worker process on
 *
 * With WORKER (a number), only that worker has the fault. A request cannot cause one.
 */
#ifndef SHOAL_WORKER_SCHEDULE_WORKER_FAULT_H
#define SHOAL_WORKER_SCHEDULE_WORKER_FAULT_H

#include "worker/backend/host/step_batch.h"

enum worker_fault_kind {
    WORKER_FAULT_NONE = 0,
    WORKER_FAULT_ABORT_ON_TOKEN,
    WORKER_FAULT_KILL_ON_TOKEN,
    WORKER_FAULT_ABORT_AT_STEP,
    WORKER_FAULT_ABORT_ON_INHERITED,
    WORKER_FAULT_OPEN_AT_STEP,
    WORKER_FAULT_SOCKET_AT_STEP,
    WORKER_FAULT_HANG_AT_STEP,
    WORKER_FAULT_FAIL_FROM_LIFE
};

struct worker_fault {
    enum worker_fault_kind kind;
    uint32_t number;
};

/* Parses `text`; NULL: no fault. RESULT_INVALID says what is wrong with it. */
enum result worker_fault_parse(const char *text, uint32_t worker_index, struct worker_fault *fault,
                               struct error_text *error) RESULT_CHECKED;
/* RESULT_INVALID if this worker process must not start; the first life is 1. */
enum result worker_fault_start(const struct worker_fault *fault, uint32_t life,
                               struct error_text *error) RESULT_CHECKED;
/* Injects the fault if it is due and then does not return. `steps`: those launched before this one.
 */
void worker_fault_step(const struct worker_fault *fault, uint64_t steps,
                       const struct step_batch *batch);
/* The same for tokens of a launched step that the host did not know; `before`: the results of the
 * previous step. */
void worker_fault_drawn(const struct worker_fault *fault, const struct step_batch *batch,
                        const struct sampled_token *before);

#endif
