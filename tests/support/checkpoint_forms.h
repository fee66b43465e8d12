/*
 * Compares the tiny checkpoints of tests/golden/checkpoints, in every form that scripts/golden/
 * checkpoint_variants.py writes, with recorded logits of transformers (PROVENANCE.md there).
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

#define FORM_FAMILIES_MAX 64u
#define FORM_NAME_BYTES   64u

/* Writes the names of the families in tests/golden/checkpoints; returns their number. */
uint32_t checkpoint_forms_families(char names[FORM_FAMILIES_MAX][FORM_NAME_BYTES]);

/* True if build/checkpoints/<form> exists. */
bool checkpoint_forms_exists(const char *form);

/* Fails the running test if the files are missing. */
void checkpoint_forms_read(const char *family, struct form_golden *golden);

/* How to run the sequence: `chunks[i % chunk_count]` rows at a time. In company, each step has two
 * other sequences, one before it and one after it in the batch; one of them goes token by token. */
struct form_run {
    const struct vulkan_settings *vulkan; /* NULL: on the CPU */
    const uint32_t *chunks;
    uint32_t chunk_count;
    bool company;
    uint32_t activation_bits; /* as in backend_options */
};

/* Runs the sequence on build/checkpoints/<form>, then answers token by token. */
void checkpoint_forms_run(const char *form, const struct form_golden *golden,
                          const struct form_run *how, struct form_result *result);

/* The largest difference of a logit, divided by the largest golden one. */
double checkpoint_forms_difference(const struct form_golden *golden,
                                   const struct form_result *result);

#endif
