/*
 * A model whose layers are split over devices gives the logits of the same model on one device, bit
 * for bit: at every boundary where its plan can be cut, and in as many parts as it has layers. Steps
 * are drawn: whole prompts, chunks, decodes, and mixtures of them, of several sequences.
 */
#ifndef SHOAL_TESTS_SUPPORT_SPLIT_TRIAL_H
#define SHOAL_TESTS_SUPPORT_SPLIT_TRIAL_H

#include "tests/support/model_runner.h"
#include "tests/support/test_random.h"

struct split_trial {
    const struct vulkan_settings *vulkan; /* of one of the devices; NULL: CPUs */
    struct test_random random;
    uint32_t cuts_most; /* so many boundaries, drawn; 0: all, and all at once */
    uint32_t compared;  /* rows, counted */
};

/* A checkpoint of text. */
void split_trial_text(struct split_trial *trial, const char *path,
                      struct kv_quantization quantization);
/* A folder of tests/golden/towers: prompts with images. */
void split_trial_images(struct split_trial *trial, const char *family);

#endif
