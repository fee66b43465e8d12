/*
 * The drafted tokens lie behind the known ones in the sequence's own array, so everything that
 * reads a run of tokens (counts, forcer, batch) takes them as if they were known. Appending the
 * drawn tokens overwrites them one by one.
 */
#include "worker/schedule/sequence_draft.h"

#include "proto/must.h"
#include "worker/schedule/sequence.h"

static bool ends_answer(const struct sequence *sequence, uint32_t token)
{
    const struct sequence_request *request = &sequence->request;
    bool ends = false;
    for (uint32_t i = 0; i < request->run.stop_token_count; i++)
        ends = ends || request->stop_ids[i] == token;
    return ends && (request->run.flags & SUBMIT_FLAG_IGNORE_END) == 0;
}

uint32_t sequence_draft_most(const struct sequence *sequence)
{
    if (sequence->state != SEQUENCE_DECODE || sequence->drawn_tokens > 0 ||
        sequence->request.grammar.matcher ||
        (sequence->request.run.flags & SUBMIT_FLAG_NO_SPECULATION) != 0)
        return 0;
    uint32_t most = sequence->counts ? SEQUENCE_COUNTED_DRAFTS : LIMIT_DRAFT_TOKENS;
    /* The step draws one token more than it drafts. */
    uint32_t left = sequence->tokens_max - sequence->known_tokens - 1;
    return left < most ? left : most;
}

static void ask_drafter(struct sequence *sequence, const struct drafter *drafter, uint32_t most,
                        struct draft_proposal *proposal)
{
    struct sequence_draft *draft = &sequence->draft;
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

void sequence_draft_propose(struct sequence *sequence, const struct drafter *drafter, uint32_t most,
                            struct draft_proposal *proposal)
{
    must(sequence->draft.count == 0 && most <= LIMIT_DRAFT_TOKENS);
    ask_drafter(sequence, drafter, most, proposal);
    struct token_forcer forcer = sequence->forcer;
    uint32_t generated = sequence_generated_tokens(sequence);
    uint32_t *tokens = sequence->request.tokens + sequence_first_generated(sequence);
    uint32_t known = proposal->count; /* tokens of the drafter that still continue the draft */
    uint32_t count = 0;
    for (; count < most; count++) {
        struct forced_draw next = token_forcer_next(&forcer, 0);
        if (next.kind == FORCED_TOKEN) {
            if (count < known && proposal->tokens[count] != next.token)
                known = count;
            proposal->tokens[count] = next.token;
            proposal->classes[count] = DRAFT_CLASS_CERTAIN;
        } else if (count >= known) {
            break;
        }
        if (ends_answer(sequence, proposal->tokens[count]))
            break;
        tokens[generated + count] = proposal->tokens[count];
        token_forcer_follow(&forcer, tokens, generated + count + 1);
    }
    proposal->count = count;
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

void sequence_draft_begin(struct sequence *sequence, const struct draft_proposal *proposal,
                          uint32_t count)
{
    must(sequence->draft.count == 0);
    must(count <= proposal->count && count <= sequence_draft_most(sequence));
    for (uint32_t i = 0; i < count; i++) {
        sequence->request.tokens[sequence->known_tokens + i] = proposal->tokens[i];
        if (sequence->counts && count_drafts(sequence, i + 1) != RESULT_OK)
            return;
        sequence->draft.classes[i] = proposal->classes[i];
        sequence->draft.count = i + 1;
    }
}

uint32_t sequence_draft_token(const struct sequence *sequence)
{
    must(sequence->draft.count > 0);
    return sequence->request.tokens[sequence->known_tokens];
}

void sequence_draft_accept(struct sequence *sequence, struct kv_pools *pools)
{
    must(sequence->draft.count > 0 && sequence->drawn_tokens == 0);
    sequence_advance(sequence, pools, 1);
    sequence->drawn_tokens = 1;
    sequence->draft.count--;
}

void sequence_draft_end(struct sequence *sequence, struct kv_pools *pools)
{
    sequence->draft.count = 0;
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        block_table_cut(&sequence->tables[group], pools->group[group],
                        kv_layout_covered_tokens(pools->layout, group, sequence->computed_tokens));
}
