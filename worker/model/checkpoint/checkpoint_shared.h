/*
 * Rules for a config that hold in both formats.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_CHECKPOINT_SHARED_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_CHECKPOINT_SHARED_H

#include <stddef.h>

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

/* Sets the model's name for logs; other bytes than printable ASCII are replaced. */
void checkpoint_set_name(struct model_config *config, const char *name, size_t name_bytes);

/* Fills head_dim if it is 0 (hidden / heads) and checks heads, kv_heads and head_dim together. */
void checkpoint_settle_heads(struct checkpoint_keys *keys, struct model_config *config);

/* Checks the numbers of experts together; with 0 experts the other expert fields are cleared. */
void checkpoint_settle_experts(struct checkpoint_keys *keys, struct model_config *config);

/* Checks groups of experts; one group, or all of them chosen, is no choice: then there are none. */
void checkpoint_settle_groups(struct checkpoint_keys *keys, struct expert_config *experts);

/* The plain rotary embedding: base^(-2i / dims) for pair i, each divided by `divisor`. */
void checkpoint_plain_rope(struct rope_config *rope, float base, float divisor);

/* Returns `window`, or 0 (no window) if the context is not longer than the window. */
uint32_t checkpoint_useful_window(const struct model_config *config, uint32_t window);

/* Checks that the value heads of the delta net share its key heads evenly, and sets the channel
 * count of the convolution before it. */
void checkpoint_settle_delta(struct checkpoint_keys *keys, struct model_config *config);

/* Checks that the heads of the state space mixer share its groups evenly, and sets the channel count of
 * the convolution before it. */
void checkpoint_settle_ssm(struct checkpoint_keys *keys, struct model_config *config);

/* Makes each of the last `shared` layers attend over the keys of the nearest earlier layer that
 * stores keys and has the same rotary embedding, and so the same window and sizes. */
void checkpoint_share_caches(struct checkpoint_keys *keys, struct model_config *config,
                             uint32_t shared);

#endif
