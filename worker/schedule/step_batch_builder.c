/*
 * Fills the arrays of a batch. The rows of one sequence are consecutive and their positions follow
 * its computed tokens. Only the row of its last token draws, at the position of the token to be
 * drawn. That position is the same however the sequence was chunked, preempted or replayed, and it
 * keys the random stream. If the last token is drawn by the previous step and unread, the row
 * refers to that draw.
 *
 * A batch outlives its launch: it says to which sequences the results belong, or that a sequence
 * has ended in the meantime. Sequence slots are reused, so sequences are identified by their
 * arrival.
 */
#include "worker/schedule/step_batch_builder.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/schedule/sequence_prefix.h"
#include "worker/schedule/sequence_score.h"

struct step_batch_builder {
    struct step_batch_limits limits;
    struct step_batch batch;
    uint32_t *token_ids;             /* [max_rows] */
    struct step_sequence *sequences; /* [max_sequences], like the next three */
    struct sequence **owners;
    uint64_t *arrivals; /* `arrival` of each sequence */
    uint32_t *results;
    struct step_scores *scores;     /* [max_sequences] */
    uint32_t *logit_rows;           /* [max_logit_rows] */
    struct row_sampling *samplings; /* [max_logit_rows] */
    /* [max_rows], NULL if the model takes no images and is no encoder; filled for all rows, even if the batch does
     * not pass them on */
    uint32_t *feature_rows;
    struct rope_position *rope_positions;
    uint32_t *visible_ends;
    struct row_crossing *crossed; /* likewise; NULL if rows attend to no features, like the next */
    struct feature_range *ranges; /* [max_sequences * SEQUENCE_RANGES_MAX] */
};

struct step_batch_builder *step_batch_builder_create(const struct step_batch_limits *limits)
{
    uint32_t max_rows = limits->max_rows;
    uint32_t max_sequences = limits->max_sequences;
    must(max_rows > 0 && max_sequences > 0 && limits->group_count <= KV_GROUPS_MAX);
    struct step_batch_builder *builder = must_alloc(1, sizeof *builder);
    builder->limits = *limits;
    builder->token_ids = must_alloc(max_rows, sizeof *builder->token_ids);
    builder->sequences = must_alloc(max_sequences, sizeof *builder->sequences);
    builder->owners = must_alloc(max_sequences, sizeof(struct sequence *));
    builder->arrivals = must_alloc(max_sequences, sizeof *builder->arrivals);
    builder->results = must_alloc(max_sequences, sizeof *builder->results);
    builder->scores = must_alloc(max_sequences, sizeof *builder->scores);
    builder->logit_rows = must_alloc(limits->max_logit_rows, sizeof *builder->logit_rows);
    builder->samplings = must_alloc(limits->max_logit_rows, sizeof *builder->samplings);
    if (limits->vision || limits->encoder) {
        builder->feature_rows = must_alloc(max_rows, sizeof *builder->feature_rows);
        builder->rope_positions = must_alloc(max_rows, sizeof *builder->rope_positions);
        builder->visible_ends = must_alloc(max_rows, sizeof *builder->visible_ends);
    }
    if (limits->vision && limits->vision->crossed_layers > 0) {
        builder->crossed = must_alloc(max_rows, sizeof *builder->crossed);
        builder->ranges =
            must_alloc((size_t)max_sequences * SEQUENCE_RANGES_MAX, sizeof *builder->ranges);
    }
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
    free(builder->scores);
    free(builder->logit_rows);
    free(builder->samplings);
    free(builder->feature_rows);
    free(builder->rope_positions);
    free(builder->visible_ends);
    free(builder->crossed);
    free(builder->ranges);
    free(builder);
}

void step_batch_builder_clear(struct step_batch_builder *builder)
{
    builder->batch.row_count = 0;
    builder->batch.sequence_count = 0;
    builder->batch.logit_row_count = 0;
    builder->batch.awaits_masks = false;
    builder->batch.feature_rows = NULL;
    builder->batch.rope_positions = NULL;
    builder->batch.visible_ends = NULL;
    builder->batch.crossed = NULL;
    builder->batch.ranges = builder->ranges;
    builder->batch.range_count = 0;
}

