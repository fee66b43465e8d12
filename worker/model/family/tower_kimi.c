/*
 * MoonViT of Kimi-VL and Kimi K2.5, beside deepseek_v3's text: images of any size, layer norms with
 * biases, a table of positions that is resized by cubic convolution, and a rope whose pairs turn by the
 * column and the line in turn.
 *
 *   feature = W2 . gelu(W1 . join(layer_norm(norm(x))) + bias) + bias
 *
 * A still image is one frame, which adds nothing to its positions. Stages: those of the layers, and the
 * features.
 *
 * Source: transformers, configuration_kimi_k25.py, modeling_kimi_k25.py and conversion_mapping.py
 * (the published names); the publishers' config.json for their keys.
 */
#include <math.h>

#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define EPSILON   1e-5f
#define ROPE_BASE 10000.0f

static const char *const kimi_vl_types[] = {"kimi_vl", NULL};
static const char *const moonvit_types[] = {"moonvit", NULL};
static const char *const kimi_k25_types[] = {"kimi_k25", NULL};
static const char *const kimi_k25_towers[] = {"kimi_k25_vision", "kimi_k25", "", NULL};

static const struct tensor_name names[] = {
    {"v.patch_embd.weight", "^patch_embed.proj.weight"},
    {"v.patch_embd.bias", "^patch_embed.proj.bias"},
    {"v.position_embd.weight", "^patch_embed.pos_emb.weight"},
    {"v.blk.*.ln1.weight", "^encoder.blocks.*.norm0.weight"},
    {"v.blk.*.ln1.bias", "^encoder.blocks.*.norm0.bias"},
    {"v.blk.*.ln2.weight", "^encoder.blocks.*.norm1.weight"},
    {"v.blk.*.ln2.bias", "^encoder.blocks.*.norm1.bias"},
    {"v.blk.*.attn_qkv.weight", "^encoder.blocks.*.wqkv.weight"},
    {"v.blk.*.attn_qkv.bias", "^encoder.blocks.*.wqkv.bias"},
    {"v.blk.*.attn_out.weight", "^encoder.blocks.*.wo.weight"},
    {"v.blk.*.attn_out.bias", "^encoder.blocks.*.wo.bias"},
    {"v.blk.*.ffn_up.weight", "^encoder.blocks.*.mlp.fc0.weight"},
    {"v.blk.*.ffn_up.bias", "^encoder.blocks.*.mlp.fc0.bias"},
    {"v.blk.*.ffn_down.weight", "^encoder.blocks.*.mlp.fc1.weight"},
    {"v.blk.*.ffn_down.bias", "^encoder.blocks.*.mlp.fc1.bias"},
    {"v.post_ln.weight", "^encoder.final_layernorm.weight"},
    {"v.post_ln.bias", "^encoder.final_layernorm.bias"},
    {"mm.input_norm.weight", "mm_projector.pre_norm.weight"},
    {"mm.input_norm.weight", "multi_modal_projector.pre_norm.weight"},
    {"mm.input_norm.bias", "mm_projector.pre_norm.bias"},
    {"mm.input_norm.bias", "multi_modal_projector.pre_norm.bias"},
    {"mm.1.weight", "mm_projector.proj.0.weight"},
    {"mm.1.weight", "multi_modal_projector.linear_1.weight"},
    {"mm.1.bias", "mm_projector.proj.0.bias"},
    {"mm.1.bias", "multi_modal_projector.linear_1.bias"},
    {"mm.2.weight", "mm_projector.proj.2.weight"},
    {"mm.2.weight", "multi_modal_projector.linear_2.weight"},
    {"mm.2.bias", "mm_projector.proj.2.bias"},
    {"mm.2.bias", "multi_modal_projector.linear_2.bias"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"vision_tower.", NULL};
static const char *const parts[] = {"vision_tower.", "mm_projector.", "multi_modal_projector.",
                                    NULL};

/* The number under one of two names. */
static uint32_t read_either(struct checkpoint_keys *keys, const char *name, const char *other,
                            uint32_t most, uint32_t absent)
{
    struct u32_range range = {1, most};
    return checkpoint_keys_u32_or(keys, name, range,
                                  checkpoint_keys_u32_or(keys, other, range, absent));
}

static void read_sizes(struct checkpoint_keys *keys, struct vision_config *config)
{
    bool own = json_value_type(json_value_member(keys->object, "vt_hidden_size")) != JSON_ABSENT;
    checkpoint_vision_sizes(keys,
                            &(const struct vision_terms){
                                .hidden_key = own ? "vt_hidden_size" : "hidden_size",
                                .hidden = 1152,
                                .layers_key = own ? "vt_num_hidden_layers" : "num_hidden_layers",
                                .layers = 27,
                                .heads_key = own ? "vt_num_attention_heads" : "num_attention_heads",
                                .heads = 16,
                                .patch_side = 14,
                                .norm_epsilon = EPSILON},
                            config);
    config->tower.feed_forward =
        read_either(keys, "intermediate_size", "vt_intermediate_size", LIMIT_FEED_FORWARD, 4304);
    config->activation = checkpoint_vision_activation(keys, "hidden_act", ACTIVATION_GELU_TANH);
}

static void read_squares(struct checkpoint_keys *keys, struct vision_config *config)
{
    uint32_t sides[2] = {2, 2}, count = 2;
    if (checkpoint_hf_vision_list(keys, "merge_kernel_size", LIMIT_MERGE_SIDE + 1, 2, sides,
                                  &count) &&
        (count != 2 || sides[0] != sides[1] || sides[0] == 0))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "merge_kernel_size is no square");
    config->vision.merge_side = sides[0];
    uint32_t height = read_either(keys, "pos_emb_height", "init_pos_emb_height", 1024, 64);
    uint32_t width = read_either(keys, "pos_emb_width", "init_pos_emb_width", 1024, 64);
    if (height != width)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "a table of %u by %u positions", height,
                               width);
    config->table_side = height;
}

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    read_sizes(keys, config);
    read_squares(keys, config);
    checkpoint_vision_rope_adjacent(keys, ROPE_BASE, true, config);
    const struct f32_range epsilons = {1e-12f, 1e-1f};
    config->projector_epsilon = checkpoint_keys_f32_or(keys, "projector_ln_eps", epsilons, EPSILON);
    checkpoint_keys_leave(root, keys);
    config->projector_epsilon = checkpoint_keys_f32_or(root, "projection_layer_norm_eps", epsilons,
                                                       config->projector_epsilon);
    checkpoint_keys_leave(keys, root);
}

