/*
 * Qwen2 and Qwen2.5: llama with biases on queries, keys and values.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_qwen_tower.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

/* --- config.json: qwen2_vl and qwen2_5_vl ----------------------------------------------------- */

/*
 * Hugging Face checkpoints of Qwen2-VL and Qwen2.5-VL: qwen2 for the text, with rotary positions of
 * three dimensions, and a tower (tower_qwen2_vl.c).
 *
 * Older configs are flat, newer ones have a text_config. Text tensors begin with "model." in both,
 * and with a longer prefix if MLX or a later class saved them. In vision_config, Qwen2-VL calls the
 * tower's width embed_dim and the text's hidden size hidden_size; Qwen2.5-VL calls the tower's
 * width hidden_size.
 *
 * Source: transformers, configuration_qwen2_vl.py, configuration_qwen2_5_vl.py and their modeling
 * files; mlx-vlm for the names.
 */
#define ROPE_BASE      1000000.0f
#define DEFAULT_WINDOW 4096u
#define DEFAULT_RATIO  4u
#define WINDOW_PIXELS  112u
#define SECTIONS                                                                                   \
    {                                                                                              \
        16, 24, 24                                                                                 \
    }

static const char *const qwen2_vl_types[] = {"qwen2_vl", "qwen2_vl_text", NULL};
static const char *const omni_types[] = {"qwen2_5_omni_thinker", "qwen2_5_omni_text", NULL};
static const char *const qwen2_5_vl_types[] = {"qwen2_5_vl", "qwen2_5_vl_text", NULL};
static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct hf_rope_terms terms = {.base = ROPE_BASE, .mrope = true, .sections = SECTIONS};
    bool slides[LIMIT_LAYERS] = {false};
    uint32_t window = 0;
    checkpoint_hf_read_only_rope(keys, config, &terms);
    if (checkpoint_keys_bool_or(keys, "use_sliding_window", false))
        window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    uint32_t full =
        checkpoint_keys_u32_or(keys, "max_window_layers", (struct u32_range){0, UINT32_MAX}, 80);
    if (!checkpoint_hf_layer_slides(keys, config, slides))
        for (uint32_t layer = 0; layer < config->layers; layer++)
            slides[layer] = layer >= full;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = slides[layer] ? window : 0};
}

/* --- the tower -------------------------------------------------------------------------------- */

static const struct tensor_name tower_names[] = {
    {"v.blk.*.ffn_gate.weight", "^blocks.*.mlp.gate_proj.weight"},
    {"v.blk.*.ffn_gate.bias", "^blocks.*.mlp.gate_proj.bias"},
    {"v.blk.*.ffn_up.weight", "^blocks.*.mlp.up_proj.weight"},
    {"v.blk.*.ffn_up.weight", "^blocks.*.mlp.fc1.weight"},
    {"v.blk.*.ffn_up.bias", "^blocks.*.mlp.up_proj.bias"},
    {"v.blk.*.ffn_up.bias", "^blocks.*.mlp.fc1.bias"},
    {"v.blk.*.ffn_down.weight", "^blocks.*.mlp.down_proj.weight"},
    {"v.blk.*.ffn_down.weight", "^blocks.*.mlp.fc2.weight"},
    {"v.blk.*.ffn_down.bias", "^blocks.*.mlp.down_proj.bias"},
    {"v.blk.*.ffn_down.bias", "^blocks.*.mlp.fc2.bias"},
    {"v.post_ln.weight", "^merger.ln_q.weight"},
    {"v.post_ln.bias", "^merger.ln_q.bias"},
    {"mm.0.weight", "^merger.mlp.0.weight"},
    {"mm.0.bias", "^merger.mlp.0.bias"},
    {"mm.2.weight", "^merger.mlp.2.weight"},
    {"mm.2.bias", "^merger.mlp.2.bias"},
    {NULL, NULL},
};

static void read_qwen2_tower(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                             struct vision_config *config)
{
    (void)root;
    const struct hf_qwen_tower_terms terms = {.hidden_key = "embed_dim",
                                              .activation = "quick_gelu",
                                              .hidden = 1280,
                                              .layers = 32,
                                              .patch_side = 14};
    checkpoint_hf_read_qwen_tower(keys, &terms, config);
    uint32_t ratio =
        checkpoint_keys_u32_or(keys, "mlp_ratio", (struct u32_range){1, 64}, DEFAULT_RATIO);
    config->tower.feed_forward = config->tower.hidden * ratio;
    if (keys->result == RESULT_OK && config->tower.feed_forward > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "mlp_ratio %u", ratio);
}

/* The window is stated in pixels and must hold whole merged squares. */
static void read_windows(struct checkpoint_keys *keys, struct vision_config *config)
{
    uint32_t all[LIMIT_LAYERS] = {7, 15, 23, 31}, count = 4;
    uint32_t pixels = checkpoint_keys_u32_or(
        keys, "window_size", (struct u32_range){1, LIMIT_PATCH_SIDE * LIMIT_PATCH_ROWS},
        WINDOW_PIXELS);
    if (!checkpoint_hf_vision_list(keys, "fullatt_block_indexes", config->layers, LIMIT_LAYERS, all,
                                   &count))
        count = 4;
    if (keys->result != RESULT_OK)
        return;
    config->vision.window_side = pixels / config->vision.merge_side / config->vision.patch_side;
    if (config->vision.window_side == 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "window_size %u has no room for a square",
                               pixels);
    for (uint32_t i = 0; i < count; i++)
        config->sees_all[all[i]] = true;
}