/* At most the token of the last row is not known yet. Drafted tokens lie behind the known ones. */
static void add_tokens(struct step_batch_builder *builder, const struct sequence *sequence,
                       uint32_t rows)
{
    uint32_t *ids = builder->token_ids + builder->batch.row_count;
    uint32_t known = sequence->known_tokens + sequence->draft.count - sequence->computed_tokens;
    if (known < rows) {
        must(sequence->drawn_tokens == 1 && known == rows - 1);
        ids[known] = STEP_TOKEN_SAMPLED | sequence->last_draw;
    } else {
        known = rows;
    }
    memcpy(ids, sequence->request.tokens + sequence->computed_tokens, known * sizeof *ids);
    builder->batch.row_count += rows;
}

/* Changes the image arrays for the row at `position` of a sequence with images, and puts the arrays
 * that then matter into the batch. */
static void add_image_row(struct step_batch_builder *builder, const struct sequence_images *images,
                          uint32_t row, uint32_t position)
{
    const struct model_vision *vision = builder->limits.vision;
    if (vision->grid_positions) {
        builder->rope_positions[row] =
            image_tiles_position(images->tiles, images->tile_count, position);
        builder->batch.rope_positions = builder->rope_positions;
    }
    uint32_t at = image_tiles_after(images->tiles, images->tile_count, position);
    if (at == images->tile_count || position < images->tiles[at].first_token)
        return;
    builder->feature_rows[row] = sequence_images_feature_row(images, position);
    builder->batch.feature_rows = builder->feature_rows;
    if (vision->spans_whole && !images->tiles[at].sound) {
        builder->visible_ends[row] = images->tiles[at].first_token + images->tiles[at].token_count;
        builder->batch.visible_ends = builder->visible_ends;
    }
}

/* Fills the image arrays for the rows of a sequence. */
static void add_images(struct step_batch_builder *builder, const struct sequence *sequence,
                       uint32_t rows)
{
    const struct sequence_images *images = &sequence->request.images;
    uint32_t first_row = builder->batch.row_count - rows, first_range = builder->batch.range_count;
    if (builder->crossed)
        builder->batch.range_count += sequence_images_ranges(images, builder->ranges + first_range);
    for (uint32_t i = 0; i < rows && builder->limits.vision; i++) {
        uint32_t row = first_row + i;
        uint32_t position = sequence->computed_tokens + i;
        builder->feature_rows[row] = ROW_FEATURE_NONE;
        builder->rope_positions[row] = (struct rope_position){position, position, position};
        builder->visible_ends[row] = position + 1;
        if (builder->crossed)
            builder->crossed[row] = sequence_images_crossing(images, position, first_range);
        else if (images->count > 0)
            add_image_row(builder, images, row, position);
    }
    builder->batch.crossed = builder->crossed;
}

/* Lets the rows of an encoder's sequence, which are all of its tokens, see each other, and sets their
 * segments. */
static void add_sight(struct step_batch_builder *builder, const struct sequence *sequence,
                      uint32_t rows)
{
    if (!builder->limits.encoder)
        return;
    uint32_t first_row = builder->batch.row_count - rows;
    must(sequence->computed_tokens == 0 && rows == sequence->known_tokens);
    const struct sequence_request *request = &sequence->request;
    uint32_t segment = 0;
    for (uint32_t i = 0; i < rows; i++) {
        builder->visible_ends[first_row + i] = rows;
        builder->rope_positions[first_row + i] = (struct rope_position){i, segment, 0};
        if (request->run.separator > 0 && request->tokens[i] == request->run.separator - 1)
            segment = 1;
    }
    builder->batch.visible_ends = builder->visible_ends;
    builder->batch.rope_positions = builder->rope_positions;
}

/* Adds the draw of the batch's row `row`. */
static struct row_sampling *add_draw(struct step_batch_builder *builder, uint32_t row)
{
    uint32_t draw = builder->batch.logit_row_count++;
    must(draw < builder->limits.max_logit_rows);
    builder->logit_rows[draw] = row;
    return &builder->samplings[draw];
}

