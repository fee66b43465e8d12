/*
 * The walk has a copy of forcer and grammar. The matcher is too large to copy: it follows the
 * drafted tokens and is cut back at the end. Masks depend only on blob and tokens, so a mask that
 * the walk computed is the mask of plain decoding once its tokens are known.
 *
 * A mask with one token forces it. If the bytes of all allowed tokens begin the longest of them,
 * the grammar forces a text and leaves its tokenization open. The longest token is then the
 * likeliest, because tokenizers merge as much as they can.
 */
#include "worker/schedule/draft_walk.h"

#include <stdlib.h>

#include "proto/must.h"
#include "worker/schedule/sequence.h"
#include "worker/schedule/step_clock.h"

struct draft_walk draft_walk_begin(struct sequence *sequence)
{
    struct draft_walk walk = {
        .sequence = sequence, .forcer = sequence->forcer, .grammar = sequence->request.grammar};
    if (walk.grammar.matcher)
        walk.matched = grammar_matcher_followed(walk.grammar.matcher);
    return walk;
}

void draft_walk_end(struct draft_walk *walk)
{
    if (walk->grammar.matcher)
        grammar_matcher_cut(walk->grammar.matcher, walk->matched);
}

bool draft_walk_follow(struct draft_walk *walk, uint32_t token)
{
    struct sequence *sequence = walk->sequence;
    uint32_t *answer = sequence->request.tokens + sequence_first_generated(sequence);
    uint32_t generated = sequence_generated_tokens(sequence) + walk->drafts;
    if (sequence_grammar_follow(&walk->grammar, &walk->forcer, token) != RESULT_OK)
        return false;
    answer[generated] = token;
    token_forcer_follow(&walk->forcer, answer, generated + 1);
    walk->drafts++;
    return true;
}

bool draft_walk_mask(struct draft_walk *walk)
{
    struct sequence *sequence = walk->sequence;
    must(walk->drafts > 0);
    struct draft_mask *mask = &sequence->draft.masks[walk->drafts - 1];
    mask->allowed = 0;
    if (!sequence_grammar_masks(&walk->grammar, &walk->forcer, 0))
        return true;
    if (!mask->words)
        mask->words = calloc(walk->grammar.words, sizeof *mask->words);
    if (!mask->words)
        return false;
    struct sequence_grammar grammar = walk->grammar;
    const struct grammar_stops stops =
        sequence_stops_at(sequence, sequence->known_tokens + walk->drafts);
    grammar.mask = mask->words;
    grammar.has_mask = false;
    uint64_t began_us = step_clock_us();
    sequence_grammar_compute(&grammar, &walk->forcer, &stops);
    sequence->draft.masks_us += step_clock_us() - began_us;
    sequence->draft.masks_computed++;
    mask->allowed = grammar.allowed;
    return grammar.verdict == GRAMMAR_GOES_ON;
}

/* What the mask of the next token says about it. */
static struct draft_next next_by_mask(const struct draft_walk *walk)
{
    const struct sequence_grammar *grammar = &walk->grammar;
    const struct draft_mask *masks = walk->sequence->draft.masks;
    bool first = walk->drafts == 0;
    const uint32_t *mask = first ? grammar->mask : masks[walk->drafts - 1].words;
    uint32_t allowed = first ? grammar->allowed : masks[walk->drafts - 1].allowed;
    struct draft_next next = {.is_masked = true};
    next.is_known = grammar_matcher_forced_text(grammar->matcher, mask, allowed, &next.token);
    next.class = allowed == 1 ? DRAFT_CLASS_CERTAIN : DRAFT_CLASS_TEXT;
    return next;
}

struct draft_next draft_walk_next(const struct draft_walk *walk, bool has_mask)
{
    if (sequence_grammar_masks(&walk->grammar, &walk->forcer, 0))
        return has_mask ? next_by_mask(walk) : (struct draft_next){.is_masked = true};
    struct forced_draw forced = token_forcer_next(&walk->forcer, 0);
    return (struct draft_next){.is_known = forced.kind == FORCED_TOKEN,
                               .token = forced.token,
                               .class = DRAFT_CLASS_CERTAIN};
}
