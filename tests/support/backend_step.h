/*
 * Steps one at a time, for tests and benches.
 */
#ifndef SHOAL_TESTS_SUPPORT_BACKEND_STEP_H
#define SHOAL_TESTS_SUPPORT_BACKEND_STEP_H

#include "worker/backend/host/backend.h"

/* Launches one step and waits for it while no other is in progress. */
enum result backend_step_run(struct backend *backend, const struct step_batch *batch,
                             struct sampled_token *results,
                             struct error_text *error) RESULT_CHECKED;

#endif
