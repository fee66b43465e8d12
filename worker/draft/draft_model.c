/*
 * The arrays of one step_batch, filled sequence by sequence. The draft model's own probability of a
 * token tells how likely the target agrees, so it is the token's class.
 */
#include "worker/draft/draft_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

struct draft_model {
    struct draft_model_parts parts;
    struct step_batch batch;
    uint32_t *token_ids;             /* [DRAFT_MODEL_ROWS] */
    struct step_sequence *sequences; /* [max_sequences] */
    uint32_t *logit_rows;            /* [draft_model_draws()], like the next one */
    struct row_sampling *samplings;
    uint32_t *visible_ends; /* [DRAFT_MODEL_ROWS] of blocks; else NULL */
    float *hidden;          /* [DRAFT_MODEL_ROWS, row_columns()]; NULL: none */
    /* [DRAFT_MODEL_ROWS], filled for all rows; NULL without images */
    uint32_t *feature_rows;
    struct rope_position *rope_positions;
};

void draft_model_describe(const struct plan *target, const struct plan *plan,
                          struct draft_model_parts *parts)
{
    parts->group_count = plan->kv.group_count;
    parts->vocab_tokens = plan->config.vocab_tokens;
    parts->context_tokens = plan->config.context_tokens;
    parts->borrows_caches = plan->config.borrows_caches;
    if (!plan->takes_hidden)
        return;
    must(target->keeps_hidden);
    uint32_t given = plan->tensors[plan->hidden_in].columns;
    parts->hidden_columns = target->tensors[target->hidden_out].columns;
    if (!plan->keeps_hidden)
        return;
    parts->state_columns = plan->tensors[plan->hidden_out].columns;
    parts->states_apart = given != parts->hidden_columns;
    must(!parts->states_apart || given == parts->hidden_columns + parts->state_columns);
}

/* Columns of states that a row is given. */
static uint32_t row_columns(const struct draft_model_parts *parts)
{
    return parts->hidden_columns + (parts->states_apart ? parts->state_columns : 0);
}

uint32_t draft_model_draws(const struct draft_model_parts *parts)
{
    if (parts->block_tokens == 0)
        return parts->max_sequences;
    uint32_t draws = parts->max_sequences * (parts->block_tokens - 1);
    return draws < DRAFT_BLOCK_DRAWS ? draws : DRAFT_BLOCK_DRAWS;
}

struct draft_model *draft_model_create(const struct draft_model_parts *parts)
{
    must(parts->group_count > 0 && parts->group_count <= KV_GROUPS_MAX);
    must(parts->max_sequences > 0 && parts->max_sequences <= DRAFT_MODEL_ROWS);
    must(parts->backend->interface->step_depth(parts->backend) == 1);
    struct draft_model *model = must_alloc(1, sizeof *model);
    model->parts = *parts;
    model->token_ids = must_alloc(DRAFT_MODEL_ROWS, sizeof *model->token_ids);
    model->sequences = must_alloc(parts->max_sequences, sizeof *model->sequences);
    must(parts->block_tokens <= 1 + DRAFT_BLOCK_TOKENS);
    model->logit_rows = must_alloc(draft_model_draws(parts), sizeof *model->logit_rows);
    model->samplings = must_alloc(draft_model_draws(parts), sizeof *model->samplings);
    if (parts->block_tokens > 0)
        model->visible_ends = must_alloc(DRAFT_MODEL_ROWS, sizeof *model->visible_ends);
    model->batch = (struct step_batch){.token_ids = model->token_ids,
                                       .sequences = model->sequences,
                                       .logit_rows = model->logit_rows,
                                       .samplings = model->samplings,
                                       .visible_ends = model->visible_ends};
    must(parts->states_apart || parts->state_columns == 0 ||
         parts->hidden_columns == parts->state_columns);
    if (parts->hidden_columns > 0)
        model->hidden = must_alloc((size_t)DRAFT_MODEL_ROWS * row_columns(parts), sizeof(float));
    model->batch.hidden = model->hidden;
    if (parts->takes_images)
        model->feature_rows = must_alloc(DRAFT_MODEL_ROWS, sizeof *model->feature_rows);
    if (parts->takes_images || parts->borrows_caches)
        model->rope_positions = must_alloc(DRAFT_MODEL_ROWS, sizeof *model->rope_positions);
    return model;
}

void draft_model_destroy(struct draft_model *model)
{
    if (!model)
        return;
    free(model->token_ids);
    free(model->sequences);
    free(model->logit_rows);
    free(model->samplings);
    free(model->visible_ends);
    free(model->hidden);
    free(model->feature_rows);
    free(model->rope_positions);
    free(model);
}

const struct draft_model_parts *draft_model_parts(const struct draft_model *model)
{
    return &model->parts;
}

uint32_t draft_model_room(const struct draft_model *model)
{
    bool full = model->batch.sequence_count == model->parts.max_sequences;
    return full ? 0 : DRAFT_MODEL_ROWS - model->batch.row_count;
}

