/*
 * Hugging Face checkpoints of Qwen3-VL, dense and with mixtures of experts: qwen3 or qwen3_moe for
 * the text, whose pairs use the three positions in turn, and a tower that Qwen3.5 has too
 * (tower_qwen3_vl.c).
 *
 * The chosen experts' weights always add up to one. Stacks of experts are published transposed, and
 * the usual order is read too.
 *
 * Source: transformers, configuration_qwen3_vl.py, modeling_qwen3_vl.py, their siblings of
 * qwen3_vl_moe and conversion_mapping.py; mlx-vlm for names.
 */
#include <math.h>

#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_qwen_tower.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE     500000.0f
#define DEFAULT_TABLE 2304u
#define DEFAULT_WIDE  4304u

static const char *const model_types[] = {"qwen3_vl", "qwen3_vl_text", NULL};
static const char *const moe_model_types[] = {"qwen3_vl_moe", "qwen3_vl_moe_text", NULL};
static const char *const own_keys[] = {"attention_bias", NULL};
static const char *const moe_own_keys[] = {"attention_bias", "num_experts", "num_local_experts",
                                           NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct hf_rope_terms terms = {
        .base = ROPE_BASE, .mrope = true, .interleaved = true, .sections = {24, 20, 20}};
    checkpoint_hf_read_only_rope(keys, config, &terms);
    checkpoint_hf_read_biases(keys, config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0};
}

/* --- the tower -------------------------------------------------------------------------------- */

static const struct tensor_name tower_names[] = {
    {"v.position_embd.weight", "^pos_embed.weight"},
    {"v.blk.*.ffn_up.weight", "^blocks.*.mlp.linear_fc1.weight"},
    {"v.blk.*.ffn_up.bias", "^blocks.*.mlp.linear_fc1.bias"},
    {"v.blk.*.ffn_down.weight", "^blocks.*.mlp.linear_fc2.weight"},
    {"v.blk.*.ffn_down.bias", "^blocks.*.mlp.linear_fc2.bias"},
    {"mm.norm.weight", "^merger.norm.weight"},
    {"mm.norm.bias", "^merger.norm.bias"},
    {"mm.fc1.weight", "^merger.linear_fc1.weight"},
    {"mm.fc1.bias", "^merger.linear_fc1.bias"},
    {"mm.fc2.weight", "^merger.linear_fc2.weight"},
    {"mm.fc2.bias", "^merger.linear_fc2.bias"},
    {"v.deepstack.*.norm.weight", "^deepstack_merger_list.*.norm.weight"},
    {"v.deepstack.*.norm.bias", "^deepstack_merger_list.*.norm.bias"},
    {"v.deepstack.*.fc1.weight", "^deepstack_merger_list.*.linear_fc1.weight"},
    {"v.deepstack.*.fc1.bias", "^deepstack_merger_list.*.linear_fc1.bias"},
    {"v.deepstack.*.fc2.weight", "^deepstack_merger_list.*.linear_fc2.weight"},
    {"v.deepstack.*.fc2.bias", "^deepstack_merger_list.*.linear_fc2.bias"},
    {NULL, NULL},
};

/* Reads the tower layers whose outputs become further feature parts (deepstack). Qwen3.5 has no
 * such key. */
static uint32_t read_deepstack(struct checkpoint_keys *keys, uint32_t layers,
                               uint32_t deepstack[VISION_DEEPSTACK_MAX])
{
    uint32_t count = 0;
    (void)checkpoint_hf_vision_list(keys, "deepstack_visual_indexes", layers, VISION_DEEPSTACK_MAX,
                                    deepstack, &count);
    return count;
}

static void read_tower(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                       struct vision_config *config)
{
    (void)root;
    const struct hf_qwen_tower_terms terms = {.hidden_key = "hidden_size",
                                              .activation = "gelu_pytorch_tanh",
                                              .hidden = 1152,
                                              .layers = 27,
                                              .patch_side = 16};
    checkpoint_hf_read_qwen_tower(keys, &terms, config);
    config->tower.feed_forward = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, DEFAULT_WIDE);
    uint32_t table =
        checkpoint_keys_u32_or(keys, "num_position_embeddings",
                               (struct u32_range){1, LIMIT_PATCH_POSITIONS}, DEFAULT_TABLE);
    config->table_side = (uint32_t)lroundf(sqrtf((float)table));
    if (keys->result == RESULT_OK && config->table_side * config->table_side != table)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "num_position_embeddings %u is no square",
                               table);
    config->vision.deepstack_layers = read_deepstack(keys, config->layers, config->deepstack);
}

const struct hf_vision_form checkpoint_hf_qwen3_vl_tower = {
    .naming = {tower_names, checkpoint_hf_qwen_tower_names, checkpoint_hf_qwen_towers, NULL},
    .probe = "v.patch_embd.weight",
    .parts = checkpoint_hf_qwen_towers,
    .read_config = read_tower,
};

/* One text layer takes each of the tower's further parts. The last layer takes none, because not
 * all of its rows are computed. */
static void read_whole(struct checkpoint_keys *root, struct model_config *config)
{
    uint32_t deepstack[VISION_DEEPSTACK_MAX];
    struct checkpoint_keys vision = checkpoint_keys_enter(root, "vision_config");
    config->deepstack_layers = read_deepstack(&vision, LIMIT_LAYERS, deepstack);
    checkpoint_keys_leave(root, &vision);
    if (root->result == RESULT_OK && config->deepstack_layers >= config->layers)
        checkpoint_keys_refuse(root, RESULT_UNSUPPORTED,
                               "deepstack_visual_indexes are %u, and the text has %u layers",
                               config->deepstack_layers, config->layers);
}

const struct hf_form checkpoint_hf_qwen3_vl = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 22016,
                 .heads = 32,
                 .kv_heads = 32,
                 .head_dim = 128,
                 .vocab_tokens = 151936,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, checkpoint_hf_qwen_texts,
               checkpoint_hf_qwen_towers},
    .read_config = read_config,
    .read_whole = read_whole,
    .vision = &checkpoint_hf_qwen3_vl_tower,
};

/* --- mixtures of experts ---------------------------------------------------------------------- */

static void read_moe_config(struct checkpoint_keys *keys, struct model_config *config)
{
    read_config(keys, config);
    checkpoint_hf_read_experts(
        keys,
        &(const struct hf_expert_terms){
            .count = 60, .chosen = 4, .feed_forward = 1408, .normalized = true},
        config);
    checkpoint_hf_read_expert_layers(keys, config);
}

const struct hf_form checkpoint_hf_qwen3_vl_moe = {
    .model_types = moe_model_types,
    .defaults = {.layers = 24,
                 .hidden = 2048,
                 .feed_forward = 5632,
                 .heads = 16,
                 .kv_heads = 16,
                 .vocab_tokens = 151936,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = moe_own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, checkpoint_hf_qwen_texts,
               checkpoint_hf_qwen_towers},
    .read_config = read_moe_config,
    .read_whole = read_whole,
    .look_at_tensors = checkpoint_hf_look_at_stacks,
    .vision = &checkpoint_hf_qwen3_vl_tower,
};
