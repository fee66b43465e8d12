/*
 * GLM-4: the dense decoder with norms before and after each half, gate and up in one matrix, and
 * biases of q, k and v in some checkpoints. The config's rope states which part of each head
 * rotates. GLM-4.1V, GLM-4.6V-Flash (glm4v) and GLM-OCR (glm_ocr) have the same text with three positions
 * a token.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_qwen_tower.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the glm4 architecture, beyond the sizes that all families have: one rotary
 * embedding over the first part of each head, in adjacent pairs. Whether q, k and v have biases
 * follows from the tensors.
 *
 * The text of GLM-4.1V and GLM-OCR has the same architecture name, but sections of pairs for each axis of
 * positions, and rows of q and k in the order of halves. Layers that predict further tokens
 * (nextn_predict_layers) are the last of the counted blocks and are not used.
 *
 * Source: Hugging Face transformers, configuration_glm4.py and modeling_glm4.py.
 */
#define GLM4_ROPE_BASE 10000.0f

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct gguf_array sections;
    config->attention_bias = gguf_file_find_tensor(keys->file, "blk.0.attn_q.bias") != NULL;
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, GLM4_ROPE_BASE, &config->ropes[0]);
    if (gguf_file_array(keys->file, "glm4.rope.dimension_sections", &sections) !=
        RESULT_NOT_FOUND) {
        config->ropes[0].pairing = ROPE_PAIRS_HALVES;
        checkpoint_gguf_read_sections(keys, false, &config->ropes[0]);
    }
    config->ahead_layers = checkpoint_keys_u32_or(keys, "nextn_predict_layers",
                                                  (struct u32_range){0, config->layers - 1}, 0);
    config->layers -= config->ahead_layers;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0, .rope = 0};
}

static const char *const gguf_own_keys[] = {"nextn_predict_layers", NULL};
static const struct gguf_form gguf_glm4 = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of GLM-4 (0414): half of each head rotates unless stated differently, in
 * adjacent pairs, and q, k and v have biases unless attention_bias is false.
 *
 * The names of the norms mislead: post_attention_layernorm is applied before the feed-forward, as
 * in llama; the norms after each half are post_self_attn_layernorm and post_mlp_layernorm.
 *
 * Source: transformers, configuration_glm4.py and modeling_glm4.py.
 */
static const char *const model_types[] = {"glm4", NULL};
static const char *const own_keys[] = {"attention_bias", "partial_rotary_factor", NULL};
static const struct hf_rope_terms rope_terms = {.base = 10000.0f, .partial = true, .part = 0.5f};

static const struct tensor_name names[] = {
    {"blk.*.post_attention_norm.weight", "^layers.*.post_self_attn_layernorm.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.mlp.gate_up_proj.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_mlp_layernorm.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->attention_bias = checkpoint_keys_bool_or(keys, "attention_bias", true);
    checkpoint_hf_read_only_rope(keys, config, &rope_terms);
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0, .rope = 0};
}

static const struct hf_form hf_glm4 = {
    .model_types = model_types,
    .defaults = {.layers = 40,
                 .hidden = 4096,
                 .feed_forward = 13696,
                 .heads = 32,
                 .kv_heads = 2,
                 .head_dim = 128,
                 .vocab_tokens = 151552,
                 .norm_epsilon = 1.5625e-7f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/*
 * glm4v: pairs are adjacent as in glm4, and each axis has a section of them. The class has biases of q,
 * k and v whatever the config says.
 *
 * Source: transformers, configuration_glm4v.py and modeling_glm4v.py.
 */
static const char *const glm4v_types[] = {"glm4v", "glm4v_text", NULL};
static const struct hf_rope_terms glm4v_rope = {
    .base = 10000.0f, .partial = true, .part = 1.0f, .mrope = true, .sections = {8, 12, 12}};

static void read_positions(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &glm4v_rope);
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0, .rope = 0};
}

static void read_glm4v(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "attention_bias", 1);
    config->attention_bias = true;
    read_positions(keys, config);
}

static const struct hf_form hf_glm4v = {
    .model_types = glm4v_types,
    .defaults = {.layers = 40,
                 .hidden = 4096,
                 .feed_forward = 13696,
                 .heads = 32,
                 .kv_heads = 2,
                 .vocab_tokens = 151552,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, checkpoint_hf_qwen_texts,
               checkpoint_hf_qwen_towers},
    .read_config = read_glm4v,
    .vision = &checkpoint_hf_glm4v_tower,
};

/*
 * glm_ocr: as glm4v without biases. The layer after the last one, which predicts several tokens, is not
 * used.
 *
 * Source: transformers, configuration_glm_ocr.py and modeling_glm_ocr.py.
 */
static const char *const glm_ocr_types[] = {"glm_ocr", "glm_ocr_text", NULL};
static const char *const glm_ocr_parts[] = {"model.visual.", "visual.", "vision_tower.",
                                            "model.language_model.layers.16.", NULL};

static void read_glm_ocr(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "attention_bias", 0);
    read_positions(keys, config);
}

static const struct hf_form hf_glm_ocr = {
    .model_types = glm_ocr_types,
    .defaults = {.layers = 16,
                 .hidden = 1024,
                 .feed_forward = 4096,
                 .heads = 16,
                 .kv_heads = 8,
                 .vocab_tokens = 59392,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, checkpoint_hf_qwen_texts, glm_ocr_parts},
    .read_config = read_glm_ocr,
    .vision = &checkpoint_hf_glm_ocr_tower,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){.qkv_bias = c->attention_bias,
                                                        .joined_gate_up = true,
                                                        .post_norms = true});
}

const struct model_family family_glm4 = {
    .architecture = "glm4",
    .gguf = &gguf_glm4,
    .hf = &hf_glm4,
    .list_ops = list_ops,
};

const struct model_family family_glm4v = {
    .architecture = "glm4v",
    .hf = &hf_glm4v,
    .list_ops = list_ops,
    .list_vision_ops = tower_glm4v_list_ops,
};

const struct model_family family_glm_ocr = {
    .architecture = "glm_ocr",
    .hf = &hf_glm_ocr,
    .list_ops = list_ops,
    .list_vision_ops = tower_glm_ocr_list_ops,
};
