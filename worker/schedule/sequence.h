/*
 * One request inside the worker: its tokens, how many of them are computed, its blocks and its
 * state.
 *
 *              begin              admit                  draw
 *     FREE ─────────────▶ WAITING ─────▶ PREFILL ──────────────────▶ DECODE
 *      ▲                     │           ▲  │                          │
 *      │                     │     admit │  │ preempt          preempt │
 *      │                     │        PREEMPTED ◀──────────────────────┘
 *      │                     │           │
 *      └─────────────────────┴───────────┴── finish (also from PREFILL and DECODE)
 *
 *   state      known tokens           drawn   computed            blocks
 *   WAITING    prompt                 0       0                   none
 *   PREEMPTED  prompt and generated   0       0                   none
 *   PREFILL    prompt and generated   0       < known             of the computed positions
 *   DECODE     prompt and generated   any     known + drawn - 1   of the computed positions
 *
 * A position counts as computed, and the token after the last one as drawn, once the step that does
 * it is launched. The token is known once that step has been waited for. In between the sequence
 * goes on with a token that only the device knows. Finishing it or giving blocks back then disturbs
 * no step under way (backend.h). Preempting it would lose the token, so preemption waits until none
 * is drawn.
 *
 * Preemption is by recomputation: the generated tokens are prefilled again, except for blocks that
 * the prefix cache still has. A draw depends only on the tokens, the parameters and the position,
 * so the sequence continues with the same tokens and none is sent twice.
 *
 * With a prefix cache a sequence starts after the blocks that the cache has (sequence_prefix.h):
 * their positions count as computed, and it shares the blocks.
 *
 * In a model with recurrent layers a running sequence also has a slot of state, which includes the
 * rows of all launched steps and cannot be rolled back. So no computed row is ever taken back: a
 * sequence that finishes or is preempted gives its slot back, and the slot's next user starts at
 * position 0, where the contents are ignored (state_layout.h), or with a copy of a checkpoint.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/token_event.h"
#include "worker/schedule/sequence_facts.h"

/* Frees what a request owns. Safe on a zeroed struct. */
void sequence_request_fini(struct sequence_request *request);

/* The edges of the drawing. begin takes ownership of `request`, also if it fails; it follows the
 * generated tokens through the grammar (sequence_grammar_follow()). */
enum result sequence_begin(struct sequence *sequence, struct sequence_request *request,
                           uint64_t arrival, uint32_t tokens_max) RESULT_CHECKED;
/* Reserves memory for the sequence's maximum length, takes a slot for its recurrent state (one is
 * free: there are as many as sequences that run) and shares what the prefix cache has. After
 * RESULT_OUT_OF_MEMORY nothing has changed. */
enum result sequence_admit(struct sequence *sequence, struct kv_pools *pools) RESULT_CHECKED;
/* Records that the token after the last computed one is draw `draw` of the step being launched. */
void sequence_draw(struct sequence *sequence, uint32_t draw);
void sequence_preempt(struct sequence *sequence, struct kv_pools *pools);
void sequence_finish(struct sequence *sequence, struct kv_pools *pools);

/* Within a state: take_blocks takes the blocks of `rows` more positions, which must be available and
 * may include drafted ones; advance counts the rows of a launched step as computed and gives back blocks that no later query
 * sees; append adds the oldest drawn token once it is known. RESULT_OUT_OF_MEMORY, or as
 * sequence_grammar_follow(): the sequence can only be finished. */
void sequence_take_blocks(struct sequence *sequence, struct kv_pools *pools, uint32_t rows);
void sequence_advance(struct sequence *sequence, struct kv_pools *pools, uint32_t rows);
enum result sequence_append(struct sequence *sequence, struct kv_pools *pools,
                            uint32_t token) RESULT_CHECKED;

/* How the token after the last known or drawn one is drawn. UNKNOWN: it may be a forced token or
 * one under a grammar's mask, which depends on a drawn token that is not known yet. UNMASKED: its
 * mask awaits sequence_compute_mask(), or the grammar has ended the answer. The rest of *sampling
 * is valid then. */
enum sequence_draw_kind { SEQUENCE_DRAW_KNOWN, SEQUENCE_DRAW_UNKNOWN, SEQUENCE_DRAW_UNMASKED };
enum sequence_draw_kind sequence_next_draw(const struct sequence *sequence,
                                           struct row_sampling *sampling);

/* The same for the token after the known ones and the first `drafts` drafted ones, as if these were
 * known. */
void sequence_draft_draw(const struct sequence *sequence, uint32_t drafts,
                         struct row_sampling *sampling);

/* A likely draw of the token after the known ones and `ahead` > 0 guessed ones, which lie behind
 * them in request.tokens, for a draft model: with the counts of the known tokens and without forced
 * tokens or masks. */
void sequence_guess_draw(const struct sequence *sequence, uint32_t ahead,
                         struct row_sampling *sampling);

/* Whether the next token, if no drawn one is unknown, is drawn under a grammar's mask. */
bool sequence_wants_mask(const struct sequence *sequence);
/* What a mask of the draw at `position` has to know of the stop ids. */
struct grammar_stops sequence_stops_at(const struct sequence *sequence, uint32_t position);
/* Computes request.grammar.mask and .verdict for it, unless they are known. */
void sequence_compute_mask(struct sequence *sequence);

bool sequence_is_running(const struct sequence *sequence); /* PREFILL or DECODE */
/* The reason to end after its last known token, `token` (proto/generation_end.h). */
enum finish_reason sequence_end_at(const struct sequence *sequence, uint32_t token);
/* Positions that can be computed next: known and drawn tokens less computed ones. Drafted tokens
 * are not included. */
uint32_t sequence_rows_left(const struct sequence *sequence);
/* Whether its last token by length is being drawn, so that nothing is left to compute. */
bool sequence_draws_last(const struct sequence *sequence);
/* Known generated tokens, including those from before a replay. */
uint32_t sequence_generated_tokens(const struct sequence *sequence);
/* Position of the first generated token, including those from before a replay. */
uint32_t sequence_first_generated(const struct sequence *sequence);

/* Asserts the table above; valid between steps. */
void sequence_check(const struct sequence *sequence, const struct kv_pools *pools);

#endif
