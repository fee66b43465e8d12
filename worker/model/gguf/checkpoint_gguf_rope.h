/*
 * Reads rotary embeddings from GGUF metadata and tensors, for families.
 */
#ifndef SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_GGUF_ROPE_H
#define SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_GGUF_ROPE_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/model/checkpoint/rope_scaling.h"
#include "worker/plan/model_config.h"

/* The one rotary embedding of all layers, from <arch>.rope.* and the tensors rope_freqs.weight or
 * rope_factors_long.weight and rope_factors_short.weight; `base` if no base is stated. The family
 * sets the pairing. */
void checkpoint_gguf_read_rope(struct checkpoint_keys *keys, const struct model_config *config,
                               float base, struct rope_config *rope);

/* The same in two parts, for a family that adds to the metadata. Part 1: reads the keys, with
 * `head_dim` dimensions if they state none. */
void checkpoint_gguf_read_scaling(struct checkpoint_keys *keys, const struct model_config *config,
                                  uint32_t head_dim, float base, struct rope_scaling *scaling);
/* Part 2, after rope_scaling_apply(): applies the tensor rope_freqs.weight if there is one. It has
 * one divisor per pair; a divisor of 1e20 or more turns the pair's rotation off. */
void checkpoint_gguf_divide_rope(struct checkpoint_keys *keys, struct rope_config *rope);

/* Assigns the three axes of positions by rope.dimension_sections, which must be there, after the
 * rope's other fields are set. `in_turn`: as rope_scaling_assign_axes(). */
void checkpoint_gguf_read_sections(struct checkpoint_keys *keys, bool in_turn,
                                   struct rope_config *rope);

#endif
