/*
 * The tiny checkpoints of tests/golden/checkpoints in every form that scripts/golden/
 * checkpoint_variants.py writes, against the logits that mlx-lm recorded (PROVENANCE.md there).
 */
#ifndef SHOAL_TESTS_SUPPORT_CHECKPOINT_FORMS_H
#define SHOAL_TESTS_SUPPORT_CHECKPOINT_FORMS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/model_runner.h"

#define FORM_POSITIONS 24u
#define FORM_VOCAB     263u
#define FORM_ANSWER    16u

struct form_golden {
    uint32_t ids[FORM_POSITIONS];
    float logits[FORM_POSITIONS][FORM_VOCAB];
};

struct form_result {
    float logits[FORM_POSITIONS][FORM_VOCAB];
    uint32_t answer[FORM_ANSWER]; /* greedy, after the sequence */
};

/* Fails the running test when the files are not there. `family` is llama or gemma3. */
void checkpoint_forms_read(const char *family, struct form_golden *golden);

/*
 * Runs the sequence on build/checkpoints/<form>, `chunks[i % chunk_count]` rows at a time, then
 * answers token by token. `vulkan` NULL: on the CPU.
 */
void checkpoint_forms_run(const char *form, const struct form_golden *golden,
                          const struct vulkan_settings *vulkan, const uint32_t *chunks,
                          uint32_t chunk_count, struct form_result *result);

/* The largest difference of a logit, as a part of the largest golden one. */
double checkpoint_forms_difference(const struct form_golden *golden,
                                   const struct form_result *result);

#endif
