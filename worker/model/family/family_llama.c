/*
 * Llama 1 to 3.x, SmolLM2, Mistral, Ministral 3 and the text of Idefics 3: the plain form of
 * dense_blocks.h. The config states a sliding window over all layers (Mistral 7B) and the growth of
 * queries with their position (Ministral 3).
 */
#include <string.h>

#include "proto/must.h"
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- GGUF: llama ------------------------------------------------------------------------------ */

/*
 * GGUF metadata of the llama architecture, beyond the sizes that all families have: one rotary
 * embedding, and in some Mistral checkpoints one sliding window over all layers.
 *
 * Converters permute the rows of the query and key projections so that the two elements of each
 * rotated pair are adjacent; so the pairing here is not Hugging Face's. Llama 3.1's frequency
 * scaling is in the tensor rope_freqs.weight. No key states biases: the tensors of the first layer
 * tell whether there are any.
 *
 * Mixtures of experts with this architecture name are refused: expert_count must be neutral.
 */
#define GGUF_LLAMA_ROPE_BASE 10000.0f

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, GGUF_LLAMA_ROPE_BASE, &config->ropes[0]);
    uint32_t window = checkpoint_gguf_window(keys, config, false);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window, .rope = 0};
}

static const struct gguf_form gguf_llama = {
    .read_config = gguf_read_config,
};

/* --- GGUF: ministral3 ------------------------------------------------------------------------- */

/*
 * GGUF metadata of the mistral3 architecture (Ministral 3, and Mistral Small 3.1 and later), beyond
 * the sizes that all families have: one rotary embedding over adjacent pairs, because rows are
 * permuted as in llama, and the growth of queries with their position (attention.temperature_scale,
 * per original context).
 */
#define MISTRAL3_ROPE_BASE 10000.0f

static void gguf_ministral3_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range tokens = {2, LIMIT_CONTEXT_TOKENS};
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, MISTRAL3_ROPE_BASE, &config->ropes[0]);
    config->position_scale_beta = checkpoint_keys_f32_or(keys, "attention.temperature_scale",
                                                         (struct f32_range){0.0f, 1e3f}, 0.0f);
    uint32_t original = checkpoint_keys_u32_or(keys, "rope.scaling.original_context_length", tokens,
                                               config->context_tokens);
    uint32_t period =
        checkpoint_keys_u32_or(keys, "attention.temperature_length", tokens, original);
    config->position_scale_tokens = config->position_scale_beta > 0.0f ? period : 0;
    uint32_t window = checkpoint_gguf_window(keys, config, false);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
}

static const struct gguf_form gguf_ministral3 = {
    .read_config = gguf_ministral3_read_config,
};

/* --- config.json: llama ----------------------------------------------------------------------- */

/*
 * Hugging Face checkpoints of the llama architecture: one rotary embedding, over the halves of a
 * head (projection rows are not permuted as in GGUF).
 *
 * Source: transformers, configuration_llama.py and modeling_llama.py.
 */
#define HF_LLAMA_ROPE_BASE 10000.0f

static const char *const hf_model_types[] = {"llama", NULL};

