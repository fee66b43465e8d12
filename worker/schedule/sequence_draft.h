/*
 * Drafted tokens of one sequence: proposed while a step is planned, computed and judged by that
 * step, gone when it is published.
 *
 *   ask ─▶ complete ─▶ begin ─▶ (launch) ─▶ accept, once for each draw that equals its draft ─▶ end
 *
 * A step computes the rows of the last known token and of `count` drafted ones behind it. Each row
 * draws with the sampler state that the tokens before it lead to. A draw that differs from the
 * draft makes the later rows worthless: their keys and values are overwritten by the next step, and
 * their blocks are given back. So a drafted row is never visible outside of its sequence.
 *
 * Only known tokens are published, followed by grammar and counts, or given to a drafter.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_DRAFT_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_DRAFT_H

#include "worker/schedule/sequence_facts.h"

/* Whether tokens of the sequence may be drafted at all. */
bool sequence_draft_is_wanted(const struct sequence *sequence);
/* How many tokens may be drafted for the next step: 0 for sequences that do not decode, have
 * SUBMIT_FLAG_NO_SPECULATION, or end first. */
uint32_t sequence_draft_most(const struct sequence *sequence);
/* The drafter's proposal of up to `most` tokens. */
void sequence_draft_ask(struct sequence *sequence, const struct drafter *drafter, uint32_t most,
                        struct draft_proposal *proposal);
/* Completes a proposal, the drafter's or a draft model's, to up to `most` tokens: with forced ones
 * and those of a text that the grammar forces, up to a token that would end the answer or that the
 * grammar does not allow. */
void sequence_draft_complete(struct sequence *sequence, uint32_t most,
                             struct draft_proposal *proposal);
/* Drafts the first `count` tokens of the proposal for the next step, or fewer if memory for counts
 * or masks is lacking, or the grammar ends earlier. */
void sequence_draft_begin(struct sequence *sequence, const struct draft_proposal *proposal,
                          uint32_t count);
/* The drafted token at the position after the known ones. */
uint32_t sequence_draft_token(const struct sequence *sequence);
/* The last appended token equals its draft: its row counts as computed, and the token after it as
 * drawn. */
void sequence_draft_accept(struct sequence *sequence, struct kv_pools *pools);
/* Drops the drafts that are left and gives their blocks back. */
void sequence_draft_end(struct sequence *sequence, struct kv_pools *pools);

#endif
