/*
 * Copying a batch. What has no fixed size goes into one array of words that is made large enough
 * before the first copy, so that no pointer into it moves.
 */
#include "worker/backend/split/split_step.h"

#include <stdlib.h>
#include <string.h>

#include "proto/dry_breakers.h"
#include "proto/must.h"
#include "worker/sample/token_counts.h"

void split_step_init(struct split_step *step, const struct backend_options *options)
{
    uint32_t rows = options->max_step_rows, draws = options->max_logit_rows;
    *step = (struct split_step){.max_rows = rows, .max_logit_rows = draws};
    step->token_ids = must_alloc(rows, sizeof *step->token_ids);
    step->sequences = must_alloc(rows, sizeof *step->sequences);
    step->logit_rows = must_alloc(draws, sizeof *step->logit_rows);
    step->samplings = must_alloc(draws, sizeof *step->samplings);
    step->params = must_alloc(draws, sizeof *step->params);
    step->breakers = must_alloc(draws, sizeof *step->breakers);
    step->counts = must_alloc(draws, sizeof *step->counts);
    step->feature_rows = must_alloc(rows, sizeof *step->feature_rows);
    step->rope_positions = must_alloc(rows, sizeof *step->rope_positions);
    step->visible_ends = must_alloc(rows, sizeof *step->visible_ends);
}

void split_step_fini(struct split_step *step)
{
    for (uint32_t i = 0; i < step->max_logit_rows; i++)
        token_counts_destroy(step->counts[i]);
    free(step->token_ids);
    free(step->sequences);
    free(step->logit_rows);
    free(step->samplings);
    free(step->params);
    free(step->breakers);
    free(step->counts);
    free(step->feature_rows);
    free(step->rope_positions);
    free(step->visible_ends);
    free(step->words);
    *step = (struct split_step){0};
}

