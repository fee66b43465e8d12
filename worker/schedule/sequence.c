/*
 * The states of sequence.h: each arrow is one function here, which asserts the state that it leaves
 * and the invariants of the state that it enters.
 *
 * Everything that a sequence can need outside the KV pools is reserved when it is admitted, so
 * steps allocate nothing (except that penalty counts grow by doubling).
 */
#include "worker/schedule/sequence.h"

#include <stdlib.h>

#include "proto/generation_end.h"
#include "proto/must.h"
#include "worker/schedule/sequence_prefix.h"

void sequence_request_fini(struct sequence_request *request)
{
    free(request->tokens);
    free(request->logit_bias);
    free(request->forced_ids);
    free(request->grammar_blob);
    dry_breakers_fini(&request->dry_breakers);
    sequence_grammar_close(&request->grammar);
    sequence_images_fini(&request->images);
    request->tokens = NULL;
    request->logit_bias = NULL;
    request->forced_ids = NULL;
    request->grammar_blob = NULL;
}

static bool wants_counts(const struct sampling_params *sampling)
{
    return sampling->repetition_penalty != 1.0f || sampling->presence_penalty != 0.0f ||
           sampling->frequency_penalty != 0.0f;
}

/* Position of the first generated token, including those from before a replay. */
static uint32_t first_generated(const struct sequence_request *request)
{
    return request->run.prompt_tokens - request->run.generated_tokens;
}

/* Takes the generated tokens that forcer and grammar do not know yet. */
static enum result follow_answer(struct sequence *sequence)
{
    struct sequence_request *request = &sequence->request;
    struct token_forcer *forcer = &sequence->forcer;
    const uint32_t *generated = request->tokens + first_generated(request);
    uint32_t count = sequence_generated_tokens(sequence);
    enum result result = RESULT_OK;
    for (; request->grammar.matcher && forcer->followed < count && result == RESULT_OK;
         token_forcer_follow(forcer, generated, forcer->followed + 1))
        result = sequence_grammar_follow(&request->grammar, forcer, generated[forcer->followed]);
    token_forcer_follow(forcer, generated, count);
    return result;
}

static void begin_forcer(struct sequence *sequence)
{
    const struct sequence_request *request = &sequence->request;
    const uint32_t *prefix = request->forced_ids;
    struct token_forcer_rules rules = {
        .prefix_count = request->run.prefix_count,
        .think_start_count = request->run.think_start_count,
        .think_end_count = request->run.think_end_count,
        .is_open = (request->run.flags & SUBMIT_FLAG_THINKING_OPEN) != 0,
        .has_budget = (request->run.flags & SUBMIT_FLAG_THINKING_BUDGET) != 0,
        .budget = request->run.thinking_budget,
    };
    if (prefix) {
        rules.prefix = prefix;
        rules.think_start = prefix + request->run.prefix_count;
        rules.think_end = rules.think_start + request->run.think_start_count;
    }
    token_forcer_init(&sequence->forcer, &rules);
}

/* Fills `barred`: the token that starts thinking, then the stop ids, so that each combination of
 * the two is one contiguous range. */
static void begin_barred(struct sequence *sequence)
{
    const struct sequence_request *request = &sequence->request;
    if (request->run.think_start_count == 1)
        sequence->barred[0] = request->forced_ids[request->run.prefix_count];
    for (uint32_t i = 0; i < request->run.stop_token_count; i++)
        sequence->barred[1 + i] = request->stop_ids[i];
}

static void draft_fini(struct sequence_draft *draft)
{
    for (uint32_t i = 0; i < SEQUENCE_COUNTED_DRAFTS; i++)
        token_counts_destroy(draft->counts[i]);
    for (uint32_t i = 0; i < LIMIT_DRAFT_TOKENS; i++)
        free(draft->masks[i].words);
    free(draft->cells.held);
    if (draft->state)
        draft->drafter->close(draft->state);
}

static void drop(struct sequence *sequence)
{
    token_counts_destroy(sequence->counts);
    free(sequence->pooled);
    draft_fini(&sequence->draft);
    sequence_request_fini(&sequence->request);
    *sequence = (struct sequence){.state = SEQUENCE_FREE};
}

