/*
 * Reads rotary embeddings from config.json, for families.
 *
 * There are two generations of keys: rope_theta (and partial_rotary_factor) beside an object
 * rope_scaling, and later a single object rope_parameters, or one such object for each kind of
 * layer.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_ROPE_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_ROPE_H

#include <stdbool.h>

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

/* Defaults, and what the family supports. */
struct hf_rope_terms {
    float base;
    bool partial; /* the family may rotate a part of a head; in others that is refused */
    float part;   /* default of partial_rotary_factor; used if `partial` */
    uint32_t
        original_tokens; /* original context stated beside the object, which wins; 0: not stated */
    uint32_t head_dim;
    bool mrope;           /* tokens have three positions; pairs use them in turn or by sections */
    bool interleaved;     /* in turn, whatever mrope_interleaved says */
    uint32_t sections[3]; /* number of pairs that rotate by time, height and width */
};

/* Reads a family's only rotary embedding, from the root's keys, into ropes[0]. `terms` has the
 * class's defaults; a head_dim of 0 means the config's. */
void checkpoint_hf_read_only_rope(struct checkpoint_keys *keys, struct model_config *config,
                                  const struct hf_rope_terms *terms);

/* Reads one of several rotary embeddings from its object. The pairing is over halves of a head,
 * which the family may change. */
void checkpoint_hf_read_rope_of(struct checkpoint_keys *scaling, const struct model_config *config,
                                const struct hf_rope_terms *terms, struct rope_config *rope);

/* The same over the config's whole heads, with no key outside the object; `base` is the default
 * base. */
void checkpoint_hf_read_rope(struct checkpoint_keys *scaling, const struct model_config *config,
                             float base, struct rope_config *rope);

/* Reads two rotary embeddings: of global layers into ropes[0], of layers with a window into
 * ropes[1]. rope_parameters has an object for each kind of layer, full_attention and
 * sliding_attention; older configs have rope_scaling, which is for global layers. The bases are
 * those that apply if the objects state none. */
void checkpoint_hf_read_layer_ropes(struct checkpoint_keys *keys, struct model_config *config,
                                    float global_base, float window_base);

#endif
