/*
 * Drafted tokens on a real checkpoint through the whole engine: answers of random requests have the same tokens,
 * log-probabilities and alternatives, bit for bit, as without drafts. Drafters: one that knows the answers and
 * makes random mistakes, the one that users get, draft models of right and of wrong guesses, and the
 * checkpoint's own layer.
 */
#ifndef SHOAL_TESTS_SUPPORT_DRAFT_TRIAL_H
#define SHOAL_TESTS_SUPPORT_DRAFT_TRIAL_H

#include <stdbool.h>

#include "worker/plan/kv_layout.h"

struct draft_trial {
    bool brief; /* only plain decoding, and layers or drafters of the model */
    const char *path;
    const char *other; /* of random weights; NULL: draft models are not tried */
    struct kv_quantization quantization;
    bool ahead;          /* its layer that predicts a further token drafts too */
    const char *drafter; /* a drafter that reads its inner states drafts too; NULL: none */
    bool on_vulkan;      /* on the first Vulkan device, with batch_invariant; else on the CPU */
};

/* Fails the running test if an answer differs, or if too few drafts were accepted to show anything. */
void draft_trial_run(const struct draft_trial *trial);

#endif
