/*
 * Follows the answer of a sequence over tokens that are not known yet: forcer and grammar in the
 * state that drafted tokens lead to, and the masks of the draws after them. The sequence's own
 * state is as before once the walk has ended.
 */
#ifndef SHOAL_WORKER_SCHEDULE_DRAFT_WALK_H
#define SHOAL_WORKER_SCHEDULE_DRAFT_WALK_H

#include "worker/schedule/sequence_facts.h"

struct draft_walk {
    struct sequence *sequence;
    struct token_forcer forcer;
    struct sequence_grammar grammar; /* shares the matcher; its mask is not used */
    size_t matched;                  /* tokens of the matcher before the walk */
    uint32_t drafts;                 /* tokens taken by the walk */
};

/* Begins after the known tokens. The sequence changes only by the walk until draft_walk_end(). */
struct draft_walk draft_walk_begin(struct sequence *sequence);
void draft_walk_end(struct draft_walk *walk);

/* Takes a token, which is stored behind the known ones. False: the grammar does not allow it, or
 * has no fuel or memory for it; the walk is over. */
bool draft_walk_follow(struct draft_walk *walk, uint32_t token) RESULT_CHECKED;
/* Computes sequence->draft.masks[drafts - 1], of the draw after the tokens taken, of which there is
 * at least one. False: there is no such draw because the grammar is complete or fails there, or
 * memory is lacking. */
bool draft_walk_mask(struct draft_walk *walk) RESULT_CHECKED;

/* What is known about the next token. */
struct draft_next {
    bool is_known;  /* `token` is forced, or the likeliest one of a forced text */
    bool is_masked; /* a grammar governs it */
    uint32_t token;
    uint8_t class;
};
/* `has_mask`: draft_walk_mask() was called since the last token, or no token was taken. */
struct draft_next draft_walk_next(const struct draft_walk *walk, bool has_mask);

#endif
