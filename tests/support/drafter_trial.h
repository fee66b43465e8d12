/*
 * What trials of drafters against golden proposals share: numbers of files, and backends of small plans.
 */
#ifndef SHOAL_TESTS_SUPPORT_DRAFTER_TRIAL_H
#define SHOAL_TESTS_SUPPORT_DRAFTER_TRIAL_H

#include "worker/backend/host/backend.h"

void drafter_trial_numbers(const char *path, uint32_t *numbers, uint32_t count);
/* The caller's to free. */
float *drafter_trial_floats(const char *path, size_t count);

struct drafter_trial_load {
    bool on_vulkan; /* the first device, with batch_invariant */
    bool shares_kv; /* the lender's */
    uint32_t rows;  /* of a step, and of its logits */
    uint32_t blocks;
};

/* Fails the running test if it cannot be loaded. */
struct backend *drafter_trial_backend(const struct plan *plan,
                                      const struct drafter_trial_load *load,
                                      const struct backend *lender);

#endif
