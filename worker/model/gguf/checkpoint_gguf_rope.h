/*
 * Rotary embeddings as GGUF metadata and tensors state them, for families.
 */
#ifndef SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_GGUF_ROPE_H
#define SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_GGUF_ROPE_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/model/checkpoint/rope_scaling.h"
#include "worker/plan/model_config.h"

/* The rotary embedding over all layers that <arch>.rope.* and the tensors rope_freqs.weight or
 * rope_factors_long.weight and rope_factors_short.weight state, of base `base` where none is. The
 * pairing is the family's to set. */
void checkpoint_gguf_read_rope(struct checkpoint_keys *keys, const struct model_config *config,
                               float base, struct rope_config *rope);

/* The same in two parts, for a family that knows more than its metadata: what the keys state, with
 * `head_dim` dimensions where they state none; */
void checkpoint_gguf_read_scaling(struct checkpoint_keys *keys, const struct model_config *config,
                                  uint32_t head_dim, float base, struct rope_scaling *scaling);
/* and, after rope_scaling_apply(), the tensor rope_freqs.weight where there is one: a divisor a
 * pair. One of 1e20 or more keeps the pair still. */
void checkpoint_gguf_divide_rope(struct checkpoint_keys *keys, struct rope_config *rope);

#endif
