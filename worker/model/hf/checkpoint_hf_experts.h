/*
 * Reads mixtures of experts from config.json, for Qwen's families.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_EXPERTS_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_EXPERTS_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

/* Defaults of the configuration class, for keys that are absent. */
struct hf_expert_terms {
    uint32_t least; /* minimum number of experts: 0 if the family also exists without */
    uint32_t count;
    uint32_t chosen;
    uint32_t feed_forward;
    bool normalized; /* the chosen experts' weights are scaled to add up to one */
};

/* Reads the number of experts, how many are chosen and how wide they are; `normalized` as in the
 * terms. */
void checkpoint_hf_read_experts(struct checkpoint_keys *keys, const struct hf_expert_terms *terms,
                                struct model_config *config);

/* Reads which layers have experts: those not in mlp_only_layers whose number, counted from 1, is a
 * multiple of decoder_sparse_step. */
void checkpoint_hf_read_expert_layers(struct checkpoint_keys *keys, struct model_config *config);

#endif
