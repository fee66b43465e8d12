/*
 * What reading a config comes down to in either format: the rules that both must keep to.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_CHECKPOINT_SHARED_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_CHECKPOINT_SHARED_H

#include <stddef.h>

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

/* The name for logs, of a name that may be anything. */
void checkpoint_set_name(struct model_config *config, const char *name, size_t name_bytes);

/* Settles head_dim (0: hidden / heads) and holds heads, kv_heads and head_dim against each other.
 */
void checkpoint_settle_heads(struct checkpoint_keys *keys, struct model_config *config);

/* Holds the numbers of experts against each other; a config of 0 experts has none of the rest. */
void checkpoint_settle_experts(struct checkpoint_keys *keys, struct model_config *config);

/* The plain rotary embedding: base^(-2i / dims) for pair i, each divided by `divisor`. */
void checkpoint_plain_rope(struct rope_config *rope, float base, float divisor);

/* A window that the context cannot outgrow is no window: 0. */
uint32_t checkpoint_useful_window(const struct model_config *config, uint32_t window);

/* Whether the value heads of the delta net share its key heads evenly; and how many channels the
 * convolution before it has. */
void checkpoint_settle_delta(struct checkpoint_keys *keys, struct model_config *config);

/* Lets each of the last `shared` layers attend over the keys of the last one before them that has
 * its rotary embedding, and so its window and sizes. */
void checkpoint_share_caches(struct checkpoint_keys *keys, struct model_config *config,
                             uint32_t shared);

#endif
