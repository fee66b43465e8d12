/*
 * Launching a step and waiting for it in one call.
 */
#include "tests/support/backend_step.h"

enum result backend_step_run(struct backend *backend, const struct step_batch *batch,
                             struct sampled_token *results, struct error_text *error)
{
    enum result result = backend->interface->step_launch(backend, batch, error);
    if (result == RESULT_OK)
        result = backend->interface->step_wait(backend, results, error);
    return result;
}
