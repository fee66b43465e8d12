/*
 * Writes sequences and their row counts into the arrays that a backend reads (struct step_batch).
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_BATCH_BUILDER_H
#define SHOAL_WORKER_SCHEDULE_STEP_BATCH_BUILDER_H

#include <stdint.h>

#include "worker/backend/host/step_batch.h"
#include "worker/schedule/sequence.h"

struct step_batch_builder;

struct step_batch_limits {
    uint32_t max_rows;
    uint32_t max_sequences;
    uint32_t max_logit_rows;
    uint32_t group_count;
    const struct model_vision *vision; /* NULL: no sequence has images */
    bool encoder; /* each row sees all rows of its sequence, which are in one step */
};
/* Allocates all memory; steps allocate none. */
struct step_batch_builder *step_batch_builder_create(const struct step_batch_limits *limits);
void step_batch_builder_destroy(struct step_batch_builder *builder);

void step_batch_builder_clear(struct step_batch_builder *builder);
/* Adds the next `certain_rows` rows of a running sequence that holds the blocks for them. If they reach its
 * last token, known or drawn by the previous step, the next token is drawn; if its mask is not
 * known yet, the batch awaits masks. The rows of its drafts
 * follow, each with a draw. Rows before prompt tokens that are scored have a draw each, before that. */
void step_batch_builder_add(struct step_batch_builder *builder, struct sequence *sequence,
                            const struct kv_pools *pools, uint32_t certain_rows);
/* After the launch of a batch that awaits masks, and sequence_compute_mask() of its sequences: adds
 * the masks to the batch's samplings. The draw of an answer that its grammar has ended, and that the
 * caller ends, stays free. */
void step_batch_builder_add_masks(struct step_batch_builder *builder);
/* Valid until the next clear. It points into the builder and, until the batch is launched and has its
 * masks, into the sequences. */
const struct step_batch *step_batch_builder_batch(const struct step_batch_builder *builder);

/* The sequence of batch->sequences[index], or NULL if it has ended since; and the index of its draw
 * among the batch's results, or UINT32_MAX if it has none; the draws of its drafted rows follow. */
struct sequence *step_batch_builder_sequence(const struct step_batch_builder *builder,
                                             uint32_t index);
uint32_t step_batch_builder_result(const struct step_batch_builder *builder, uint32_t index);
/* The scores of the sequence's prompt tokens in the batch's results (sequence_score.h). */
struct step_scores {
    uint32_t first_result;
    uint32_t first_token; /* place in the prompt */
    uint32_t count;
};
struct step_scores step_batch_builder_scores(const struct step_batch_builder *builder,
                                             uint32_t index);

#endif
