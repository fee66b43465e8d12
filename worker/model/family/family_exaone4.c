/*
 * EXAONE 4: the dense decoder with norms only after each half, and of each query and key head. In
 * models with windows, only the layers that have one rotate.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 10000.0f
#define WINDOW    4096u
#define PERIOD    4u

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the exaone4 architecture, beyond the sizes that all families have: one rotary
 * embedding over halves. No key states the layers with a window: with 64 layers, as in the published
 * 32B model, every fourth is global; other models have none.
 */
#define GGUF_WINDOW_LAYERS 64u

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
    bool windows = config->layers == GGUF_WINDOW_LAYERS;
    uint32_t window = checkpoint_useful_window(
        config, checkpoint_keys_u32_or(keys, "attention.sliding_window",
                                       (struct u32_range){1, UINT32_MAX}, WINDOW));
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool global = (layer + 1) % PERIOD == 0;
        config->layer[layer].rope = windows && global ? ROPE_NONE : 0;
        config->layer[layer].window = windows && !global ? window : 0;
    }
}

static const struct gguf_form gguf_exaone4 = {
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of EXAONE 4. With sliding_window null, all layers are global and rotate.
 * sliding_window_pattern is a period, or letters ("LLLG") in configs that also have layer_types.
 *
 * Source: transformers, configuration_exaone4.py and modeling_exaone4.py.
 */
static const char *const model_types[] = {"exaone4", NULL};
static const struct tensor_name names[] = {
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_feedforward_layernorm.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static uint32_t read_period(struct checkpoint_keys *keys)
{
    static const char name[] = "sliding_window_pattern";
    if (json_value_member_is_null(keys->object, name))
        return PERIOD;
    return checkpoint_keys_u32_or(keys, name, (struct u32_range){1, LIMIT_LAYERS}, PERIOD);
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    bool slides[LIMIT_LAYERS];
    bool windows = !json_value_member_is_null(keys->object, "sliding_window");
    uint32_t window = checkpoint_hf_window(keys, config, WINDOW);
    bool listed = checkpoint_hf_layer_slides(keys, config, slides);
    uint32_t period = listed ? 0 : read_period(keys);
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool slides_here = windows && (listed ? slides[layer] : (layer + 1) % period != 0);
        config->layer[layer].rope = windows && !slides_here ? ROPE_NONE : 0;
        config->layer[layer].window = slides_here ? window : 0;
    }
}

static const struct hf_form hf_exaone4 = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 16384,
                 .heads = 32,
                 .kv_heads = 32,
                 .vocab_tokens = 102400,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c,
        &(const struct dense_form){.head_norms = true, .no_input_norms = true, .post_norms = true});
}

const struct model_family family_exaone4 = {
    .architecture = "exaone4",
    .gguf = &gguf_exaone4,
    .hf = &hf_exaone4,
    .list_ops = list_ops,
};
