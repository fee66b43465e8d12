/*
 * A step's batch as the split backend keeps it: the caller's arrays may change once the step is
 * launched, but the later stages begin after that. Memory is reused from step to step and grows only
 * with masks, biases, histories and block tables.
 */
#ifndef SHOAL_WORKER_BACKEND_SPLIT_SPLIT_STEP_H
#define SHOAL_WORKER_BACKEND_SPLIT_SPLIT_STEP_H

#include "worker/backend/host/backend_options.h"
#include "worker/backend/host/step_batch.h"

struct split_step {
    struct step_batch batch; /* points into the rest */
    bool needs_draws;        /* some token is a draw of the step before */
    uint32_t max_rows;
    uint32_t max_logit_rows;
    uint32_t *token_ids;
    struct step_sequence *sequences;
    uint32_t *logit_rows;
    struct row_sampling *samplings;
    struct sampling_params *params;
    struct dry_breakers *breakers;
    struct token_counts **counts; /* [max_logit_rows], made when first needed */
    uint32_t *feature_rows;
    struct rope_position *rope_positions;
    uint32_t *visible_ends;
    uint32_t *words; /* block tables, masks, biases, histories */
    size_t word_capacity;
    size_t words_used;
};

void split_step_init(struct split_step *step, const struct backend_options *options);
void split_step_fini(struct split_step *step);
/* Copies all of the batch that a backend may read. RESULT_OUT_OF_MEMORY. */
enum result split_step_copy(struct split_step *step, const struct step_batch *batch,
                            const struct plan *plan, struct error_text *error) RESULT_CHECKED;
/* Replaces references to draws of the step before by their tokens, drawn [count]. */
void split_step_resolve(struct split_step *step, const struct sampled_token *drawn, uint32_t count);

#endif
