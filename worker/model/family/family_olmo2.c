/*
 * OLMo 2 and 3: the dense decoder with norms only after each half, and of all query heads as one and
 * all key heads as one. OLMo 3 has windows in three of four layers; only its global layers stretch
 * their rotary embedding.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define OLMO2_ROPE_BASE 10000.0f
#define OLMO3_ROPE_BASE 500000.0f
#define PERIOD          4u

enum { GLOBAL_ROPE, WINDOW_ROPE }; /* as checkpoint_hf_read_layer_ropes() */

static const struct f32_range base_range = {1.0f, 1e12f};
static const struct f32_range magnitude_range = {1e-3f, 1e3f};

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the olmo2 architecture, which OLMo 3 uses too, beyond the sizes that all families
 * have: a rotary embedding over halves, and for OLMo 3 a window. The layers with a window are listed
 * in newer files; otherwise one layer of four is global. Converters write OLMo 3's attention_factor,
 * which is the whole magnitude of YaRN, as rope.scaling.attn_factor.
 */
static void gguf_read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t slides[LIMIT_LAYERS];
    uint32_t window = checkpoint_gguf_window(keys, config, false);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        slides[layer] = (layer + 1) % PERIOD != 0;
    (void)checkpoint_keys_u32_each(keys, "attention.sliding_window_pattern",
                                   (struct u32_range){0, 1}, config->layers, slides);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        config->layer[layer].rope = slides[layer] ? WINDOW_ROPE : GLOBAL_ROPE;
        config->layer[layer].window = slides[layer] ? window : 0;
    }
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct rope_config *global = &config->ropes[GLOBAL_ROPE];
    struct rope_config *local = &config->ropes[WINDOW_ROPE];
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    global->pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, OLMO2_ROPE_BASE, global);
    global->magnitude = checkpoint_keys_f32_or(keys, "rope.scaling.attn_factor", magnitude_range,
                                               global->magnitude);
    float base = checkpoint_keys_f32_or(keys, "rope.freq_base", base_range, OLMO2_ROPE_BASE);
    bool windows = checkpoint_keys_u32_or(keys, "attention.sliding_window",
                                          (struct u32_range){0, UINT32_MAX}, 0) > 0;
    if (keys->result != RESULT_OK || !windows)
        return;
    config->rope_count = 2;
    local->pairing = ROPE_PAIRS_HALVES;
    local->dims = global->dims;
    checkpoint_plain_rope(local, base, 1.0f);
    gguf_read_layers(keys, config);
}

static const struct gguf_form gguf_olmo2 = {
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of OLMo 2 and 3. A rope_scaling of OLMo 3 is for global layers.
 *
 * Source: transformers, configuration_olmo2.py, configuration_olmo3.py and modeling_olmo3.py.
 */
static const char *const olmo2_types[] = {"olmo2", NULL};
static const char *const olmo3_types[] = {"olmo3", NULL};
static const char *const own_keys[] = {"attention_bias", NULL};
static const struct hf_layer_pattern olmo3_pattern = {
    .window = 4096, .period = PERIOD, .global_rope = GLOBAL_ROPE, .window_rope = WINDOW_ROPE};

static const struct tensor_name names[] = {
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_feedforward_layernorm.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static void olmo2_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_biases(keys, config);
    checkpoint_hf_read_only_rope(keys, config,
                                 &(const struct hf_rope_terms){.base = OLMO2_ROPE_BASE});
}

static void olmo3_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    float base = checkpoint_keys_f32_or(keys, "rope_theta", base_range, OLMO3_ROPE_BASE);
    checkpoint_hf_read_biases(keys, config);
    checkpoint_hf_read_layer_ropes(keys, config, base, base);
    checkpoint_hf_read_layers(keys, &olmo3_pattern, config);
}

static const struct hf_form hf_olmo2 = {
    .model_types = olmo2_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 50304,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = olmo2_read_config,
};

static const struct hf_form hf_olmo3 = {
    .model_types = olmo3_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 50304,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = olmo3_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){
                                 .whole_norms = true, .no_input_norms = true, .post_norms = true});
}

const struct model_family family_olmo2 = {
    .architecture = "olmo2",
    .gguf = &gguf_olmo2,
    .hf = &hf_olmo2,
    .list_ops = list_ops,
};

const struct model_family family_olmo3 = {
    .architecture = "olmo3",
    .hf = &hf_olmo3,
    .list_ops = list_ops,
};
