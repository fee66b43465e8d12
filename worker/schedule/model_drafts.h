/*
 * Proposals of a draft model (worker/draft/draft_model.h) for decoding streams.
 *
 *   feed      rows that the target has computed and the draft model has not, in bounded chunks
 *   propose   rounds: the first one computes each stream's last tokens and draws the next one, each
 *             further one computes the token drawn before; of a drafter of blocks one round, whose rows have
 *             draws of their own
 *   settle    before both: what of the last guesses became known tokens stays computed
 *
 * Its keys and values lie in the blocks of the target's first full cache group. A block that other
 * sequences share may have been filled by the target alone, so the draft model keeps for each block
 * whether it filled it, and which generation of the block that was.
 */
#ifndef SHOAL_WORKER_SCHEDULE_MODEL_DRAFTS_H
#define SHOAL_WORKER_SCHEDULE_MODEL_DRAFTS_H

#include "worker/schedule/worker_engine.h"

/* Whether the draft model is an ahead layer of the target: a row of position p then has the token at
 * p + 1 and the target's hidden state at p, which only the target's last step has. */
bool model_drafts_is_ahead(const struct worker_engine *engine);
/* Whether it proposes a block of tokens in one round; its cells are then computed before that. */
bool model_drafts_is_block(const struct worker_engine *engine);
/* Tokens that it proposes for a stream, at most. */
uint32_t model_drafts_most(const struct worker_engine *engine);
/* The step was launched: which hidden states it has. */
void model_drafts_note_step(struct worker_engine *engine, const struct step_batch_builder *builder);

/* Settles all running sequences; before the next calls, with no step under way. */
void model_drafts_settle(struct worker_engine *engine);
/* For an ahead layer, after a step's results were published for prompts and after the proposals for decoding
 * streams, or before them if it proposes blocks: all rows that it lacks and the target's last step has. A stream that lacks others (its prompt was
 * cached, but not the layer's part) has no proposals. In a long pause nothing is fed. Gives back the features
 * of images that the target has computed and the layer has read. */
enum result model_drafts_feed_ahead(struct worker_engine *engine, bool decoding,
                                    struct error_text *error) RESULT_CHECKED;
/* For others, before the proposals: one chunk of rows, the oldest sequences first. Rows of prompts
 * only: a stream that fell behind in a pause of the draft model, in which nothing is fed, has no more
 * of its proposals. `step_rows`: prompt rows of the last step; a chunk may have as many. */
enum result model_drafts_feed(struct worker_engine *engine, uint32_t step_rows,
                              struct error_text *error) RESULT_CHECKED;

/* Whether the draft model can propose for the sequence now: it has computed nearly all its tokens,
 * and the next one is not forced. */
bool model_drafts_is_ready(const struct worker_engine *engine, const struct sequence *sequence);
/* Rows of the sequence in the first round. */
uint32_t model_drafts_first_rows(const struct worker_engine *engine,
                                 const struct sequence *sequence);
/* Runs up to `rounds` > 0 for the picks, whose proposals it replaces; blocks for so many drafts are
 * free. The sequences then hold blocks beyond their certain row until model_drafts_trim(). */
enum result model_drafts_propose(struct worker_engine *engine, struct model_pick *picks,
                                 uint32_t count, uint32_t rounds,
                                 struct error_text *error) RESULT_CHECKED;
/* Gives back the blocks beyond the sequence's certain row and its drafts. */
void model_drafts_trim(struct worker_engine *engine, struct sequence *sequence);

#endif