const struct tensor_name checkpoint_hf_usual_names[] = {
    {"token_embd.weight", "^embed_tokens.weight"},
    {"output_norm.weight", "^norm.weight"},
    {"output.weight", "lm_head.weight"},
    {"output.weight", "language_model.lm_head.weight"},
    {"output.weight", "language.lm_head.weight"},
    {"output.weight", "thinker.lm_head.weight"},
    {"blk.*.attn_norm.weight", "^layers.*.input_layernorm.weight"},
    {"blk.*.attn_q.weight", "^layers.*.self_attn.q_proj.weight"},
    {"blk.*.attn_k.weight", "^layers.*.self_attn.k_proj.weight"},
    {"blk.*.attn_v.weight", "^layers.*.self_attn.v_proj.weight"},
    {"blk.*.attn_q.bias", "^layers.*.self_attn.q_proj.bias"},
    {"blk.*.attn_k.bias", "^layers.*.self_attn.k_proj.bias"},
    {"blk.*.attn_v.bias", "^layers.*.self_attn.v_proj.bias"},
    {"blk.*.attn_output.bias", "^layers.*.self_attn.o_proj.bias"},
    {"blk.*.ffn_gate.bias", "^layers.*.mlp.gate_proj.bias"},
    {"blk.*.ffn_up.bias", "^layers.*.mlp.up_proj.bias"},
    {"blk.*.ffn_down.bias", "^layers.*.mlp.down_proj.bias"},
    {"blk.*.attn_q_norm.weight", "^layers.*.self_attn.q_norm.weight"},
    {"blk.*.attn_k_norm.weight", "^layers.*.self_attn.k_norm.weight"},
    {"blk.*.attn_output.weight", "^layers.*.self_attn.o_proj.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_gate.weight", "^layers.*.mlp.gate_proj.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.mlp.up_proj.weight"},
    {"blk.*.ffn_down.weight", "^layers.*.mlp.down_proj.weight"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.mlp.gate.weight"},
    {"blk.*.ffn_gate.*.weight", "^layers.*.mlp.experts.*.gate_proj.weight"},
    {"blk.*.ffn_up.*.weight", "^layers.*.mlp.experts.*.up_proj.weight"},
    {"blk.*.ffn_down.*.weight", "^layers.*.mlp.experts.*.down_proj.weight"},
    {"blk.*.ffn_gate_up_exps.weight", "^layers.*.mlp.experts.gate_up_proj"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.mlp.experts.down_proj"},
    {"blk.*.ffn_gate_exps.weight", "^layers.*.mlp.switch_mlp.gate_proj.weight"},
    {"blk.*.ffn_up_exps.weight", "^layers.*.mlp.switch_mlp.up_proj.weight"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.mlp.switch_mlp.down_proj.weight"},
    {NULL, NULL},
};
static const char *const hf_prefixes[] = {"model.", NULL};
static const char *const hf_own_keys[] = {"attention_bias", "mlp_bias", NULL};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config,
                                 &(const struct hf_rope_terms){.base = HF_LLAMA_ROPE_BASE});
    checkpoint_hf_read_biases(keys, config);
    config->feed_forward_bias = checkpoint_keys_bool_or(keys, "mlp_bias", false);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0, .rope = 0};
}

static const struct hf_form hf_llama = {
    .model_types = hf_model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = hf_own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, hf_prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- config.json: mistral --------------------------------------------------------------------- */

/*
 * Hugging Face checkpoints of Mistral: llama with one window over all layers: 4096 by default, none
 * if sliding_window is null.
 *
 * Source: transformers, configuration_mistral.py and modeling_mistral.py.
 */
#define ROPE_BASE      10000.0f
#define DEFAULT_WINDOW 4096u

static const char *const hf_mistral_model_types[] = {"mistral", NULL};
static const char *const hf_mistral_prefixes[] = {"model.", "language_model.model.",
                                                  "model.language_model.", NULL};
static const char *const hf_mistral_other_parts[] = {"vision_tower.", "multi_modal_projector.",
                                                     "model.vision_tower.",
                                                     "model.multi_modal_projector.", NULL};

static void hf_mistral_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    uint32_t window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
}

static const struct hf_form hf_mistral = {
    .model_types = hf_mistral_model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 14336,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {checkpoint_hf_usual_names, NULL, hf_mistral_prefixes, hf_mistral_other_parts},
    .read_config = hf_mistral_read_config,
};

/* --- config.json: ministral3 ------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Ministral 3, text alone or the text part of a multimodal model: llama
 * with yarn, and queries that grow with the logarithm of their position (llama_4_scaling_beta, per
 * original context).
 *
 * Source: transformers, configuration_ministral3.py and modeling_ministral3.py.
 */
static const char *const hf_ministral3_model_types[] = {"ministral3", NULL};
static const char *const hf_ministral3_prefixes[] = {"model.", "language_model.model.",
                                                     "model.language_model.", NULL};
static const char *const hf_ministral3_other_parts[] = {"vision_tower.", "multi_modal_projector.",
                                                        "model.vision_tower.",
                                                        "model.multi_modal_projector.", NULL};

