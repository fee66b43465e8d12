/*
 * Faults on purpose, for tests of the frontend: `--fault [WORKER:]NAME=N`.
 *
 *   abort-on-token=ID     aborts in a step that computes the token ID
 *   abort-at-step=N       aborts in the N-th step of every life
 *   hang-at-step=N        hangs there
 *   fail-from-life=N      cannot start from the N-th life on
 *
 * With WORKER (a number), only that worker has it. There is no way to a fault through a request.
 */
#ifndef SHOAL_WORKER_SCHEDULE_WORKER_FAULT_H
#define SHOAL_WORKER_SCHEDULE_WORKER_FAULT_H

#include "worker/backend/host/backend.h"

enum worker_fault_kind {
    WORKER_FAULT_NONE = 0,
    WORKER_FAULT_ABORT_ON_TOKEN,
    WORKER_FAULT_ABORT_AT_STEP,
    WORKER_FAULT_HANG_AT_STEP,
    WORKER_FAULT_FAIL_FROM_LIFE
};

struct worker_fault {
    enum worker_fault_kind kind;
    uint32_t number;
};

/* `text` NULL: none. RESULT_INVALID says what is wrong with it. */
enum result worker_fault_parse(const char *text, uint32_t worker_index, struct worker_fault *fault,
                               struct error_text *error) RESULT_CHECKED;
/* RESULT_INVALID in a life that must not start; the first life is 1. */
enum result worker_fault_start(const struct worker_fault *fault, uint32_t life,
                               struct error_text *error) RESULT_CHECKED;
/* Has the fault if it is time: does not return then. `steps`: those launched before this one. */
void worker_fault_step(const struct worker_fault *fault, uint64_t steps,
                       const struct step_batch *batch);
/* The same for tokens of a launched step that its host did not know: `before` are the results of
 * the step before it. */
void worker_fault_drawn(const struct worker_fault *fault, const struct step_batch *batch,
                        const struct sampled_token *before);

#endif