/* Fills the image arrays for the rows, and puts those into the batch that then matter. */
static void add_images(struct draft_model *model, const struct draft_model_rows *rows)
{
    struct step_batch *batch = &model->batch;
    must(model->parts.takes_images || (!rows->feature_rows && !rows->rope_positions));
    for (uint32_t i = 0; i < rows->row_count && model->parts.borrows_caches; i++) {
        uint32_t place = rows->first_position + i + 1;
        model->rope_positions[batch->row_count + i] = (struct rope_position){place, place, place};
        batch->rope_positions = model->rope_positions;
    }
    for (uint32_t i = 0; i < rows->row_count && model->parts.takes_images; i++) {
        uint32_t row = batch->row_count + i, position = rows->first_position + i;
        model->feature_rows[row] = rows->feature_rows ? rows->feature_rows[i] : ROW_FEATURE_NONE;
        model->rope_positions[row] = rows->rope_positions
                                         ? rows->rope_positions[i]
                                         : (struct rope_position){position, position, position};
        if (model->feature_rows[row] != ROW_FEATURE_NONE)
            batch->feature_rows = model->feature_rows;
    }
    if (rows->rope_positions)
        batch->rope_positions = model->rope_positions;
}

/* Fills the states of the batch's next rows. */
static void add_states(struct draft_model *model, const struct draft_model_rows *rows)
{
    const struct draft_model_parts *parts = &model->parts;
    uint32_t columns = row_columns(parts);
    uint32_t first = rows->own && parts->states_apart ? parts->hidden_columns : 0;
    uint32_t given = rows->own ? parts->state_columns : parts->hidden_columns;
    const float *from = rows->own ? rows->own : rows->hidden;
    must(!from == (parts->hidden_columns == 0) && (!rows->own || !rows->hidden));
    for (uint32_t i = 0; i < rows->row_count && from; i++) {
        float *row = model->hidden + (size_t)(model->batch.row_count + i) * columns;
        if (parts->states_apart)
            memset(row, 0, columns * sizeof *row);
        memcpy(row + first, from + (size_t)i * given, given * sizeof *row);
    }
}

void draft_model_add(struct draft_model *model, const struct draft_model_rows *rows)
{
    struct step_batch *batch = &model->batch;
    must(rows->row_count > 0 && rows->row_count <= draft_model_room(model));
    must(rows->first_position + rows->row_count <= model->parts.context_tokens);
    struct step_sequence *part = &model->sequences[batch->sequence_count++];
    *part = (struct step_sequence){.first_row = batch->row_count,
                                   .row_count = rows->row_count,
                                   .first_position = rows->first_position,
                                   .state_slot = STATE_SLOT_NONE,
                                   .state_source = STATE_SLOT_NONE,
                                   .state_copy = STATE_SLOT_NONE};
    for (uint32_t group = 0; group < model->parts.group_count; group++)
        part->block_tables[group] = rows->group_blocks ? rows->group_blocks[group] : rows->blocks;
    memcpy(model->token_ids + batch->row_count, rows->tokens,
           rows->row_count * sizeof *rows->tokens);
    add_states(model, rows);
    add_images(model, rows);
    for (uint32_t i = 0; i < rows->row_count && model->visible_ends; i++)
        model->visible_ends[batch->row_count + i] = rows->first_position + rows->row_count;
    batch->row_count += rows->row_count;
    must(rows->draw_count <= draft_model_draws(&model->parts) - batch->logit_row_count);
    for (uint32_t i = 0; i < rows->draw_count; i++) {
        model->logit_rows[batch->logit_row_count] = batch->row_count - rows->draw_count + i;
        model->samplings[batch->logit_row_count++] = rows->samplings[i];
    }
}

enum result draft_model_run(struct draft_model *model, struct sampled_token *results,
                            struct error_text *error)
{
    struct backend *backend = model->parts.backend;
    must(model->batch.row_count > 0);
    enum result result = backend->interface->step_launch(backend, &model->batch, error);
    if (result == RESULT_OK)
        result = backend->interface->step_wait(backend, results, error);
    for (uint32_t i = 0;
         result == RESULT_OK && model->parts.token_map && i < model->batch.logit_row_count; i++)
        results[i].token = model->parts.token_map[results[i].token];
    model->batch.row_count = 0;
    model->batch.sequence_count = 0;
    model->batch.logit_row_count = 0;
    model->batch.feature_rows = NULL;
    model->batch.rope_positions = NULL;
    return result;
}

const float *draft_model_hidden(const struct draft_model *model)
{
    must(model->parts.hidden_columns > 0);
    return model->parts.backend->interface->last_hidden(model->parts.backend);
}

uint8_t draft_model_class(float logprob)
{
    static const float most[DRAFT_CLASSES - DRAFT_CLASS_MODEL - 1] = {0.3f, 0.6f, 0.8f, 0.95f};
    uint8_t class = DRAFT_CLASS_MODEL;
    while (class + 1u < DRAFT_CLASSES && expf(logprob) > most[class - DRAFT_CLASS_MODEL])
        class ++;
    return class;
}
