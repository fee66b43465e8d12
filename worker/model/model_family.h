/*
 * The architectures that Shoal can run. One row per family: how its GGUF metadata or its
 * config.json completes a config, and how its forward pass is listed.
 */
#ifndef SHOAL_WORKER_MODEL_MODEL_FAMILY_H
#define SHOAL_WORKER_MODEL_MODEL_FAMILY_H

#include "proto/gguf_file.h"
#include "worker/model/build/plan_builder.h"
#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/plan/model_config.h"
#include "worker/plan/vision_config.h"

struct model_family {
    const char *architecture; /* general.architecture */
    const char *epsilon_key;  /* of the norms in GGUF; NULL: attention.layer_norm_rms_epsilon */
    /* As in struct hf_form, of GGUF. */
    const char *const *own_keys;
    /* Fills what is the family's own: ropes, windows, scales. The shared sizes are filled. NULL: in
     * GGUF it has another name. */
    void (*read_config)(struct checkpoint_keys *keys, struct model_config *config);
    const struct hf_form *hf;
    /* Lists the forward pass and returns the logits tensor. Errors stay in the builder. */
    plan_tensor_id (*list_ops)(struct plan_builder *builder, const struct model_config *config);
    /* The same of the vision tower, where hf->vision is there. */
    void (*list_vision_ops)(struct plan_builder *builder, const struct vision_config *config);
};

/* NULL when no family has this name. */
const struct model_family *model_family_find(struct gguf_string architecture);

/* The same by the model_type of a config.json. */
const struct model_family *model_family_find_hf(struct gguf_string model_type);

/* checkpoint_<name>.c */
void checkpoint_llama_read(struct checkpoint_keys *keys, struct model_config *config);
void checkpoint_gemma2_read(struct checkpoint_keys *keys, struct model_config *config);
extern const char *const checkpoint_gemma2_own_keys[];
void checkpoint_glm4_read(struct checkpoint_keys *keys, struct model_config *config);
void checkpoint_cohere2_read(struct checkpoint_keys *keys, struct model_config *config);
extern const char *const checkpoint_cohere2_own_keys[];
void checkpoint_gemma3_read(struct checkpoint_keys *keys, struct model_config *config);
void checkpoint_qwen3_5_read(struct checkpoint_keys *keys, struct model_config *config);
extern const char *const checkpoint_qwen3_5_own_keys[];
void checkpoint_qwen3_5_moe_read(struct checkpoint_keys *keys, struct model_config *config);
extern const char *const checkpoint_qwen3_5_moe_own_keys[];
void checkpoint_lfm2_read(struct checkpoint_keys *keys, struct model_config *config);
extern const char *const checkpoint_lfm2_own_keys[];
void checkpoint_gemma3n_read(struct checkpoint_keys *keys, struct model_config *config);
extern const char *const checkpoint_gemma3n_own_keys[];
void checkpoint_gemma4_read(struct checkpoint_keys *keys, struct model_config *config);
extern const char *const checkpoint_gemma4_own_keys[];
/* checkpoint_mistral3.c, checkpoint_phi3.c, checkpoint_qwen.c (qwen2, qwen3) */
void checkpoint_mistral3_read(struct checkpoint_keys *keys, struct model_config *config);
void checkpoint_phi3_read(struct checkpoint_keys *keys, struct model_config *config);
void checkpoint_qwen_read(struct checkpoint_keys *keys, struct model_config *config);
/* checkpoint_gpt_oss.c, checkpoint_qwen3_moe.c */
void checkpoint_gpt_oss_read(struct checkpoint_keys *keys, struct model_config *config);
void checkpoint_qwen3_moe_read(struct checkpoint_keys *keys, struct model_config *config);

/* family_<name>.c */
plan_tensor_id family_llama_list_ops(struct plan_builder *builder,
                                     const struct model_config *config);
plan_tensor_id family_phi3_list_ops(struct plan_builder *builder,
                                    const struct model_config *config);
plan_tensor_id family_qwen2_list_ops(struct plan_builder *builder,
                                     const struct model_config *config);
plan_tensor_id family_qwen3_list_ops(struct plan_builder *builder,
                                     const struct model_config *config);
plan_tensor_id family_gemma2_list_ops(struct plan_builder *builder,
                                      const struct model_config *config);
plan_tensor_id family_glm4_list_ops(struct plan_builder *builder,
                                    const struct model_config *config);
plan_tensor_id family_cohere2_list_ops(struct plan_builder *builder,
                                       const struct model_config *config);
plan_tensor_id family_gpt_oss_list_ops(struct plan_builder *builder,
                                       const struct model_config *config);
plan_tensor_id family_qwen3_moe_list_ops(struct plan_builder *builder,
                                         const struct model_config *config);
plan_tensor_id family_gemma3_list_ops(struct plan_builder *builder,
                                      const struct model_config *config);
plan_tensor_id family_qwen3_5_list_ops(struct plan_builder *builder,
                                       const struct model_config *config);
plan_tensor_id family_lfm2_list_ops(struct plan_builder *builder,
                                    const struct model_config *config);
plan_tensor_id family_gemma3n_list_ops(struct plan_builder *builder,
                                       const struct model_config *config);
plan_tensor_id family_gemma4_list_ops(struct plan_builder *builder,
                                      const struct model_config *config);

/* tower_<name>.c */
void tower_qwen2_vl_list_ops(struct plan_builder *builder, const struct vision_config *config);
void tower_qwen3_vl_list_ops(struct plan_builder *builder, const struct vision_config *config);
void tower_gemma4_list_ops(struct plan_builder *builder, const struct vision_config *config);
void tower_gemma3_list_ops(struct plan_builder *builder, const struct vision_config *config);
void tower_idefics3_list_ops(struct plan_builder *builder, const struct vision_config *config);
void tower_qwen2_5_vl_list_ops(struct plan_builder *builder, const struct vision_config *config);

#endif