/* Adds the draws of scored rows; `at`: index of the sequence, whose rows are the last ones. */
static void add_scores(struct step_batch_builder *builder, const struct sequence *sequence,
                       uint32_t at, uint32_t rows)
{
    uint32_t first;
    uint32_t count = sequence_score_rows(sequence, rows, &first);
    uint32_t first_row = builder->batch.row_count - rows + (first - sequence->computed_tokens);
    builder->scores[at] = (struct step_scores){
        .first_result = builder->batch.logit_row_count, .first_token = first + 1, .count = count};
    for (uint32_t i = 0; i < count; i++)
        *add_draw(builder, first_row + i) = sequence_score_draw(sequence, first + 1 + i);
}

void step_batch_builder_add(struct step_batch_builder *builder, struct sequence *sequence,
                            const struct kv_pools *pools, uint32_t certain_rows)
{
    struct step_batch *batch = &builder->batch;
    uint32_t rows = certain_rows + sequence->draft.count;
    must(certain_rows > 0 && rows <= builder->limits.max_rows - batch->row_count);
    must(batch->sequence_count < builder->limits.max_sequences);
    must(certain_rows <= sequence_rows_left(sequence));
    must(sequence->draft.count == 0 || certain_rows == sequence_rows_left(sequence));
    uint32_t at = batch->sequence_count++;
    struct step_sequence *part = &builder->sequences[at];
    *part = (struct step_sequence){.first_row = batch->row_count,
                                   .row_count = rows,
                                   .first_position = sequence->computed_tokens,
                                   .state_slot = sequence->recurrent.block,
                                   .state_source = sequence_prefix_source_slot(sequence, pools),
                                   .adapter = sequence->request.run.adapter};
    part->state_copy =
        sequence_prefix_copy_slot(sequence, pools, certain_rows, &part->rows_after_copy);
    if (pools->state) {
        part->deferred_rows = sequence->draft.count;
        part->deferred_place = sequence->draft.place;
        part->late_rows = sequence->draft.late_rows;
        part->late_place = sequence->draft.late_place;
    }
    for (uint32_t group = 0; group < builder->limits.group_count; group++) {
        uint32_t covered =
            kv_layout_covered_tokens(pools->layout, group, sequence->computed_tokens + rows);
        must(block_table_missing(&sequence->tables[group], covered) == 0);
        part->block_tables[group] = sequence->tables[group].blocks;
    }
    add_tokens(builder, sequence, rows);
    add_images(builder, sequence, rows);
    add_sight(builder, sequence, rows);
    builder->owners[at] = sequence;
    builder->arrivals[at] = sequence->arrival;
    builder->results[at] = UINT32_MAX;
    add_scores(builder, sequence, at, rows);
    if (certain_rows < sequence_rows_left(sequence))
        return;
    builder->results[at] = batch->logit_row_count;
    uint32_t row = batch->row_count - sequence->draft.count - 1;
    enum sequence_draw_kind kind = sequence_next_draw(sequence, add_draw(builder, row));
    must(kind == SEQUENCE_DRAW_KNOWN ||
         (kind == SEQUENCE_DRAW_UNMASKED && sequence->draft.count == 0));
    batch->awaits_masks = batch->awaits_masks || kind == SEQUENCE_DRAW_UNMASKED;
    for (uint32_t draft = 1; draft <= sequence->draft.count; draft++)
        sequence_draft_draw(sequence, draft, add_draw(builder, row + draft));
}

void step_batch_builder_add_masks(struct step_batch_builder *builder)
{
    for (uint32_t i = 0; i < builder->batch.sequence_count; i++) {
        uint32_t draw = builder->results[i];
        const struct sequence *sequence = builder->owners[i];
        if (draw != UINT32_MAX && sequence_wants_mask(sequence))
            must(sequence_next_draw(sequence, &builder->samplings[draw]) != SEQUENCE_DRAW_UNKNOWN);
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

struct step_scores step_batch_builder_scores(const struct step_batch_builder *builder,
                                             uint32_t index)
{
    must(index < builder->batch.sequence_count);
    return builder->scores[index];
}