static void read_qwen2_5_tower(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                               struct vision_config *config)
{
    (void)root;
    const struct hf_qwen_tower_terms terms = {.hidden_key = "hidden_size",
                                              .activation = "silu",
                                              .hidden = 3584,
                                              .layers = 32,
                                              .patch_side = 14};
    checkpoint_hf_read_qwen_tower(keys, &terms, config);
    config->tower.feed_forward = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, 3420);
    read_windows(keys, config);
}

/* Fields of both towers; their configs differ in read_config. */
#define TOWER_FORM                                                                                 \
    .naming = {tower_names, checkpoint_hf_qwen_tower_names, checkpoint_hf_qwen_towers, NULL},      \
    .probe = "v.patch_embd.weight", .parts = checkpoint_hf_qwen_towers

static const struct hf_vision_form qwen2_tower = {TOWER_FORM, .read_config = read_qwen2_tower};
static const struct hf_vision_form qwen2_5_tower = {TOWER_FORM, .read_config = read_qwen2_5_tower};
/* Of Qwen2.5-Omni's thinker: Qwen2.5-VL's with q, k and v apart. */
static const struct hf_vision_form omni_tower = {
    .naming = {tower_names, checkpoint_hf_qwen_tower_names, checkpoint_hf_omni_towers, NULL},
    .probe = "v.patch_embd.weight",
    .parts = checkpoint_hf_omni_towers,
    .read_config = read_qwen2_5_tower,
};

static const char *const other_parts[] = {"model.visual.", "visual.", "vision_tower.", "mtp.",
                                          NULL};

/* Fields of both texts, apart from their towers. */
#define TEXT_FORM                                                                                  \
    .defaults = {.layers = 80,                                                                     \
                 .hidden = 8192,                                                                   \
                 .feed_forward = 29568,                                                            \
                 .heads = 64,                                                                      \
                 .kv_heads = 8,                                                                    \
                 .vocab_tokens = 152064,                                                           \
                 .norm_epsilon = 1e-5f},                                                           \
    .activation_key = "hidden_act", .activation = "silu",                                          \
    .naming = {checkpoint_hf_usual_names, NULL, checkpoint_hf_qwen_texts, other_parts},            \
    .read_config = read_config

static const struct hf_form hf_qwen2_vl = {TEXT_FORM, .model_types = qwen2_vl_types,
                                           .vision = &qwen2_tower};
static const struct hf_form hf_qwen2_5_vl = {TEXT_FORM, .model_types = qwen2_5_vl_types,
                                             .vision = &qwen2_5_tower};

/* Qwen2.5-Omni's thinker (model_type qwen2_5_omni), whose whole config hf_config_main() finds. Its text's class
 * ties embeddings, which the thinker's own key overrides; the thinker's class does not. */
static const struct hf_form hf_qwen2_5_omni = {
    .model_types = omni_types,
    .defaults = {.layers = 28,
                 .hidden = 3584,
                 .feed_forward = 18944,
                 .heads = 28,
                 .kv_heads = 4,
                 .vocab_tokens = 152064,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {checkpoint_hf_usual_names, NULL, checkpoint_hf_omni_texts, checkpoint_hf_omni_parts},
    .read_config = read_config,
    .untying_whole = true,
    .vision = &omni_tower,
    .sound = &checkpoint_hf_qwen2_5_omni_sound,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c, &(const struct dense_form){.qkv_bias = true});
}

/*
 * A layer that predicts a further token, with the names of qwen3_5's. Published checkpoints have none:
 * scripts/demo_model/train_drafters makes one for the demo model.
 */
static const struct tensor_name ahead_names[] = {
    {"token_embd.weight", "model.language_model.embed_tokens.weight"},
    {"token_embd.weight", "language_model.model.embed_tokens.weight"},
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"nextn.eh_proj.weight", "^fc.weight"},
    {"nextn.enorm.weight", "^pre_fc_norm_embedding.weight"},
    {"nextn.hnorm.weight", "^pre_fc_norm_hidden.weight"},
    {"nextn.shared_head_norm.weight", "^norm.weight"},
    {NULL, NULL},
};
static const char *const ahead_prefixes[] = {"mtp.", NULL};

static plan_tensor_id list_ahead_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list_ahead(b, c, &(const struct dense_form){.qkv_bias = true}, true);
}

static const struct ahead_form ahead = {
    .hf = {ahead_names, checkpoint_hf_usual_names, ahead_prefixes, NULL},
    .list_ops = list_ahead_ops,
};

const struct model_family family_qwen2 = {
    .architecture = "qwen2",
    .gguf = &checkpoint_gguf_qwen2,
    .hf = &checkpoint_hf_qwen2,
    .list_ops = list_ops,
};

/* GGUF files of Qwen2.5-VL have the architecture qwen2vl, too; the tower is in another file. */
const struct model_family family_qwen2_vl = {
    .architecture = "qwen2vl",
    .gguf = &checkpoint_gguf_qwen2_vl,
    .hf = &hf_qwen2_vl,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen2_vl_list_ops,
    .ahead = &ahead,
};

const struct model_family family_qwen2_5_vl = {
    .architecture = "qwen2_5_vl",
    .hf = &hf_qwen2_5_vl,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen2_5_vl_list_ops,
    .ahead = &ahead,
};

const struct model_family family_qwen2_5_omni = {
    .architecture = "qwen2_5_omni",
    .hf = &hf_qwen2_5_omni,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen2_5_vl_list_ops,
    .list_sound_ops = tower_qwen2_5_omni_list_ops,
};