/* Defaults of the class if config.json has no rope_parameters. */
static const char default_rope[] =
    "{\"type\":\"yarn\",\"rope_theta\":1000000.0,\"factor\":16.0,"
    "\"original_max_position_embeddings\":16384,\"beta_fast\":32.0,\"beta_slow\":1.0,"
    "\"mscale_all_dim\":1.0,\"mscale\":1.0,\"llama_4_scaling_beta\":0.1}";

static struct checkpoint_keys enter_rope(struct checkpoint_keys *keys)
{
    struct checkpoint_keys inner = checkpoint_keys_enter(keys, "rope_parameters");
    struct error_text error;
    if (inner.result == RESULT_OK && json_value_type(inner.object) == JSON_ABSENT)
        must(json_value_open(default_rope, strlen(default_rope), sizeof default_rope, &inner.object,
                             &error) == RESULT_OK);
    return inner;
}

static void hf_ministral3_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct hf_rope_terms terms = {.base = 1000000.0f, .head_dim = config->head_dim};
    struct checkpoint_keys rope = enter_rope(keys);
    config->rope_count = 1;
    checkpoint_hf_read_rope_of(&rope, config, &terms, &config->ropes[0]);
    float beta =
        checkpoint_keys_f32_or(&rope, "llama_4_scaling_beta", (struct f32_range){0.0f, 1e3f}, 0.0f);
    uint32_t tokens =
        checkpoint_keys_u32_or(&rope, "original_max_position_embeddings",
                               (struct u32_range){2, LIMIT_CONTEXT_TOKENS}, config->context_tokens);
    checkpoint_keys_leave(keys, &rope);
    config->position_scale_beta = beta;
    config->position_scale_tokens = beta > 0.0f ? tokens : 0;
    uint32_t window = checkpoint_hf_window(keys, config, 0);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
}

static const struct hf_form hf_ministral3 = {
    .model_types = hf_ministral3_model_types,
    .defaults = {.layers = 34,
                 .hidden = 4096,
                 .feed_forward = 14336,
                 .heads = 32,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocab_tokens = 131072,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {checkpoint_hf_usual_names, NULL, hf_ministral3_prefixes, hf_ministral3_other_parts},
    .read_config = hf_ministral3_read_config,
};

/* --- config.json: idefics3 -------------------------------------------------------------------- */

/*
 * Hugging Face checkpoints of Idefics 3 and SmolVLM: llama for the text, SigLIP for images
 * (checkpoint_hf_siglip.c).
 *
 * Source: transformers, configuration_idefics3.py, configuration_smolvlm.py; mlx-vlm for names.
 */
static const char *const hf_idefics3_model_types[] = {"idefics3", "smolvlm", NULL};
static const char *const hf_idefics3_prefixes[] = {"model.text_model.", "language_model.model.",
                                                   "language_model.", NULL};
static const char *const hf_idefics3_other_parts[] = {"model.vision_model.", "vision_model.",
                                                      "model.connector.", "connector.", NULL};

static void hf_idefics3_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    hf_llama.read_config(keys, config);
}

static const struct hf_form hf_idefics3 = {
    .model_types = hf_idefics3_model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = hf_own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, hf_idefics3_prefixes, hf_idefics3_other_parts},
    .read_config = hf_idefics3_read_config,
    .vision = &checkpoint_hf_idefics3_tower,
};

/* --- rows ------------------------------------------------------------------------------------- */

const struct model_family family_llama = {
    .architecture = "llama",
    .gguf = &gguf_llama,
    .hf = &hf_llama,
    .list_ops = dense_blocks_list_plain,
};

/* GGUF files of Mistral have the architecture llama. */
const struct model_family family_mistral = {
    .architecture = "mistral",
    .hf = &hf_mistral,
    .list_ops = dense_blocks_list_plain,
};

const struct model_family family_ministral3 = {
    .architecture = "mistral3",
    .gguf = &gguf_ministral3,
    .hf = &hf_ministral3,
    .list_ops = dense_blocks_list_plain,
};

const struct model_family family_idefics3 = {
    .architecture = "idefics3",
    .hf = &hf_idefics3,
    .list_ops = dense_blocks_list_plain,
    .list_vision_ops = tower_idefics3_list_ops,
};
