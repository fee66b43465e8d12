/*
 * A Hugging Face config.json to a checked model_config. What every family states alike is read
 * here; what is a family's own is read by its read_config (struct hf_form).
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_H

#include "proto/json_value.h"
#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"
#include "worker/plan/tensor_naming.h"

struct model_family;
struct hf_vision_form;

/* What the configuration class has where a config says nothing. */
struct hf_defaults {
    uint32_t layers;
    uint32_t hidden;
    uint32_t feed_forward;
    uint32_t heads;
    uint32_t kv_heads; /* 0: as many as heads */
    uint32_t head_dim; /* 0: hidden / heads */
    uint32_t vocab_tokens;
    float norm_epsilon;
    bool tied_embeddings;
};

/* How Hugging Face checkpoints state a family. */
struct hf_form {
    const char *const *model_types; /* ends with NULL */
    struct hf_defaults defaults;
    const char *epsilon_key; /* of the norms; NULL: rms_norm_eps */
    const char *activation_key;
    const char *activation; /* the only one known, and the default */
    /* Of the keys that change the computation, those that read_config reads itself; the others are
     * refused unless neutral. Ends with NULL; NULL: none. */
    const char *const *own_keys;
    struct tensor_naming naming;
    /* Fills what is the family's own: ropes, windows, scales. The shared sizes are filled. */
    void (*read_config)(struct checkpoint_keys *keys, struct model_config *config);
    /* What the whole config says of the text, where it has several parts; NULL: nothing. */
    void (*read_whole)(struct checkpoint_keys *root, struct model_config *config);
    /* What only the tensors tell, once they are there; NULL: nothing. `prefix` as in struct
     * plan_source. */
    void (*look_at_tensors)(const struct tensor_table *tensors, const char *prefix,
                            struct model_config *config);
    const struct hf_vision_form
        *vision; /* NULL: its class is of text alone, or no tower is known */
};

/* On success the config keeps every promise of model_config.h. The error begins with the file's
 * name and names the key. */
enum result checkpoint_hf_read(struct json_value root, const struct model_family **family,
                               struct model_config *config,
                               struct error_text *error) RESULT_CHECKED;

/* checkpoint_hf_<name>.c */
extern const struct hf_form checkpoint_hf_llama;
extern const struct hf_form checkpoint_hf_gemma2;
extern const struct hf_form checkpoint_hf_glm4;
extern const struct hf_form checkpoint_hf_cohere2;
extern const struct hf_form checkpoint_hf_gemma3;
extern const struct hf_form checkpoint_hf_lfm2;
extern const struct hf_form checkpoint_hf_qwen3_5;
extern const struct hf_form checkpoint_hf_qwen3_5_moe; /* checkpoint_hf_qwen3_5.c */
extern const struct hf_form checkpoint_hf_gemma3n;
extern const struct hf_form checkpoint_hf_gemma4;
/* checkpoint_hf_mistral.c, checkpoint_hf_ministral3.c, checkpoint_hf_phi3.c, checkpoint_hf_qwen.c
 */
extern const struct hf_form checkpoint_hf_mistral;
extern const struct hf_form checkpoint_hf_ministral3;
extern const struct hf_form checkpoint_hf_phi3;
extern const struct hf_form checkpoint_hf_qwen2;
extern const struct hf_form checkpoint_hf_qwen3;
/* checkpoint_hf_qwen2_vl.c */
extern const struct hf_form checkpoint_hf_qwen2_vl;
extern const struct hf_form checkpoint_hf_qwen2_5_vl;
/* checkpoint_hf_qwen3_vl.c, checkpoint_hf_idefics3.c */
extern const struct hf_form checkpoint_hf_qwen3_vl;
extern const struct hf_form checkpoint_hf_qwen3_vl_moe; /* checkpoint_hf_qwen3_vl.c */
extern const struct hf_form checkpoint_hf_idefics3;
/* checkpoint_hf_gpt_oss.c, checkpoint_hf_qwen3_moe.c */
extern const struct hf_form checkpoint_hf_gpt_oss;
extern const struct hf_form checkpoint_hf_qwen3_moe;

/* What most decoders call their tensors: llama's names, biases of q, k and v, norms of heads,
 * experts of a mixture. */
extern const struct tensor_name checkpoint_hf_usual_names[];

#endif
