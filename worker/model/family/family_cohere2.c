/*
 * Cohere's Command R7B and A (cohere2): both halves of a layer read the same layer-normed row, and
 * layers that see all positions do not rotate.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the cohere2 architecture, beyond the sizes that all families have.
 *
 * Three layers of four have a sliding window and rotate adjacent pairs; every fourth sees all
 * positions and does not rotate. A key may state the pattern's period; published files leave it
 * out.
 *
 * Source: Hugging Face transformers, configuration_cohere2.py and modeling_cohere2.py.
 */
#define COHERE2_ROPE_BASE 10000.0f
#define COHERE2_PERIOD    4u

static const char *const own_keys[] = {"logit_scale", NULL};

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    uint32_t period = checkpoint_keys_u32_or(keys, "attention.sliding_window_pattern",
                                             (struct u32_range){1, LIMIT_LAYERS}, COHERE2_PERIOD);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool global = (layer + 1) % period == 0;
        config->layer[layer] = (struct layer_config){
            .window = global ? 0 : window,
            .rope = global ? ROPE_NONE : 0,
        };
    }
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->logit_scale = checkpoint_keys_f32(keys, "logit_scale", (struct f32_range){1e-6f, 1e3f});
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, COHERE2_ROPE_BASE, &config->ropes[0]);
    read_layers(keys, config);
}

static const struct gguf_form gguf_cohere2 = {
    .epsilon_key = "attention.layer_norm_epsilon",
    .own_keys = own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Cohere's Command R7B and A (cohere2).
 *
 * The head size is always hidden / heads, whatever head_dim says; a checkpoint in which the two
 * differ has tensors of the wrong shape and is refused.
 *
 * Source: transformers, configuration_cohere2.py and modeling_cohere2.py.
 */
#define DEFAULT_LOGIT_SCALE 0.0625f

static const char *const model_types[] = {"cohere2", NULL};
static const char *const hf_own_keys[] = {"attention_bias", NULL};
static const struct hf_layer_pattern layer_pattern = {
    .window = 4096, .period = 4, .global_rope = ROPE_NONE, .window_rope = 0};
static const struct hf_rope_terms rope_terms = {.base = 10000.0f};

static const char *const prefixes[] = {"model.", NULL};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "use_qk_norm", 0);
    checkpoint_keys_expect_neutral(keys, "rotary_pct", 1);
    config->logit_scale = checkpoint_keys_f32_or(
        keys, "logit_scale", (struct f32_range){1e-6f, 1e3f}, DEFAULT_LOGIT_SCALE);
    checkpoint_hf_read_biases(keys, config);
    checkpoint_hf_read_only_rope(keys, config, &rope_terms);
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_hf_read_layers(keys, &layer_pattern, config);
}

static const struct hf_form hf_cohere2 = {
    .model_types = model_types,
    .defaults = {.layers = 40,
                 .hidden = 8192,
                 .feed_forward = 22528,
                 .heads = 64,
                 .vocab_tokens = 256000,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .epsilon_key = "layer_norm_eps",
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = hf_own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){.layer_norms = true, .parallel = true});
}

const struct model_family family_cohere2 = {
    .architecture = "cohere2",
    .gguf = &gguf_cohere2,
    .hf = &hf_cohere2,
    .list_ops = list_ops,
};
