/*
 * GLM-4.5, 4.6 and 4.7: the decoder of llama with biases of q, k and v and norms of heads in some models,
 * the first part of each head rotated over halves, and experts as in DeepSeek 3 after some dense layers.
 * GLM-4.5V and 4.6V (glm4v_moe) have the same text with three positions a token, and glm4v's tower.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_experts.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_qwen_tower.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

#define ROPE_BASE 10000.0f

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the glm4moe architecture. Biases and norms of heads follow from the tensors; the norm before
 * the second half is called post_attention_norm. Layers that predict further tokens are the last of the
 * counted blocks. Models with vision state the pairs of each axis of positions.
 *
 * Source: llama.cpp, conversion/glm.py and src/models/glm4-moe.cpp.
 */
static const char *const gguf_own_keys[] = {GGUF_EXPERT_KEYS, "nextn_predict_layers", NULL};

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    static const struct gguf_expert_terms terms = {
        .sigmoid = true, .normalized = true, .epsilon = 1e-20f};
    struct gguf_array sections;
    config->ahead_layers = checkpoint_keys_u32_or(keys, "nextn_predict_layers",
                                                  (struct u32_range){0, config->layers - 1}, 0);
    config->layers -= config->ahead_layers;
    config->attention_bias = gguf_file_find_tensor(keys->file, "blk.0.attn_q.bias") != NULL;
    config->head_norms = gguf_file_find_tensor(keys->file, "blk.0.attn_q_norm.weight") != NULL;
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
    if (gguf_file_array(keys->file, "glm4moe.rope.dimension_sections", &sections) !=
        RESULT_NOT_FOUND)
        checkpoint_gguf_read_sections(keys, false, &config->ropes[0]);
    checkpoint_gguf_read_experts(keys, &terms, config);
}

static const struct gguf_form gguf_glm4_moe = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/* Source: transformers, configuration_glm4_moe.py and modeling_glm4_moe.py. */
static const char *const model_types[] = {"glm4_moe", NULL};
static const char *const own_keys[] = {"attention_bias", "partial_rotary_factor",
                                       "num_local_experts", "num_experts", NULL};
static const char *const prefixes[] = {"model.", NULL};

static const struct tensor_name names[] = {
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.exp_probs_b.bias", "^layers.*.mlp.gate.e_score_correction_bias"},
    HF_SHARED_EXPERT_NAMES,
    CHECKPOINT_HF_AHEAD_NAMES,
    {NULL, NULL},
};

static void read_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    config->experts = checkpoint_hf_sigmoid_experts(keys, 1, 1);
    checkpoint_hf_read_routed(keys,
                              &(const struct hf_routed_terms){.count = 128,
                                                              .chosen = 8,
                                                              .feed_forward = 1408,
                                                              .shared = 1,
                                                              .dense = 1,
                                                              .scale = 1.0f},
                              config);
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->attention_bias = checkpoint_keys_bool_or(keys, "attention_bias", false);
    config->head_norms = checkpoint_keys_bool_or(keys, "use_qk_norm", false);
    checkpoint_hf_read_only_rope(
        keys, config,
        &(const struct hf_rope_terms){.base = ROPE_BASE, .partial = true, .part = 0.5f});
    read_experts(keys, config);
    config->ahead_layers =
        checkpoint_hf_count_or_null(keys, "num_nextn_predict_layers", LIMIT_LAYERS, 1);
}

static const struct hf_form hf_glm4_moe = {
    .model_types = model_types,
    .defaults = {.layers = 46,
                 .hidden = 4096,
                 .feed_forward = 10944,
                 .heads = 96,
                 .kv_heads = 8,
                 .vocab_tokens = 151552,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/*
 * glm4v_moe: no norms of heads, biases of q, k and v unless attention_bias is false, and a section of pairs for
 * each axis of positions.
 *
 * Source: transformers, configuration_glm4v_moe.py and modeling_glm4v_moe.py.
 */
static const char *const vision_types[] = {"glm4v_moe", "glm4v_moe_text", NULL};

static void read_glm4v_moe(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "use_qk_norm", 0);
    config->attention_bias = checkpoint_keys_bool_or(keys, "attention_bias", true);
    checkpoint_hf_read_only_rope(keys, config,
                                 &(const struct hf_rope_terms){.base = ROPE_BASE,
                                                               .partial = true,
                                                               .part = 0.5f,
                                                               .mrope = true,
                                                               .sections = {8, 12, 12}});
    read_experts(keys, config);
    config->ahead_layers =
        checkpoint_hf_count_or_null(keys, "num_nextn_predict_layers", LIMIT_LAYERS, 0);
}

static const struct hf_form hf_glm4v_moe = {
    .model_types = vision_types,
    .defaults = {.layers = 46,
                 .hidden = 4096,
                 .feed_forward = 10944,
                 .heads = 96,
                 .kv_heads = 8,
                 .vocab_tokens = 151424,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, checkpoint_hf_qwen_texts,
               checkpoint_hf_qwen_towers},
    .read_config = read_glm4v_moe,
    .vision = &checkpoint_hf_glm4v_tower,
};

/* --- ops -------------------------------------------------------------------------------------- */

static struct dense_form form_of(const struct model_config *c)
{
    return (struct dense_form){.head_norms = c->head_norms,
                               .feed_forward_norm = "post_attention_norm",
                               .experts = {.gate = {.activation = GATE_SILU}}};
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct dense_form form = form_of(c);
    return dense_blocks_list(b, c, &form);
}

static plan_tensor_id list_ahead_ops(struct plan_builder *b, const struct model_config *c)
{
    struct dense_form form = form_of(c);
    return dense_blocks_list_ahead(b, c, &form, false);
}

static const struct ahead_form ahead = {
    .hf = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .hf_after_last = true,
    .list_ops = list_ahead_ops,
};

const struct model_family family_glm4_moe = {
    .architecture = "glm4moe",
    .gguf = &gguf_glm4_moe,
    .hf = &hf_glm4_moe,
    .list_ops = list_ops,
    .ahead = &ahead,
};

const struct model_family family_glm4v_moe = {
    .architecture = "glm4v_moe",
    .hf = &hf_glm4v_moe,
    .list_ops = list_ops,
    .list_vision_ops = tower_glm4v_list_ops,
};