/* Words of a sequence's block table of a group. */
static size_t table_words(const struct plan *plan, const struct step_sequence *sequence,
                          uint32_t group)
{
    uint32_t tokens =
        kv_layout_covered_tokens(&plan->kv, group, sequence->first_position + sequence->row_count);
    return (tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

static size_t mask_words(const struct plan *plan)
{
    return (plan->config.vocab_tokens + 31) / 32;
}

static size_t words_of(size_t bytes)
{
    return (bytes + sizeof(uint32_t) - 1) / sizeof(uint32_t);
}

static size_t sampling_words(const struct plan *plan, const struct row_sampling *sampling)
{
    size_t words = words_of(sampling->logit_bias_count * sizeof *sampling->logit_bias);
    words += sampling->barred_count;
    words += sampling->mask ? mask_words(plan) : 0;
    words += sampling->history ? sampling->position : 0;
    words += sampling->speech ? words_of(sizeof *sampling->speech) : 0;
    if (sampling->dry_breakers)
        words += sampling->dry_breakers->word_count + sampling->dry_breakers->sequence_count;
    return words;
}

/* Makes room for all words of the batch. */
static enum result reserve(struct split_step *step, const struct step_batch *batch,
                           const struct plan *plan, struct error_text *error)
{
    size_t words = 0;
    for (uint32_t s = 0; s < batch->sequence_count; s++)
        for (uint32_t g = 0; g < plan->kv.group_count; g++)
            words += table_words(plan, &batch->sequences[s], g);
    for (uint32_t i = 0; i < batch->logit_row_count && batch->samplings; i++)
        words += sampling_words(plan, &batch->samplings[i]);
    step->words_used = 0;
    if (words <= step->word_capacity)
        return RESULT_OK;
    free(step->words);
    step->word_capacity = 2 * words;
    step->words = malloc(step->word_capacity * sizeof *step->words);
    if (step->words)
        return RESULT_OK;
    step->word_capacity = 0;
    return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a copy of a step");
}

static uint32_t *copy_words(struct split_step *step, const void *from, size_t bytes)
{
    uint32_t *to = step->words + step->words_used;
    must(step->words_used + words_of(bytes) <= step->word_capacity);
    if (bytes > 0)
        memcpy(to, from, bytes);
    step->words_used += words_of(bytes);
    return to;
}

static void copy_sequences(struct split_step *step, const struct step_batch *batch,
                           const struct plan *plan)
{
    for (uint32_t s = 0; s < batch->sequence_count; s++) {
        struct step_sequence *sequence = &step->sequences[s];
        *sequence = batch->sequences[s];
        for (uint32_t g = 0; g < plan->kv.group_count; g++)
            sequence->block_tables[g] = copy_words(
                step, sequence->block_tables[g], table_words(plan, sequence, g) * sizeof(uint32_t));
    }
}

static enum result copy_sampling(struct split_step *step, uint32_t index,
                                 const struct row_sampling *from, const struct plan *plan)
{
    struct row_sampling *to = &step->samplings[index];
    *to = *from;
    step->params[index] = *from->params;
    to->params = &step->params[index];
    to->logit_bias = (const void *)copy_words(step, from->logit_bias,
                                              from->logit_bias_count * sizeof *from->logit_bias);
    to->barred = copy_words(step, from->barred, from->barred_count * sizeof *from->barred);
    if (from->mask)
        to->mask = copy_words(step, from->mask, mask_words(plan) * sizeof *from->mask);
    if (from->history)
        to->history = copy_words(step, from->history, from->position * sizeof *from->history);
    if (from->speech)
        to->speech =
            (const void *)copy_words(step, (const void *)from->speech, sizeof *from->speech);
    if (from->dry_breakers) {
        struct dry_breakers *breakers = &step->breakers[index];
        *breakers = *from->dry_breakers;
        breakers->words =
            copy_words(step, breakers->words, breakers->word_count * sizeof *breakers->words);
        breakers->starts =
            copy_words(step, breakers->starts, breakers->sequence_count * sizeof *breakers->starts);
        to->dry_breakers = breakers;
    }
    if (!from->counts)
        return RESULT_OK;
    if (!step->counts[index])
        step->counts[index] = token_counts_create(from->params, from->first_generated);
    to->counts = step->counts[index];
    return token_counts_copy(step->counts[index], from->counts);
}

static bool refers_to_draws(const struct step_batch *batch)
{
    for (uint32_t i = 0; i < batch->row_count; i++)
        if (batch->token_ids[i] & STEP_TOKEN_SAMPLED)
            return true;
    return false;
}

enum result split_step_copy(struct split_step *step, const struct step_batch *batch,
                            const struct plan *plan, struct error_text *error)
{
    size_t rows = batch->row_count;
    must(rows <= step->max_rows && batch->sequence_count <= rows);
    must(batch->logit_row_count <= step->max_logit_rows);
    must(!batch->awaits_masks && !batch->hidden && !batch->taken);
    enum result result = reserve(step, batch, plan, error);
    if (result != RESULT_OK)
        return result;
    step->batch = *batch;
    step->needs_draws = refers_to_draws(batch);
    step->batch.token_ids = memcpy(step->token_ids, batch->token_ids, rows * sizeof(uint32_t));
    step->batch.sequences = step->sequences;
    copy_sequences(step, batch, plan);
    step->batch.logit_rows = step->logit_rows;
    step->batch.samplings = step->samplings;
    for (uint32_t i = 0; i < batch->logit_row_count && result == RESULT_OK; i++) {
        step->logit_rows[i] = batch->logit_rows[i];
        result = copy_sampling(step, i, &batch->samplings[i], plan);
    }
    if (batch->feature_rows)
        step->batch.feature_rows =
            memcpy(step->feature_rows, batch->feature_rows, rows * sizeof *step->feature_rows);
    if (batch->rope_positions)
        step->batch.rope_positions = memcpy(step->rope_positions, batch->rope_positions,
                                            rows * sizeof *step->rope_positions);
    if (batch->visible_ends)
        step->batch.visible_ends =
            memcpy(step->visible_ends, batch->visible_ends, rows * sizeof *step->visible_ends);
    return result == RESULT_OK
               ? RESULT_OK
               : error_set(error, result, "no memory for a copy of a step's token counts");
}

void split_step_resolve(struct split_step *step, const struct sampled_token *drawn, uint32_t count)
{
    for (uint32_t i = 0; i < step->batch.row_count; i++) {
        uint32_t token = step->token_ids[i];
        if (!(token & STEP_TOKEN_SAMPLED))
            continue;
        must((token & ~STEP_TOKEN_SAMPLED) < count);
        step->token_ids[i] = drawn[token & ~STEP_TOKEN_SAMPLED].token;
    }
}
