/*
 * The life of one request in the worker, drawn in sequence.h: each arrow is one function here, and
 * each asserts the state that it leaves and the facts of the one that it enters.
 *
 * Everything that a sequence can ever need outside the KV pools is reserved when it is admitted, so
 * a step allocates nothing (penalty counts grow by doubling, seldom). Refuses to know queues,
 * policies, rings and backends.
 */
#include "worker/schedule/sequence.h"

#include <stdlib.h>

#include "proto/must.h"

uint32_t sequence_request_forced_ids(const struct sequence_request *request)
{
    return request->prefix_count + request->think_start_count + request->think_end_count;
}

void sequence_request_fini(struct sequence_request *request)
{
    free(request->tokens);
    free(request->logit_bias);
    free(request->forced_ids);
    request->tokens = NULL;
    request->logit_bias = NULL;
    request->forced_ids = NULL;
}

static bool wants_counts(const struct sampling_params *sampling)
{
    return sampling->repetition_penalty != 1.0f || sampling->presence_penalty != 0.0f ||
           sampling->frequency_penalty != 0.0f;
}

/* Counts the prompt, whose last generated_tokens ids are a replayed answer. */
static enum result count_prompt(struct token_counts *counts, const struct sequence_request *request)
{
    uint32_t first_generated = request->prompt_tokens - request->generated_tokens;
    for (uint32_t i = 0; i < request->prompt_tokens; i++) {
        enum result result = i < first_generated
                                 ? token_counts_add_prompt(counts, request->tokens[i])
                                 : token_counts_add_generated(counts, request->tokens[i]);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

enum result sequence_begin(struct sequence *sequence, struct sequence_request *request,
                           uint64_t arrival, uint32_t tokens_max)
{
    must(sequence->state == SEQUENCE_FREE);
    must(request->prompt_tokens > 0 && tokens_max > request->prompt_tokens);
    must(request->generated_tokens < request->prompt_tokens);
    struct token_counts *counts = NULL;
    if (wants_counts(&request->sampling)) {
        counts = token_counts_create();
        if (count_prompt(counts, request) != RESULT_OK) {
            token_counts_destroy(counts);
            sequence_request_fini(request);
            return RESULT_OUT_OF_MEMORY;
        }
    }
    *sequence = (struct sequence){
        .state = SEQUENCE_WAITING,
        .arrival = arrival,
        .request = *request,
        .tokens_max = tokens_max,
        .token_capacity = request->prompt_tokens,
        .known_tokens = request->prompt_tokens,
        .counts = counts,
        .recurrent = {.block = KV_BLOCK_NONE},
    };
    request->tokens = NULL;
    request->logit_bias = NULL;
    request->forced_ids = NULL;
    return RESULT_OK;
}

enum result sequence_admit(struct sequence *sequence, struct kv_pools *pools)
{
    must(sequence->state == SEQUENCE_WAITING || sequence->state == SEQUENCE_PREEMPTED);
    must(sequence->computed_tokens == 0);
    if (sequence->token_capacity < sequence->tokens_max) {
        uint32_t *tokens = realloc(sequence->request.tokens,
                                   sequence->tokens_max * sizeof *sequence->request.tokens);
        if (!tokens)
            return RESULT_OUT_OF_MEMORY;
        sequence->request.tokens = tokens;
        sequence->token_capacity = sequence->tokens_max;
    }
    for (uint32_t group = 0; group < pools->layout->group_count; group++) {
        /* The last token is told, never computed. */
        enum result result =
            block_table_reserve(&sequence->tables[group], sequence->tokens_max - 1);
        if (result != RESULT_OK)
            return result;
    }
    if (pools->state)
        must(kv_block_pool_take(pools->state, &sequence->recurrent) == RESULT_OK);
    sequence->state = SEQUENCE_PREFILL;
    return RESULT_OK;
}

void sequence_draw(struct sequence *sequence, uint32_t draw)
{
    must(sequence_is_running(sequence));
    must(sequence_rows_left(sequence) == 0 && !sequence_draws_last(sequence));
    sequence->drawn_tokens++;
    sequence->last_draw = draw;
    sequence->state = SEQUENCE_DECODE;
}

static void give_all(struct sequence *sequence, struct kv_pools *pools)
{
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        block_table_give_all(&sequence->tables[group], pools->group[group]);
    if (sequence->recurrent.block != KV_BLOCK_NONE)
        kv_block_pool_give(pools->state, sequence->recurrent);
    sequence->recurrent.block = KV_BLOCK_NONE;
}

void sequence_preempt(struct sequence *sequence, struct kv_pools *pools)
{
    must(sequence_is_running(sequence) && sequence->drawn_tokens == 0);
    give_all(sequence, pools);
    sequence->computed_tokens = 0;
    sequence->state = SEQUENCE_PREEMPTED;
}

void sequence_finish(struct sequence *sequence, struct kv_pools *pools)
{
    must(sequence->state != SEQUENCE_FREE);
    must(!sequence->previous && !sequence->next);
    give_all(sequence, pools);
    for (uint32_t group = 0; group < KV_GROUPS_MAX; group++)
        block_table_fini(&sequence->tables[group]);
    token_counts_destroy(sequence->counts);
    sequence_request_fini(&sequence->request);
    *sequence = (struct sequence){.state = SEQUENCE_FREE};
}

void sequence_take_blocks(struct sequence *sequence, struct kv_pools *pools, uint32_t rows)
{
    must(sequence_is_running(sequence));
    must(rows > 0 && rows <= sequence_rows_left(sequence));
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        block_table_extend(&sequence->tables[group], pools->group[group],
                           sequence->computed_tokens + rows);
}

void sequence_advance(struct sequence *sequence, struct kv_pools *pools, uint32_t rows)
{
    must(sequence_is_running(sequence));
    must(rows > 0 && rows <= sequence_rows_left(sequence));
    sequence->computed_tokens += rows;
    for (uint32_t group = 0; group < pools->layout->group_count; group++) {
        /* The next query stands at computed_tokens; later ones see no further back. */
        uint32_t first_seen =
            kv_layout_first_block(pools->layout, group, sequence->computed_tokens);
        block_table_give_before(&sequence->tables[group], pools->group[group], first_seen);
    }
}

enum result sequence_append(struct sequence *sequence, uint32_t token)
{
    must(sequence->state == SEQUENCE_DECODE && sequence->drawn_tokens > 0);
    must(sequence->known_tokens < sequence->tokens_max);
    if (sequence->counts) {
        enum result result = token_counts_add_generated(sequence->counts, token);
        if (result != RESULT_OK)
            return result;
    }
    sequence->request.tokens[sequence->known_tokens++] = token;
    sequence->drawn_tokens--;
    return RESULT_OK;
}

bool sequence_is_running(const struct sequence *sequence)
{
    return sequence->state == SEQUENCE_PREFILL || sequence->state == SEQUENCE_DECODE;
}

bool sequence_stops_at(const struct sequence *sequence, uint32_t token)
{
    if (sequence->request.flags & SUBMIT_FLAG_IGNORE_END)
        return false;
    for (uint32_t i = 0; i < sequence->request.stop_token_count; i++) {
        if (sequence->request.stop_ids[i] == token)
            return true;
    }
    return false;
}

uint32_t sequence_rows_left(const struct sequence *sequence)
{
    return sequence->known_tokens + sequence->drawn_tokens - sequence->computed_tokens;
}

bool sequence_draws_last(const struct sequence *sequence)
{
    return sequence->known_tokens + sequence->drawn_tokens == sequence->tokens_max;
}

uint32_t sequence_generated_tokens(const struct sequence *sequence)
{
    return sequence->known_tokens - sequence->request.prompt_tokens +
           sequence->request.generated_tokens;
}

void sequence_check(const struct sequence *sequence, const struct kv_pools *pools)
{
    if (sequence->state == SEQUENCE_FREE)
        return;
    must(sequence->known_tokens >= sequence->request.prompt_tokens);
    must(sequence->known_tokens < sequence->tokens_max);
    if (sequence->state == SEQUENCE_WAITING)
        must(sequence->known_tokens == sequence->request.prompt_tokens);
    must(sequence->known_tokens + sequence->drawn_tokens <= sequence->tokens_max);
    if (sequence->state != SEQUENCE_DECODE)
        must(sequence->drawn_tokens == 0);
    if (!sequence_is_running(sequence))
        must(sequence->computed_tokens == 0);
    if (sequence->state == SEQUENCE_PREFILL)
        must(sequence->computed_tokens < sequence->known_tokens);
    if (sequence->state == SEQUENCE_DECODE)
        must(sequence_rows_left(sequence) == 1);
    must((sequence->recurrent.block != KV_BLOCK_NONE) ==
         (pools->state && sequence_is_running(sequence)));
    for (uint32_t group = 0; group < pools->layout->group_count; group++) {
        const struct block_table *table = &sequence->tables[group];
        must(table->covered == block_table_blocks(sequence->computed_tokens));
        uint32_t first_seen =
            kv_layout_first_block(pools->layout, group, sequence->computed_tokens);
        must(table->first_held == (first_seen < table->covered ? first_seen : table->covered));
    }
}
