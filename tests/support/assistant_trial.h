/*
 * Assistants of Gemma 4 against transformers' (scripts/golden/assistants.py): greedy chains of 120 contexts, and
 * logits of some. The assistant is a draft model (worker/draft/draft_model.h) that reads the model's caches.
 */
#ifndef SHOAL_TESTS_SUPPORT_ASSISTANT_TRIAL_H
#define SHOAL_TESTS_SUPPORT_ASSISTANT_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

struct assistant_trial {
    bool on_vulkan;     /* on the first Vulkan device, with batch_invariant; else on the CPU */
    uint32_t differing; /* of the 360 proposed tokens at most */
    double tolerance;   /* root mean square of a row's differences, of its largest logit */
};

/* Fails the running test if more differs. */
void assistant_trial_run(const struct assistant_trial *trial);

#endif
