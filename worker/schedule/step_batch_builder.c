/*
 * The last stage before the device: no decision is made here any more.
 *
 * Rows of one sequence are consecutive, positions run on from its computed tokens, and only the row
 * of its last token asks for a draw, whose position is that of the token to be drawn. That is the
 * same number however the sequence was chunked, preempted or replayed, and it keys the random
 * stream. A last token that the step before draws and nobody has read is named by its draw.
 *
 * A batch outlives its launch: when its results come, it says whose they are, or that whoever asked
 * for them has ended meanwhile. Slots of sequences are used again, so it knows each by its arrival.
 */
#include "worker/schedule/step_batch_builder.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/schedule/sequence_prefix.h"

struct step_batch_builder {
    uint32_t max_rows;
    uint32_t max_sequences;
    uint32_t group_count;
    struct step_batch batch;
    uint32_t *token_ids;             /* [max_rows] */
    struct step_sequence *sequences; /* [max_sequences], as the next three */
    struct sequence **owners;
    uint64_t *arrivals; /* of the owners */
    uint32_t *results;
    uint32_t *logit_rows;           /* [max_sequences] */
    struct row_sampling *samplings; /* [max_sequences] */
};

struct step_batch_builder *step_batch_builder_create(uint32_t max_rows, uint32_t max_sequences,
                                                     uint32_t group_count)
{
    must(max_rows > 0 && max_sequences > 0 && group_count <= KV_GROUPS_MAX);
    struct step_batch_builder *builder = must_alloc(1, sizeof *builder);
    builder->max_rows = max_rows;
    builder->max_sequences = max_sequences;
    builder->group_count = group_count;
    builder->token_ids = must_alloc(max_rows, sizeof *builder->token_ids);
    builder->sequences = must_alloc(max_sequences, sizeof *builder->sequences);
    builder->owners = must_alloc(max_sequences, sizeof(struct sequence *));
    builder->arrivals = must_alloc(max_sequences, sizeof *builder->arrivals);
    builder->results = must_alloc(max_sequences, sizeof *builder->results);
    builder->logit_rows = must_alloc(max_sequences, sizeof *builder->logit_rows);
    builder->samplings = must_alloc(max_sequences, sizeof *builder->samplings);
    builder->batch = (struct step_batch){.token_ids = builder->token_ids,
                                         .sequences = builder->sequences,
                                         .logit_rows = builder->logit_rows,
                                         .samplings = builder->samplings};
    return builder;
}

void step_batch_builder_destroy(struct step_batch_builder *builder)
{
    if (!builder)
        return;
    free(builder->token_ids);
    free(builder->sequences);
    free(builder->owners);
    free(builder->arrivals);
    free(builder->results);
    free(builder->logit_rows);
    free(builder->samplings);
    free(builder);
}

void step_batch_builder_clear(struct step_batch_builder *builder)
{
    builder->batch.row_count = 0;
    builder->batch.sequence_count = 0;
    builder->batch.logit_row_count = 0;
}

static void add_draw(struct step_batch_builder *builder, const struct sequence *sequence)
{
    uint32_t at = builder->batch.logit_row_count++;
    builder->logit_rows[at] = builder->batch.row_count - 1;
    must(sequence_next_draw(sequence, &builder->samplings[at]) == SEQUENCE_DRAW_KNOWN);
}

/* At most the last of the rows has a token that is not yet known. */
static void add_tokens(struct step_batch_builder *builder, const struct sequence *sequence,
                       uint32_t rows)
{
    uint32_t *ids = builder->token_ids + builder->batch.row_count;
    uint32_t known = sequence->known_tokens - sequence->computed_tokens;
    if (known < rows) {
        must(sequence->drawn_tokens == 1 && known == rows - 1);
        ids[known] = STEP_TOKEN_SAMPLED | sequence->last_draw;
    } else {
        known = rows;
    }
    memcpy(ids, sequence->request.tokens + sequence->computed_tokens, known * sizeof *ids);
    builder->batch.row_count += rows;
}

void step_batch_builder_add(struct step_batch_builder *builder, struct sequence *sequence,
                            const struct kv_pools *pools, uint32_t rows)
{
    struct step_batch *batch = &builder->batch;
    must(rows > 0 && rows <= builder->max_rows - batch->row_count);
    must(batch->sequence_count < builder->max_sequences);
    must(rows <= sequence_rows_left(sequence));
    uint32_t at = batch->sequence_count++;
    struct step_sequence *part = &builder->sequences[at];
    *part = (struct step_sequence){.first_row = batch->row_count,
                                   .row_count = rows,
                                   .first_position = sequence->computed_tokens,
                                   .state_slot = sequence->recurrent.block,
                                   .state_source = sequence_prefix_source_slot(sequence, pools),
                                   .state_copy = sequence_prefix_copy_slot(sequence, pools, rows)};
    for (uint32_t group = 0; group < builder->group_count; group++) {
        must(block_table_missing(&sequence->tables[group], sequence->computed_tokens + rows) == 0);
        part->block_tables[group] = sequence->tables[group].blocks;
    }
    add_tokens(builder, sequence, rows);
    builder->owners[at] = sequence;
    builder->arrivals[at] = sequence->arrival;
    builder->results[at] = UINT32_MAX;
    if (rows == sequence_rows_left(sequence)) {
        builder->results[at] = batch->logit_row_count;
        add_draw(builder, sequence);
    }
}

const struct step_batch *step_batch_builder_batch(const struct step_batch_builder *builder)
{
    return &builder->batch;
}

struct sequence *step_batch_builder_sequence(const struct step_batch_builder *builder,
                                             uint32_t index)
{
    must(index < builder->batch.sequence_count);
    struct sequence *owner = builder->owners[index];
    bool runs = sequence_is_running(owner) && owner->arrival == builder->arrivals[index];
    return runs ? owner : NULL;
}

uint32_t step_batch_builder_result(const struct step_batch_builder *builder, uint32_t index)
{
    must(index < builder->batch.sequence_count);
    return builder->results[index];
}
