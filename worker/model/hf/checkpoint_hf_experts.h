/*
 * Mixtures of experts as config.json states them in Qwen's families.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_EXPERTS_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_EXPERTS_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

/* What a class has where nothing is stated. */
struct hf_expert_terms {
    uint32_t least; /* experts that a config may state: 0 where one may be without */
    uint32_t count;
    uint32_t chosen;
    uint32_t feed_forward;
    bool normalized; /* the chosen ones' weights add up to one */
};

/* How many there are, are chosen, and how wide they are; normalized as the terms say. */
void checkpoint_hf_read_experts(struct checkpoint_keys *keys, const struct hf_expert_terms *terms,
                                struct model_config *config);

/* Which layers have them: those not in mlp_only_layers whose number, from 1, decoder_sparse_step
 * divides. */
void checkpoint_hf_read_expert_layers(struct checkpoint_keys *keys, struct model_config *config);

#endif