enum result sequence_begin(struct sequence *sequence, struct sequence_request *request,
                           uint64_t arrival, uint32_t tokens_max)
{
    must(sequence->state == SEQUENCE_FREE);
    must(request->run.prompt_tokens > 0 && tokens_max > request->run.prompt_tokens);
    must(request->run.generated_tokens < request->run.prompt_tokens);
    struct token_counts *counts = NULL;
    if (wants_counts(&request->run.sampling)) {
        counts = token_counts_create(&request->run.sampling, first_generated(request));
        if (token_counts_follow(counts, request->tokens, request->run.prompt_tokens) != RESULT_OK) {
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
        .token_capacity = request->run.prompt_tokens,
        .known_tokens = request->run.prompt_tokens,
        .next_score =
            request->run.score_from > 0 ? request->run.score_from : first_generated(request),
        .counts = counts,
        .recurrent = {.block = KV_BLOCK_NONE},
        .restored = {.block = KV_BLOCK_NONE},
        .saved = {.block = KV_BLOCK_NONE},
    };
    request->tokens = NULL;
    request->logit_bias = NULL;
    request->forced_ids = NULL;
    request->grammar_blob = NULL;
    request->dry_breakers = (struct dry_breakers){0};
    request->grammar = (struct sequence_grammar){0};
    request->images = (struct sequence_images){0};
    begin_forcer(sequence);
    begin_barred(sequence);
    enum result result = follow_answer(sequence);
    if (result != RESULT_OK)
        drop(sequence);
    return result;
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
        /* The last token is sent but never computed. */
        enum result result = block_table_reserve(
            &sequence->tables[group],
            kv_layout_covered_tokens(pools->layout, group, sequence->tokens_max - 1));
        if (result != RESULT_OK)
            return result;
    }
    if (sequence_prefix_reserve(sequence, pools, sequence->tokens_max - 1) != RESULT_OK)
        return RESULT_OUT_OF_MEMORY;
    if (pools->state)
        must(kv_block_pool_take(pools->state, &sequence->recurrent) == RESULT_OK);
    sequence_prefix_resume(sequence, pools);
    if (sequence->state == SEQUENCE_WAITING) {
        sequence->cached_tokens = sequence->computed_tokens;
        sequence_images_skip(&sequence->request.images, sequence->computed_tokens);
    }
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
    sequence_images_release(&sequence->request.images, pools->features, UINT32_MAX);
    if (sequence->recurrent.block != KV_BLOCK_NONE)
        kv_block_pool_give(pools->state, sequence->recurrent, KV_EVICT_LAST);
    sequence->recurrent.block = KV_BLOCK_NONE;
    sequence_prefix_release(sequence, pools);
}

void sequence_preempt(struct sequence *sequence, struct kv_pools *pools)
{
    must(sequence_is_running(sequence) && sequence->drawn_tokens == 0);
    must(sequence->draft.count == 0);
    give_all(sequence, pools);
    sequence->draft.late_rows = 0; /* with the slot */
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
    free(sequence->names);
    drop(sequence);
}

void sequence_take_blocks(struct sequence *sequence, struct kv_pools *pools, uint32_t rows)
{
    must(sequence_is_running(sequence));
    must(rows > 0 && rows <= sequence_rows_left(sequence) + sequence->draft.count);
    uint32_t tokens = sequence->computed_tokens + rows;
    for (uint32_t group = 0; group < pools->layout->group_count; group++) {
        struct block_table *table = &sequence->tables[group];
        uint32_t covered = kv_layout_covered_tokens(pools->layout, group, tokens);
        kv_pools_make_room(pools, group, block_table_missing(table, covered));
        block_table_extend(table, pools->group[group], covered);
    }
    sequence_prefix_take_checkpoint(sequence, pools, rows - sequence->draft.count);
}

void sequence_advance(struct sequence *sequence, struct kv_pools *pools, uint32_t rows)
{
    must(sequence_is_running(sequence));
    must(rows > 0 && rows <= sequence_rows_left(sequence));
    sequence->computed_tokens += rows;
    sequence->draft.late_rows = 0;
    sequence_prefix_release_restored(sequence, pools);
    sequence_prefix_publish(sequence, pools);
    if (!pools->features_are_read_again)
        sequence_images_release(&sequence->request.images, pools->features,
                                sequence->computed_tokens);
    for (uint32_t group = 0; group < pools->layout->group_count; group++) {
        uint32_t first_kept = kv_layout_first_kept(pools->layout, group, sequence->computed_tokens);
        struct block_table *table = &sequence->tables[group];
        while (table->first_held < table->covered && table->first_held < first_kept)
            block_table_give_first(
                table, pools->group[group],
                sequence_prefix_evict_order(sequence, pools, group, table->first_held));
    }
}

