/*
 * Gemma 3 (text): Gemma 2 with norms over each query and key head before rotation instead of soft
 * caps. The config's layers state which of them have a sliding window, and which of two rotary
 * embeddings each layer uses.
 */
#include <math.h>

#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

enum { GLOBAL_ROPE, LOCAL_ROPE }; /* as checkpoint_hf_read_layer_ropes() */

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the gemma3 architecture (text), beyond the sizes that all families have.
 *
 * Five layers of six have a sliding window and rotate with base 10,000. Every sixth sees all
 * positions and rotates with the checkpoint's larger base, divided by its linear scaling factor if
 * it has one. A key may state the pattern's period; published files leave it out.
 *
 * Scores are scaled by 1/sqrt(head_dim), except in the 27B model, whose scale is 1/sqrt(hidden /
 * heads): its published config has query_pre_attn_scalar 168 = 5376 / 32, where the other sizes
 * have their head_dim. Converters do not write that field, so the 27B model is recognized by its
 * layer count.
 *
 * Source: Hugging Face transformers, configuration_gemma3.py and modeling_gemma3.py.
 */
#define GEMMA3_GLOBAL_ROPE_BASE 1000000.0f
#define GEMMA3_LOCAL_ROPE_BASE  10000.0f
#define GEMMA3_PATTERN_LAYERS   6u
#define GEMMA3_27B_LAYERS       62u

static const char *const gguf_own_keys[] = {"final_logit_softcapping", NULL};

static void gguf_read_ropes(struct checkpoint_keys *keys, struct model_config *config)
{
    struct rope_config *global = &config->ropes[GLOBAL_ROPE];
    struct rope_config *local = &config->ropes[LOCAL_ROPE];
    config->rope_count = 2;
    global->pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, GEMMA3_GLOBAL_ROPE_BASE, global);
    float base = checkpoint_keys_f32_or(keys, "rope.freq_base_swa", (struct f32_range){1.0f, 1e12f},
                                        GEMMA3_LOCAL_ROPE_BASE);
    if (keys->result != RESULT_OK)
        return;
    local->pairing = ROPE_PAIRS_HALVES;
    local->dims = global->dims;
    checkpoint_plain_rope(local, base, 1.0f);
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    uint32_t period =
        checkpoint_keys_u32_or(keys, "attention.sliding_window_pattern",
                               (struct u32_range){1, LIMIT_LAYERS}, GEMMA3_PATTERN_LAYERS);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool global = (layer + 1) % period == 0;
        config->layer[layer] = (struct layer_config){
            .window = global ? 0 : window,
            .rope = global ? GLOBAL_ROPE : LOCAL_ROPE,
        };
    }
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->embedding_scale = sqrtf((float)config->hidden);
    float scale = config->layers == GEMMA3_27B_LAYERS
                      ? 1.0f / sqrtf((float)(config->hidden / config->heads))
                      : 1.0f / sqrtf((float)config->head_dim);
    config->attention_scale =
        checkpoint_keys_f32_or(keys, "attention.scale", (struct f32_range){1e-6f, 1e3f}, scale);
    config->logit_soft_cap = checkpoint_keys_f32_or(keys, "final_logit_softcapping",
                                                    (struct f32_range){0.0f, 1e6f}, 0.0f);
    gguf_read_ropes(keys, config);
    read_layers(keys, config);
}

static const struct gguf_form gguf_gemma3 = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Gemma 3, text only or the text part of a multimodal model.
 *
 * Norm weights are stored without the 1 that is added to them. layer_types states which layers see
 * all positions; older configs state the period of the pattern. Rotary embeddings are in
 * rope_parameters, with an object for each kind of layer; older configs have rope_theta and
 * rope_scaling for global layers and rope_local_base_freq for the others.
 *
 * attn_logit_softcapping has no effect: transformers' class has the key, but its attention does not
 * use it, and no published model sets it.
 *
 * Source: transformers, configuration_gemma3.py and modeling_gemma3.py.
 */
#define GLOBAL_ROPE_BASE     1000000.0f
#define LOCAL_ROPE_BASE      10000.0f
#define DEFAULT_QUERY_SCALAR 256.0f

static const struct hf_layer_pattern layer_pattern = {
    .window = 4096, .period = 6, .global_rope = GLOBAL_ROPE, .window_rope = LOCAL_ROPE};

static const char *const model_types[] = {"gemma3_text", "gemma3", NULL};
static const char *const tying_wholes[] = {"gemma3", NULL};
static const char *const hf_own_keys[] = {"attention_bias", "attn_logit_softcapping",
                                          "final_logit_softcapping", NULL};

static const struct tensor_name names[] = {
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.pre_feedforward_layernorm.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_feedforward_layernorm.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", "language_model.model.", "model.language_model.",
                                       NULL};
static const char *const other_parts[] = {"vision_tower.", "multi_modal_projector.",
                                          "model.vision_tower.", "model.multi_modal_projector.",
                                          NULL};

static void hf_read_ropes(struct checkpoint_keys *keys, struct model_config *config)
{
    struct f32_range range = {1.0f, 1e12f};
    float global_base = checkpoint_keys_f32_or(keys, "rope_theta", range, GLOBAL_ROPE_BASE);
    float local_base = checkpoint_keys_f32_or(keys, "rope_local_base_freq", range, LOCAL_ROPE_BASE);
    checkpoint_hf_read_layer_ropes(keys, config, global_base, local_base);
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->embedding_scale = sqrtf((float)config->hidden);
    config->norm_weight_offset = 1.0f;
    config->attention_scale =
        1.0f / sqrtf(checkpoint_keys_f32_or(keys, "query_pre_attn_scalar",
                                            (struct f32_range){1e-3f, 1e6f}, DEFAULT_QUERY_SCALAR));
    struct f32_range cap_range = {1e-3f, 1e6f};
    (void)checkpoint_keys_f32_or_null(keys, "attn_logit_softcapping", cap_range, 0.0f);
    config->logit_soft_cap =
        checkpoint_keys_f32_or_null(keys, "final_logit_softcapping", cap_range, 0.0f);
    checkpoint_hf_read_biases(keys, config);
    hf_read_ropes(keys, config);
    checkpoint_hf_read_layers(keys, &layer_pattern, config);
}

static const struct hf_form hf_gemma3 = {
    .model_types = model_types,
    .defaults = {.layers = 26,
                 .hidden = 2304,
                 .feed_forward = 9216,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocab_tokens = 262208,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .own_keys = hf_own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, other_parts},
    .tying_wholes = tying_wholes,
    .read_config = hf_read_config,
    .vision = &checkpoint_hf_gemma3_tower,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){.head_norms = true,
                                                        .post_norms = true,
                                                        .activation = GATE_GELU_TANH});
}

const struct model_family family_gemma3 = {
    .architecture = "gemma3",
    .gguf = &gguf_gemma3,
    .hf = &hf_gemma3,
    .list_ops = list_ops,
    .list_vision_ops = tower_gemma3_list_ops,
};
