/*
 * A DFlash drafter against mlx-vlm's (scripts/golden/drafters.py): greedy proposals of 100 contexts, and logits of
 * some.
 */
#ifndef SHOAL_TESTS_SUPPORT_BLOCK_TRIAL_H
#define SHOAL_TESTS_SUPPORT_BLOCK_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

struct block_trial {
    bool on_vulkan;     /* on the first Vulkan device, with batch_invariant; else on the CPU */
    uint32_t differing; /* of the 700 proposed tokens at most */
    double tolerance;   /* root mean square of a row's differences, of its largest logit */
};

/* Fails the running test if more differs. */
void block_trial_run(const struct block_trial *trial);

#endif