enum result sequence_append(struct sequence *sequence, struct kv_pools *pools, uint32_t token)
{
    must(sequence->state == SEQUENCE_DECODE && sequence->drawn_tokens > 0);
    must(sequence->known_tokens < sequence->tokens_max);
    const uint32_t *tokens = sequence->request.tokens;
    sequence->request.tokens[sequence->known_tokens++] = token;
    sequence->drawn_tokens--;
    enum result result = follow_answer(sequence);
    if (result != RESULT_OK)
        return result;
    sequence_prefix_publish(sequence, pools);
    if (!sequence->counts)
        return RESULT_OK;
    return token_counts_follow(sequence->counts, tokens, sequence->known_tokens);
}

/* Whether the token at `position` is one of the answer's first min_tokens. */
static bool is_short(const struct sequence *sequence, uint32_t position)
{
    return position - first_generated(&sequence->request) < sequence->request.run.min_tokens;
}

bool sequence_wants_mask(const struct sequence *sequence)
{
    return sequence->drawn_tokens == 0 &&
           sequence_grammar_masks(&sequence->request.grammar, &sequence->forcer, 0);
}

struct grammar_stops sequence_stops_at(const struct sequence *sequence, uint32_t position)
{
    const struct sequence_request *request = &sequence->request;
    return (struct grammar_stops){.ids = request->stop_ids,
                                  .count = request->run.stop_token_count,
                                  .barred = (request->run.flags & SUBMIT_FLAG_IGNORE_END) != 0 ||
                                            is_short(sequence, position)};
}

void sequence_compute_mask(struct sequence *sequence)
{
    const struct grammar_stops stops = sequence_stops_at(sequence, sequence->known_tokens);
    must(sequence_wants_mask(sequence));
    sequence_grammar_compute(&sequence->request.grammar, &sequence->forcer, &stops);
}

static struct row_sampling sampling_at(const struct sequence *sequence, uint32_t position,
                                       const struct token_counts *counts)
{
    const struct sequence_request *request = &sequence->request;
    return (struct row_sampling){
        .params = &request->run.sampling,
        .counts = counts,
        .logit_bias = request->logit_bias,
        .logit_bias_count = request->run.logit_bias_count,
        .position = position,
        .history = request->tokens,
        .dry_breakers = &request->dry_breakers,
        .speech = speech_rules_exist(&request->run.speech) ? &request->run.speech : NULL,
        .first_generated = first_generated(request),
        .wants_logprob = (request->run.flags & SUBMIT_FLAG_LOGPROBS) != 0,
        .top_logprobs = request->run.top_logprobs,
    };
}

/* Adds what the forcer says of a draw that no grammar governs. */
static void add_forced(const struct sequence *sequence, const struct forced_draw *forced,
                       struct row_sampling *sampling)
{
    const struct sequence_request *request = &sequence->request;
    sampling->is_forced = forced->kind == FORCED_TOKEN;
    sampling->forced_token = forced->token;
    /* An answer with a grammar does not end before the grammar begins. */
    bool bars_stops = (request->run.flags & SUBMIT_FLAG_IGNORE_END) == 0 &&
                      (request->grammar.matcher || is_short(sequence, sampling->position));
    sampling->barred = sequence->barred + (forced->bars_start ? 0 : 1);
    sampling->barred_count =
        (forced->bars_start ? 1 : 0) + (bars_stops ? request->run.stop_token_count : 0);
}

/* Adds a mask, which governs the draw beside no other rule. */
static void add_mask(const uint32_t *mask, uint32_t allowed, struct row_sampling *sampling)
{
    sampling->mask = mask;
    sampling->is_forced = allowed == 1;
    sampling->forced_token = sampling->is_forced ? sequence_grammar_only(mask) : 0;
}

enum sequence_draw_kind sequence_next_draw(const struct sequence *sequence,
                                           struct row_sampling *sampling)
{
    const struct sequence_request *request = &sequence->request;
    *sampling =
        sampling_at(sequence, sequence->known_tokens + sequence->drawn_tokens, sequence->counts);
    const struct sequence_grammar *grammar = &request->grammar;
    if (sequence_grammar_masks(grammar, &sequence->forcer, sequence->drawn_tokens)) {
        if (sequence->drawn_tokens > 0)
            return SEQUENCE_DRAW_UNKNOWN;
        if (!grammar->has_mask || grammar->verdict != GRAMMAR_GOES_ON)
            return SEQUENCE_DRAW_UNMASKED;
        add_mask(grammar->mask, grammar->allowed, sampling);
        return SEQUENCE_DRAW_KNOWN;
    }
    struct forced_draw forced = token_forcer_next(&sequence->forcer, sequence->drawn_tokens);
    if (forced.kind == FORCED_UNKNOWN)
        return SEQUENCE_DRAW_UNKNOWN;
    add_forced(sequence, &forced, sampling);
    return SEQUENCE_DRAW_KNOWN;
}