static const struct hf_vision_form hf_kimi = {
    .naming = {names, NULL, prefixes, NULL},
    .probe = "v.position_embd.weight",
    .parts = parts,
    .read_config = read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static void list_features(struct plan_builder *b, const struct vision_config *c,
                          const struct tower_tensors *t)
{
    uint32_t square = c->vision.merge_side * c->vision.merge_side, hidden = c->tower.hidden;
    uint32_t joined = square * hidden, text = c->vision.text_hidden;
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id inner = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    tower_blocks_norm(b, false, t->residual, hidden, "v.post_ln", t->normed);
    tower_blocks_layer_norm(b, t->normed, hidden, "mm.input_norm", c->projector_epsilon);
    plan_ops_join_rows(b, t->normed, square, row);
    tower_blocks_linear(b, row, &(const struct tower_linear){"mm.1", joined, joined, true}, inner);
    plan_ops_activate(b, inner, ACTIVATION_GELU_ERF);
    tower_blocks_linear(b, inner, &(const struct tower_linear){"mm.2", text, joined, true},
                        feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

void tower_kimi_vl_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {
        .joined_qkv = true, .rotates = true, .activation = c->activation};
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    tower_blocks_positions(b, c, POSITIONS_CUBIC, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    list_features(b, c, &t);
}

const struct model_tower tower_kimi_vl = {
    .model_types = kimi_vl_types,
    .vision_types = moonvit_types,
    .hf = &hf_kimi,
    .ties = false,
    .list_ops = tower_kimi_vl_list_ops,
};

const struct model_tower tower_kimi_k25 = {
    .model_types = kimi_k25_types,
    .vision_types = kimi_k25_towers,
    .hf = &hf_kimi,
    .ties = true,
    .list_ops = tower_kimi_vl_list_ops,
};
