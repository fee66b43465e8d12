/*
 * Sequences and their row counts become the arrays that a backend reads (struct step_batch).
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_BATCH_BUILDER_H
#define SHOAL_WORKER_SCHEDULE_STEP_BATCH_BUILDER_H

#include <stdint.h>

#include "worker/backend/host/backend.h"
#include "worker/schedule/sequence.h"

struct step_batch_builder;

struct step_batch_limits {
    uint32_t max_rows;
    uint32_t max_sequences;
    uint32_t group_count;
    const struct model_vision *vision; /* NULL: no sequence has pictures */
};
/* All memory is made here, none during a step. */
struct step_batch_builder *step_batch_builder_create(const struct step_batch_limits *limits);
void step_batch_builder_destroy(struct step_batch_builder *builder);

void step_batch_builder_clear(struct step_batch_builder *builder);
/* The next `rows` rows of a running sequence that holds the blocks for them. When they reach its
 * last token, known or drawn by the step launched just before, the next one is drawn. */
void step_batch_builder_add(struct step_batch_builder *builder, struct sequence *sequence,
                            const struct kv_pools *pools, uint32_t rows);
/* Valid until the next clear; its pointers lead into the builder and, while the batch is built and
 * launched, the sequences. */
const struct step_batch *step_batch_builder_batch(const struct step_batch_builder *builder);

/* The sequence of batch->sequences[index], or NULL when it has ended since; and the number of its
 * draw among the batch's results or UINT32_MAX when none was asked for. */
struct sequence *step_batch_builder_sequence(const struct step_batch_builder *builder,
                                             uint32_t index);
uint32_t step_batch_builder_result(const struct step_batch_builder *builder, uint32_t index);

#endif