void sequence_draft_draw(const struct sequence *sequence, uint32_t drafts,
                         struct row_sampling *sampling)
{
    must(drafts > 0 && drafts <= sequence->draft.count);
    *sampling = sampling_at(sequence, sequence->known_tokens + drafts,
                            sequence->counts ? sequence->draft.counts[drafts - 1] : NULL);
    const struct draft_mask *mask = &sequence->draft.masks[drafts - 1];
    if (mask->allowed > 0) {
        add_mask(mask->words, mask->allowed, sampling);
        return;
    }
    struct token_forcer forcer = sequence->forcer;
    token_forcer_follow(&forcer, sequence->request.tokens + first_generated(&sequence->request),
                        sequence_generated_tokens(sequence) + drafts);
    struct forced_draw forced = token_forcer_next(&forcer, 0);
    add_forced(sequence, &forced, sampling);
}

void sequence_guess_draw(const struct sequence *sequence, uint32_t ahead,
                         struct row_sampling *sampling)
{
    *sampling = sampling_at(sequence, sequence->known_tokens + ahead, sequence->counts);
    const struct forced_draw free_draw = {.kind = FORCED_NONE};
    add_forced(sequence, &free_draw, sampling);
}

bool sequence_is_running(const struct sequence *sequence)
{
    return sequence->state == SEQUENCE_PREFILL || sequence->state == SEQUENCE_DECODE;
}

enum finish_reason sequence_end_at(const struct sequence *sequence, uint32_t token)
{
    const struct generation_end_rules rules = {
        .stop_ids = sequence->request.stop_ids,
        .stop_id_count = sequence->request.run.stop_token_count,
        .ignore_end = (sequence->request.run.flags & SUBMIT_FLAG_IGNORE_END) != 0,
        .max_total_tokens = sequence->tokens_max};
    return generation_end_find(&rules, token, sequence->known_tokens);
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
    return sequence->known_tokens - sequence->request.run.prompt_tokens +
           sequence->request.run.generated_tokens;
}

uint32_t sequence_first_generated(const struct sequence *sequence)
{
    return first_generated(&sequence->request);
}

void sequence_check(const struct sequence *sequence, const struct kv_pools *pools)
{
    if (sequence->state == SEQUENCE_FREE)
        return;
    must(sequence->known_tokens >= sequence->request.run.prompt_tokens);
    must(sequence->known_tokens < sequence->tokens_max);
    if (sequence->state == SEQUENCE_WAITING)
        must(sequence->known_tokens == sequence->request.run.prompt_tokens);
    must(sequence->known_tokens + sequence->drawn_tokens <= sequence->tokens_max);
    must(sequence->draft.count == 0);
    if (sequence->state != SEQUENCE_DECODE)
        must(sequence->drawn_tokens == 0);
    if (!sequence_is_running(sequence))
        must(sequence->computed_tokens == 0 && sequence->request.images.held == 0);
    if (sequence->state == SEQUENCE_PREFILL)
        must(sequence->computed_tokens < sequence->known_tokens);
    if (sequence->state == SEQUENCE_DECODE)
        must(sequence_rows_left(sequence) == 1);
    must(sequence->draft.late_rows == 0 ||
         (pools->state && sequence->state == SEQUENCE_DECODE && sequence->drawn_tokens == 0));
    must((sequence->recurrent.block != KV_BLOCK_NONE) ==
         (pools->state && sequence_is_running(sequence)));
    for (uint32_t group = 0; group < pools->layout->group_count; group++) {
        const struct block_table *table = &sequence->tables[group];
        must(table->covered == block_table_blocks(kv_layout_covered_tokens(
                                   pools->layout, group, sequence->computed_tokens)));
        uint32_t first_kept = kv_layout_first_kept(pools->layout, group, sequence->computed_tokens);
        uint32_t first_seen =
            kv_layout_first_block(pools->layout, group, sequence->computed_tokens);
        /* A sequence that has just resumed holds only what its next row sees. */
        must(table->first_held >= (first_kept < table->covered ? first_kept : table->covered));
        must(table->first_held <= (first_seen < table->covered ? first_seen : table->covered));
    }
}
