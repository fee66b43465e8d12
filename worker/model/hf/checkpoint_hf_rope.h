/*
 * Rotary embeddings as config.json states them, for families.
 *
 * There are two generations: rope_theta (and partial_rotary_factor) beside an object rope_scaling,
 * and later all of it in an object rope_parameters, or in one such object a kind of layer.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_ROPE_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_ROPE_H

#include <stdbool.h>

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

/* What holds where the object says nothing. */
struct hf_rope_terms {
    float base;
    bool partial;             /* the family may rotate a part of a head; others refuse it */
    float part;               /* of a head: partial_rotary_factor; read where `partial` */
    uint32_t original_tokens; /* stated beside the object, where it wins; 0: it is not */
    uint32_t head_dim;
    bool mrope;           /* tokens have three positions, and pairs take turns or sections */
    bool interleaved;     /* they take turns, whatever mrope_interleaved says */
    uint32_t sections[3]; /* pairs that turn by time, height and width */
};

/* A family's only rotary embedding, from the root's keys: ropes[0]. `terms`: the class's defaults;
 * a head_dim of 0 is the config's. */
void checkpoint_hf_read_only_rope(struct checkpoint_keys *keys, struct model_config *config,
                                  const struct hf_rope_terms *terms);

/* One of several, from its object; over halves of a head, as everywhere unless the family says
 * otherwise. */
void checkpoint_hf_read_rope_of(struct checkpoint_keys *scaling, const struct model_config *config,
                                const struct hf_rope_terms *terms, struct rope_config *rope);

/* The same over whole heads of the config, with nothing stated outside but perhaps the base. */
void checkpoint_hf_read_rope(struct checkpoint_keys *scaling, const struct model_config *config,
                             float base, struct rope_config *rope);

#endif
