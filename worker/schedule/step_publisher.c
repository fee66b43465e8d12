/*
 * After a step, each of its sequences has more computed positions, log-probabilities of prompt
 * tokens if they are asked for (sequence_score.h), and, if the row of its last token was included, a
 * new token. The order of a request's events is progress, prompt tokens, alternatives of the token,
 * token, end. A sequence ends by a stop token, by its length, if its grammar fails, or if its
 * bookkeeping gets no memory; a grammar that is complete ends it before the next step is planned
 * (grammar_masks.h), or here if its length is reached.
 *
 * A sequence that ends may have a row in a step under way. The results of that row have no owner
 * and are dropped: the price of launching a step before the deciding token is read.
 *
 * Progress is sent once for each prompt position, so a sequence recomputed after a preemption sends
 * nothing until it has a new token.
 */
#include "worker/schedule/step_publisher.h"

#include "proto/must.h"
#include "worker/schedule/gauge_board.h"
#include "worker/schedule/grammar_masks.h"
#include "worker/schedule/sequence_draft.h"
#include "worker/schedule/step_drafts.h"
#include "worker/schedule/vector_publisher.h"

/* `computed_tokens`: the sequence's positions at the end of this step; later steps may have
 * advanced it further. */
static void emit_progress(struct worker_engine *engine, struct sequence *sequence,
                          uint32_t computed_tokens, uint64_t step_time_us)
{
    uint32_t prompt_tokens = sequence->request.run.prompt_tokens;
    uint32_t done = computed_tokens < prompt_tokens ? computed_tokens : prompt_tokens;
    if (done <= sequence->reported_prompt_tokens)
        return;
    sequence->reported_prompt_tokens = done;
    frontend_link_emit(engine->parts.link,
                       &(struct token_event){.kind = TOKEN_EVENT_PROGRESS,
                                             .request = sequence->request.id,
                                             .prompt_done = done,
                                             .prompt_total = prompt_tokens,
                                             .cached_tokens = sequence->cached_tokens,
                                             .step_time_us = step_time_us});
}

static void end(struct worker_engine *engine, struct sequence *sequence, enum finish_reason finish)
{
    struct request_id id = sequence->request.id;
    sequence_table_remove(engine->table, sequence, &engine->pools);
    frontend_link_emit_finished(engine->parts.link, id, finish);
}

static void fail(struct worker_engine *engine, struct sequence *sequence, enum result failure)
{
    struct request_id id = sequence->request.id;
    sequence_table_remove(engine->table, sequence, &engine->pools);
    if (failure != RESULT_OUT_OF_MEMORY && engine->parts.pooling == POOLING_OFF)
        gauge_board_add_grammar_failure(engine->gauges);
    frontend_link_emit_failed(engine->parts.link, id, failure);
}

static void tell_alternatives(struct worker_engine *engine, struct request_id id,
                              const struct sampled_token *sampled)
{
    must(sampled->alternative_count <= LIMIT_TOP_LOGPROBS);
    for (uint32_t told = 0; told < sampled->alternative_count;) {
        struct token_event event = {.kind = TOKEN_EVENT_ALTERNATIVES, .request = id};
        while (event.alternative_count < TOKEN_EVENT_ALTERNATIVES_MAX &&
               told < sampled->alternative_count)
            event.alternatives[event.alternative_count++] = sampled->alternatives[told++];
        frontend_link_emit(engine->parts.link, &event);
    }
}

/* What a token's event says of drafts (proto/token_event.h). */
struct draft_note {
    uint32_t draft_tokens;
    uint32_t draft_position;
};

/* False: the sequence has ended. */
static bool tell_token(struct worker_engine *engine, struct sequence *sequence,
                       const struct sampled_token *sampled, struct draft_note note)
{
    must(sampled->token < engine->parts.vocab_tokens);
    uint32_t index = sequence_generated_tokens(sequence);
    struct sampling_params *sampling = &sequence->request.run.sampling;
    if (sampling_params_has_mirostat(sampling))
        sampling->mirostat_mu = sampled->mirostat_mu;
    float mirostat_mu = sampling->mirostat_mu;
    enum result appended = sequence_append(sequence, &engine->pools, sampled->token);
    if (appended != RESULT_OK) {
        fail(engine, sequence, appended);
        return false;
    }
    tell_alternatives(engine, sequence->request.id, sampled);
    frontend_link_emit(engine->parts.link,
                       &(struct token_event){.kind = TOKEN_EVENT_TOKEN,
                                             .request = sequence->request.id,
                                             .token = sampled->token,
                                             .index = index,
                                             .draft_tokens = note.draft_tokens,
                                             .draft_position = note.draft_position,
                                             .cached_tokens = sequence->cached_tokens,
                                             .cached_images = sequence->request.images.hits,
                                             .logprob = sampled->logprob,
                                             .mirostat_mu = mirostat_mu});
    enum finish_reason finish = sequence_end_at(sequence, sampled->token);
    if (finish == FINISH_LENGTH && grammar_masks_is_complete(engine, sequence))
        finish = FINISH_GRAMMAR;
    if (finish == FINISH_STOP_TOKEN || finish == FINISH_GRAMMAR)
        chunk_pace_note_answer(&engine->pace.chunks, sequence_generated_tokens(sequence));
    if (finish != FINISH_NONE)
        end(engine, sequence, finish);
    return finish == FINISH_NONE;
}

