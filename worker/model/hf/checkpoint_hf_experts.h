/*
 * Reads mixtures of experts from config.json: by the keys of Qwen's families, by those of DeepSeek's and
 * GLM's, and by ERNIE's.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_EXPERTS_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_EXPERTS_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"
#include "worker/plan/tensor_table.h"

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

/* A key whose null means 0. */
uint32_t checkpoint_hf_count_or_null(struct checkpoint_keys *keys, const char *name, uint32_t most,
                                     uint32_t absent);

/* Defaults of the configuration class. `dense`: layers before the first one that has experts. */
struct hf_routed_terms {
    uint32_t count;
    uint32_t chosen;
    uint32_t feed_forward;
    uint32_t shared; /* experts that every row uses */
    uint32_t dense;
    float scale;
};

/* Reads n_routed_experts, num_experts_per_tok, moe_intermediate_size, n_shared_experts,
 * routed_scaling_factor and first_k_dense_replace, and checks config->experts.groups, which the family
 * has set with all other fields. */
void checkpoint_hf_read_routed(struct checkpoint_keys *keys, const struct hf_routed_terms *terms,
                               struct model_config *config);

/* What DeepSeek 3 and GLM 4.5 have in common: sigmoid and a bias of the choice, norm_topk_prob, n_group
 * and topk_group with their defaults. */
struct expert_config checkpoint_hf_sigmoid_experts(struct checkpoint_keys *keys, uint32_t groups,
                                                   uint32_t groups_chosen);

#define ERNIE_WEIGHT_EPSILON 1e-12f /* in GGUF always, as no key states it */

/* The experts of ERNIE 4.5, of `feed_forward` columns: moe_k, moe_norm_min, moe_num_shared_experts, with a bias of the
 * choice. */
void checkpoint_hf_read_ernie_experts(struct checkpoint_keys *keys, uint32_t count,
                                      uint32_t feed_forward, struct model_config *config);

/* Names of the expert that every row uses, of DeepSeek, GLM and ERNIE. */
/* clang-format off */
#define HF_SHARED_EXPERT_NAMES                                                                       \
    {"blk.*.ffn_gate_shexp.weight", "^layers.*.mlp.shared_experts.gate_proj.weight"},                \
    {"blk.*.ffn_up_shexp.weight", "^layers.*.mlp.shared_experts.up_proj.weight"},                    \
    {"blk.*.ffn_down_shexp.weight", "^layers.*.mlp.shared_experts.down_proj.weight"}
/* clang-format on */

/* Sets the experts of layers from `first` on. */
void checkpoint_hf_use_experts(struct model_config *config, uint32_t first);

/* For look_at_tensors of a family whose stacks of experts are stored in the usual order or transposed.
 * The shape of the gate stack tells which order it is, or, if that is square, the shape of the down
 * stack, which then is not square. */
void checkpoint_hf_look_at_stacks(const struct tensor_table *tensors, const char *prefix,
                                  struct model_config *config);

#endif
