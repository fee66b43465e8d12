/*
 * The drafted tokens lie behind the known ones in the sequence's own array, so everything that
 * reads a run of tokens (counts, forcer, batch) takes them as if they were known. Appending the
 * drawn tokens overwrites them one by one.
 */
#include "worker/schedule/sequence_draft.h"

#include "proto/must.h"
#include "worker/schedule/draft_walk.h"
#include "worker/schedule/sequence.h"

static bool ends_answer(const struct sequence *sequence, uint32_t token)
{
    const struct sequence_request *request = &sequence->request;
    bool ends = false;
    for (uint32_t i = 0; i < request->run.stop_token_count; i++)
        ends = ends || request->stop_ids[i] == token;
    return ends && (request->run.flags & SUBMIT_FLAG_IGNORE_END) == 0;
}

bool sequence_draft_is_wanted(const struct sequence *sequence)
{
    return (sequence->request.run.flags & SUBMIT_FLAG_NO_SPECULATION) == 0 &&
           !sampling_params_has_mirostat(&sequence->request.run.sampling);
}

uint32_t sequence_draft_most(const struct sequence *sequence)
{
    if (sequence->state != SEQUENCE_DECODE || sequence->drawn_tokens > 0 ||
        !sequence_draft_is_wanted(sequence))
        return 0;
    uint32_t most = sequence->counts ? SEQUENCE_COUNTED_DRAFTS : LIMIT_DRAFT_TOKENS;
    /* The step draws one token more than it drafts. */
    uint32_t left = sequence->tokens_max - sequence->known_tokens - 1;
    return left < most ? left : most;
}

void sequence_draft_ask(struct sequence *sequence, const struct drafter *drafter, uint32_t most,
                        struct draft_proposal *proposal)
{
    struct sequence_draft *draft = &sequence->draft;
    must(draft->count == 0 && most <= LIMIT_DRAFT_TOKENS);
    proposal->count = 0;
    if (!draft->state) {
        draft->drafter = drafter;
        draft->state = drafter->open(drafter, sequence->tokens_max);
    }
    if (draft->state)
        drafter->propose(draft->state, sequence->request.tokens, sequence->known_tokens, most,
                         proposal);
    must(proposal->count <= most);
}

void sequence_draft_complete(struct sequence *sequence, uint32_t most,
                             struct draft_proposal *proposal)
{
    must(sequence->draft.count == 0 && most <= LIMIT_DRAFT_TOKENS && proposal->count <= most);
    struct draft_walk walk = draft_walk_begin(sequence);
    uint32_t known = proposal->count; /* tokens of the drafter that still continue the draft */
    bool has_mask = true;             /* of the next token, if a grammar governs it */
    sequence->draft.mask_count = 0;
    for (proposal->count = 0; proposal->count < most; proposal->count++) {
        uint32_t at = proposal->count;
        struct draft_next next = draft_walk_next(&walk, has_mask);
        bool certain = next.is_known && next.class == DRAFT_CLASS_CERTAIN;
        /* The drafter has seen how the text was divided before; the longest token is a guess. */
        if (next.is_known && (certain || at >= known)) {
            if (at < known && proposal->tokens[at] != next.token)
                known = at;
            proposal->tokens[at] = next.token;
            proposal->classes[at] = next.class;
        } else if (at >= known) {
            break;
        }
        if (ends_answer(sequence, proposal->tokens[at]) ||
            !draft_walk_follow(&walk, proposal->tokens[at]))
            break;
        /* Masks after tokens that may be wrong are left to sequence_draft_begin(). */
        has_mask = has_mask && (next.is_known || !next.is_masked);
        if (!has_mask)
            continue;
        if (!draft_walk_mask(&walk))
            break;
        sequence->draft.mask_count = at + 1;
    }
    draft_walk_end(&walk);
}

/* Counts for the draw after the first `drafts` drafted tokens. */
static enum result count_drafts(struct sequence *sequence, uint32_t drafts)
{
    struct token_counts **counts = &sequence->draft.counts[drafts - 1];
    if (!*counts)
        *counts = token_counts_create(&sequence->request.run.sampling,
                                      sequence_first_generated(sequence));
    enum result result = token_counts_copy(*counts, drafts > 1 ? sequence->draft.counts[drafts - 2]
                                                               : sequence->counts);
    if (result != RESULT_OK)
        return result;
    return token_counts_follow(*counts, sequence->request.tokens, sequence->known_tokens + drafts);
}

/* Prepares the draw after one more drafted token. */
static bool draft_token(struct sequence *sequence, struct draft_walk *walk, uint32_t token)
{
    uint32_t drafts = walk->drafts + 1;
    if (!draft_walk_follow(walk, token))
        return false;
    if (drafts > sequence->draft.mask_count && !draft_walk_mask(walk))
        return false;
    return !sequence->counts || count_drafts(sequence, drafts) == RESULT_OK;
}

void sequence_draft_begin(struct sequence *sequence, const struct draft_proposal *proposal,
                          uint32_t count)
{
    struct sequence_draft *draft = &sequence->draft;
    must(draft->count == 0);
    must(count <= proposal->count && count <= sequence_draft_most(sequence));
    struct draft_walk walk = draft_walk_begin(sequence);
    draft->accepted_count = 0;
    while (draft->count < count && draft_token(sequence, &walk, proposal->tokens[draft->count])) {
        draft->classes[draft->count] = proposal->classes[draft->count];
        draft->count++;
    }
    draft_walk_end(&walk);
}

uint32_t sequence_draft_token(const struct sequence *sequence)
{
    must(sequence->draft.count > 0);
    return sequence->request.tokens[sequence->known_tokens];
}

/* The next token has the mask that its row had. */
static void take_mask(struct sequence *sequence, struct draft_mask *mask)
{
    struct sequence_grammar *grammar = &sequence->request.grammar;
    if (mask->allowed == 0)
        return;
    uint32_t *words = grammar->mask;
    grammar->mask = mask->words;
    grammar->allowed = mask->allowed;
    grammar->verdict = GRAMMAR_GOES_ON;
    grammar->has_mask = true;
    mask->words = words;
}

void sequence_draft_accept(struct sequence *sequence, struct kv_pools *pools)
{
    must(sequence->draft.count > 0 && sequence->drawn_tokens == 0);
    sequence_advance(sequence, pools, 1);
    if (pools->state) {
        sequence->draft.late_place = sequence->draft.place;
        sequence->draft.late_rows = sequence->draft.accepted_count + 1;
    }
    sequence->drawn_tokens = 1;
    sequence->draft.count--;
    take_mask(sequence, &sequence->draft.masks[sequence->draft.accepted_count++]);
}

void sequence_draft_end(struct sequence *sequence, struct kv_pools *pools)
{
    sequence->draft.count = 0;
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        block_table_cut(&sequence->tables[group], pools->group[group],
                        kv_layout_covered_tokens(pools->layout, group, sequence->computed_tokens));
}
