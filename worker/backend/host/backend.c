/*
 * For tools and tests that run one step at a time: launching and waiting in one call.
 */
#include "worker/backend/host/backend.h"

enum result backend_step_run(struct backend *backend, const struct step_batch *batch,
                             struct sampled_token *results, struct error_text *error)
{
    enum result result = backend->interface->step_launch(backend, batch, error);
    if (result == RESULT_OK)
        result = backend->interface->step_wait(backend, results, error);
    return result;
}