/* Tells the draws of a sequence up to the first one that differs from its draft, or to the one
 * after the last draft. Returns the number of tokens. */
static uint32_t tell_draws(struct worker_engine *engine, struct sequence *sequence,
                           const struct sampled_token *draws)
{
    uint32_t drafts = sequence->draft.count;
    for (uint32_t at = 0;; at++) {
        bool equals = step_drafts_judge(engine, sequence, at, draws[at].token);
        struct draft_note note = {.draft_tokens = at == 0 ? drafts : 0,
                                  .draft_position = equals ? at + 1 : 0};
        if (!tell_token(engine, sequence, &draws[at], note))
            return at + 1;
        if (equals) {
            sequence_draft_accept(sequence, &engine->pools);
            continue;
        }
        if (drafts > 0)
            sequence_draft_end(sequence, &engine->pools);
        return at + 1;
    }
}

/* Tells the scores that were not told yet. */
static void tell_scores(struct worker_engine *engine, struct sequence *sequence,
                        const struct step_scores *scores, const struct sampled_token *results)
{
    for (uint32_t i = 0; i < scores->count; i++) {
        if (scores->first_token + i != sequence->next_score)
            continue;
        const struct sampled_token *score = &results[scores->first_result + i];
        must(score->token == sequence->request.tokens[sequence->next_score]);
        tell_alternatives(engine, sequence->request.id, score);
        frontend_link_emit(engine->parts.link,
                           &(struct token_event){.kind = TOKEN_EVENT_PROMPT_TOKEN,
                                                 .request = sequence->request.id,
                                                 .token = score->token,
                                                 .index = sequence->next_score++,
                                                 .rank = score->rank,
                                                 .logprob = score->logprob});
    }
}

/* Pools the vectors of rows that were not pooled yet, and ends the sequence with its last one. */
static uint32_t pool(struct worker_engine *engine, struct sequence *sequence,
                     const struct step_scores *scores, uint32_t last_result,
                     const struct step_done *done)
{
    uint32_t columns = engine->parts.vector_columns;
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < scores->count && result == RESULT_OK; i++) {
        const float *vector = done->vectors + (size_t)(scores->first_result + i) * columns;
        if (scores->first_token + i == sequence->next_score)
            result = vector_publisher_take(engine, sequence, sequence->next_score++ - 1, vector);
    }
    if (result == RESULT_OK && last_result != UINT32_MAX)
        result = vector_publisher_take(engine, sequence, sequence->request.run.prompt_tokens - 1,
                                       done->vectors + (size_t)last_result * columns);
    if (result != RESULT_OK) {
        fail(engine, sequence, result);
        return 0;
    }
    return last_result == UINT32_MAX ? 0
                                     : tell_draws(engine, sequence, &done->results[last_result]);
}

uint32_t step_publisher_apply(struct worker_engine *engine, const struct step_done *done)
{
    const struct step_batch *batch = step_batch_builder_batch(done->builder);
    uint32_t generated = 0;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        struct sequence *sequence = step_batch_builder_sequence(done->builder, i);
        if (!sequence)
            continue;
        const struct step_sequence *part = &batch->sequences[i];
        emit_progress(engine, sequence, part->first_position + part->row_count, done->time_us);
        struct step_scores scores = step_batch_builder_scores(done->builder, i);
        uint32_t result = step_batch_builder_result(done->builder, i);
        if (engine->parts.pooling != POOLING_OFF) {
            generated += pool(engine, sequence, &scores, result, done);
            continue;
        }
        tell_scores(engine, sequence, &scores, done->results);
        if (result != UINT32_MAX)
            generated += tell_draws(engine, sequence, &done->results[result]);
    }
    return generated;
}
