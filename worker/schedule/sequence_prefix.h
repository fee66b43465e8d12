/*
 * Connects a sequence to the prefix cache: from which position it resumes, and what it publishes.
 *
 * It can resume after block b if every full group has all blocks up to b, every sliding group has
 * the blocks that the next row sees and, in a recurrent model, the cache has a checkpoint there. At
 * least one token is left to compute, because its logits are needed for the next token.
 *
 * It publishes every full block once the block's rows are launched and its tokens are known, while
 * it still runs, so others can share the block at once. If the place has a block already, the
 * sequence uses that one and gives its own back; a holder of a place's block thus holds all blocks
 * before it.
 *
 * Checkpoints of recurrent state are made every SEQUENCE_PREFIX_STRIDE tokens of the prompt and at
 * its last full block, and one follows the answer block by block. The rows of a step end there.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_PREFIX_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_PREFIX_H

#include "worker/schedule/sequence_facts.h"

/* Tokens between two checkpoints of a long prompt. */
#define SEQUENCE_PREFIX_STRIDE 1024u

/* Reserves memory for the names of all full blocks of `tokens` positions. */
enum result sequence_prefix_reserve(struct sequence *sequence, const struct kv_pools *pools,
                                    uint32_t tokens) RESULT_CHECKED;
/* For a waiting sequence: number of blocks of the full groups that it would share with running
 * sequences. Looks at a bounded number of blocks; 0 beyond that. */
uint32_t sequence_prefix_shared(struct sequence *sequence, const struct kv_pools *pools);
/* For a sequence that starts: shares the cached blocks and counts their positions as computed. */
void sequence_prefix_resume(struct sequence *sequence, struct kv_pools *pools);

/* Maximum number of its rows in the next step, so that the step ends where a checkpoint is due. */
uint32_t sequence_prefix_rows(const struct sequence *sequence, const struct kv_pools *pools);
/* Takes a slot for the last checkpoint that is due up to the end of `rows` more rows, drafts not
 * counted, if one is due and a slot is available. */
void sequence_prefix_take_checkpoint(struct sequence *sequence, struct kv_pools *pools,
                                     uint32_t rows);
/* Publishes what is computed and known and was not published before. */
void sequence_prefix_publish(struct sequence *sequence, struct kv_pools *pools);
/* Where a block of a sliding group enters the eviction order when it leaves the window. */
enum kv_evict_order sequence_prefix_evict_order(const struct sequence *sequence,
                                                const struct kv_pools *pools, uint32_t group,
                                                uint32_t block);
/* Give back the checkpoints that it holds: the restored one, and all. */
void sequence_prefix_release_restored(struct sequence *sequence, struct kv_pools *pools);
void sequence_prefix_release(struct sequence *sequence, struct kv_pools *pools);

/* Slots of recurrent state in the backend's numbering, or STATE_SLOT_NONE: the slot with the state
 * before its next `rows` rows if that is not its own, and the slot to which the state is copied,
 * *rows_after rows before their end. `rows` are without drafts. */
uint32_t sequence_prefix_source_slot(const struct sequence *sequence, const struct kv_pools *pools);
uint32_t sequence_prefix_copy_slot(const struct sequence *sequence, const struct kv_pools *pools,
                                   uint32_t rows, uint32_t *rows_after);

#endif
