/*
 * Gemma 2: the dense decoder with the tanh-approximated gelu and norms before and after each half.
 *
 * The config has the rest: embeddings times sqrt(hidden), a window in every other layer, soft caps
 * of scores (in the attention op) and logits. GGUF converters add the 1 that norm weights lack;
 * norm_weight_offset is what is still to be added.
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

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the gemma2 architecture, beyond the sizes that all families have.
 *
 * Every other layer, beginning with the first, has a sliding window; all layers rotate alike.
 * Scores and logits are capped. Files of older converters lack the caps and the window; they get
 * those of the published models.
 *
 * Scores are scaled by 1/sqrt(head_dim), except in the 27B model, whose scale is 1/sqrt(hidden /
 * heads): its published config has query_pre_attn_scalar 144 = 4608 / 32. Converters do not write
 * that field, so the 27B model is recognized by its layer count.
 *
 * Source: Hugging Face transformers, configuration_gemma2.py and modeling_gemma2.py.
 */
#define GEMMA2_ROPE_BASE      10000.0f
#define GEMMA2_WINDOW         4096u
#define GEMMA2_PERIOD         2u
#define GEMMA2_27B_LAYERS     46u
#define GEMMA2_SCORE_SOFT_CAP 50.0f
#define GEMMA2_LOGIT_SOFT_CAP 30.0f

static const char *const gguf_own_keys[] = {"attn_logit_softcapping", "final_logit_softcapping",
                                            NULL};

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range range = {1, UINT32_MAX}, period_range = {1, LIMIT_LAYERS};
    uint32_t window = checkpoint_useful_window(
        config, checkpoint_keys_u32_or(keys, "attention.sliding_window", range, GEMMA2_WINDOW));
    uint32_t period = checkpoint_keys_u32_or(keys, "attention.sliding_window_pattern", period_range,
                                             GEMMA2_PERIOD);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        config->layer[layer].window = (layer + 1) % period == 0 ? 0 : window;
        config->layer[layer].rope = 0;
    }
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct f32_range cap_range = {0.0f, 1e6f};
    config->embedding_scale = sqrtf((float)config->hidden);
    float scale = config->layers == GEMMA2_27B_LAYERS
                      ? 1.0f / sqrtf((float)(config->hidden / config->heads))
                      : 1.0f / sqrtf((float)config->head_dim);
    config->attention_scale =
        checkpoint_keys_f32_or(keys, "attention.scale", (struct f32_range){1e-6f, 1e3f}, scale);
    config->attention_soft_cap =
        checkpoint_keys_f32_or(keys, "attn_logit_softcapping", cap_range, GEMMA2_SCORE_SOFT_CAP);
    config->logit_soft_cap =
        checkpoint_keys_f32_or(keys, "final_logit_softcapping", cap_range, GEMMA2_LOGIT_SOFT_CAP);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, GEMMA2_ROPE_BASE, &config->ropes[0]);
    read_layers(keys, config);
}

static const struct gguf_form gguf_gemma2 = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Gemma 2.
 *
 * Norm weights are stored without the 1 that is added to them. Both soft caps have defaults: an
 * absent key means the default cap, and null means no cap.
 *
 * Source: transformers, configuration_gemma2.py and modeling_gemma2.py.
 */
#define DEFAULT_SCORE_SOFT_CAP 50.0f
#define DEFAULT_LOGIT_SOFT_CAP 30.0f
#define DEFAULT_QUERY_SCALAR   256.0f

static const char *const model_types[] = {"gemma2", NULL};
static const char *const hf_own_keys[] = {"attention_bias", "attn_logit_softcapping",
                                          "final_logit_softcapping", NULL};
static const struct hf_layer_pattern layer_pattern = {.window = 4096, .period = 2};
static const struct hf_rope_terms rope_terms = {.base = 10000.0f};

static const struct tensor_name names[] = {
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.pre_feedforward_layernorm.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_feedforward_layernorm.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct f32_range cap_range = {1e-3f, 1e6f}, scalar_range = {1e-3f, 1e6f};
    config->embedding_scale = sqrtf((float)config->hidden);
    config->norm_weight_offset = 1.0f;
    config->attention_scale =
        1.0f / sqrtf(checkpoint_keys_f32_or(keys, "query_pre_attn_scalar", scalar_range,
                                            DEFAULT_QUERY_SCALAR));
    config->attention_soft_cap = checkpoint_keys_f32_or_null(keys, "attn_logit_softcapping",
                                                             cap_range, DEFAULT_SCORE_SOFT_CAP);
    config->logit_soft_cap = checkpoint_keys_f32_or_null(keys, "final_logit_softcapping", cap_range,
                                                         DEFAULT_LOGIT_SOFT_CAP);
    checkpoint_hf_read_biases(keys, config);
    checkpoint_hf_read_only_rope(keys, config, &rope_terms);
    checkpoint_hf_read_layers(keys, &layer_pattern, config);
}

static const struct hf_form hf_gemma2 = {
    .model_types = model_types,
    .defaults = {.layers = 26,
                 .hidden = 2304,
                 .feed_forward = 9216,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocab_tokens = 256000,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .own_keys = hf_own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c, &(const struct dense_form){.post_norms = true, .activation = GATE_GELU_TANH});
}

const struct model_family family_gemma2 = {
    .architecture = "gemma2",
    .gguf = &gguf_gemma2,
    .hf = &hf_gemma2,
    .list_ops = list_ops,
};
