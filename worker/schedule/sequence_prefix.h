/*
 * A sequence and the prefix cache: where it may begin instead of at position 0, and what it leaves
 * behind.
 *
 * It may begin behind block b when every full group has all blocks up to b, every sliding group
 * those that the next row sees, and the cache a checkpoint of the state there if the model is
 * recurrent. At least one token is left to compute: its logits are what the next one is drawn from.
 *
 * It leaves every full block behind as soon as its rows are launched and its tokens known, and so
 * does whoever has not ended: others share them at once. Where the place has a block already, the
 * sequence takes that one and gives its own back, so that whoever holds a block holds all blocks
 * before it.
 *
 * Of recurrent state it leaves checkpoints: every SEQUENCE_PREFIX_STRIDE tokens of the prompt, at
 * its last full block, and one that follows the answer block by block. Rows of a step stop there.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_PREFIX_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_PREFIX_H

#include "worker/schedule/sequence_facts.h"

/* Tokens between two checkpoints of a long prompt. */
#define SEQUENCE_PREFIX_STRIDE 1024u

/* Room for the names of all full blocks of `tokens` positions. */
enum result sequence_prefix_reserve(struct sequence *sequence, const struct kv_pools *pools,
                                    uint32_t tokens) RESULT_CHECKED;
/* Of one that waits: how many blocks of the full groups it would share with sequences that run.
 * Looks at no more of them than is quick; 0 when in doubt. */
uint32_t sequence_prefix_shared(struct sequence *sequence, const struct kv_pools *pools);
/* Of one that begins: shares what is there and counts it as computed. */
void sequence_prefix_resume(struct sequence *sequence, struct kv_pools *pools);

/* Rows that its next part of a step may have at most, so that it ends where a checkpoint is due. */
uint32_t sequence_prefix_rows(const struct sequence *sequence, const struct kv_pools *pools);
/* Takes a slot for the checkpoint that is due behind `rows` more rows, if one is and can be had. */
void sequence_prefix_take_checkpoint(struct sequence *sequence, struct kv_pools *pools,
                                     uint32_t rows);
/* Leaves behind what is computed and known and was not left before. */
void sequence_prefix_publish(struct sequence *sequence, struct kv_pools *pools);
/* Where a block of a sliding group goes among the idle ones when it falls behind the window. */
enum kv_block_turn sequence_prefix_turn(const struct sequence *sequence,
                                        const struct kv_pools *pools, uint32_t group,
                                        uint32_t block);
/* Gives back what it holds of checkpoints. */
void sequence_prefix_release_restored(struct sequence *sequence, struct kv_pools *pools);
void sequence_prefix_release(struct sequence *sequence, struct kv_pools *pools);

/* Slots of recurrent state as the backend counts them, or STATE_SLOT_NONE: where the state lies
 * before its next `rows` rows if not in its own slot, and where it is copied to behind them. */
uint32_t sequence_prefix_source_slot(const struct sequence *sequence, const struct kv_pools *pools);
uint32_t sequence_prefix_copy_slot(const struct sequence *sequence, const struct kv_pools *pools,
                                   uint32_t rows);

#endif
