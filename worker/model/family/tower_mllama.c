/*
 * The tower of Llama 3.2 Vision: two transformers over a canvas (model_vision.h), whose rows all attend to each
 * other but for those without pixels, which attend to those with.
 *
 *   x = Wpatch . pixels + t(a) * tiles[aspect, tile]       of patches
 *   x = class                                              of the row before a square's patches
 *   x += (1 - t(p)) * places[place] + t(p) * tile_places[aspect, tile, place]
 *   x = layer_norm(x), 0 in rows of padding
 *   each layer:         x += Wo . attention(norm(x)); x += Wdown . gelu(Wup . norm(x) + bias) + bias
 *   x = layer_norm(x) + t(o) * tiles[aspect, tile]         of all rows
 *   each global layer:  the same with both halves times t(gate)
 *   feature = W . (x, then column c of each of n layers' outputs, then column c + 1 of each, ...) + bias
 *
 * t is tanh. Which n layers, intermediate_layers_indices says: number i means the output of layer i, as in
 * transformers since 4.54 and in mlx-vlm. (Before, and in the code of the model's authors, it was the input.)
 *
 * A feature becomes a key and a value of each crossed layer of the text (family_mllama.c).
 *
 * Source: transformers, configuration_mllama.py and modeling_mllama.py.
 */
#include <math.h>
#include <stdio.h>

#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define DEFAULT_PIXELS 448u
#define EPSILON        1e-5f  /* of the norms around the first transformer */
#define LEAST_GATE     1e-30f /* adds to no number but 0 */

static const char *const prefixes[] = {"vision_model.", "model.vision_model.", "vision_tower.",
                                       NULL};
static const char *const parts[] = {"vision_model.",
                                    "multi_modal_projector.",
                                    "model.vision_model.",
                                    "model.multi_modal_projector.",
                                    "vision_tower.", /* of MLX */
                                    NULL};

/* clang-format off */
#define LAYER_NAMES(short, long)                                         \
    {short ".*.ln1.%", "^" long ".*.input_layernorm.%"},                 \
    {short ".*.ln2.%", "^" long ".*.post_attention_layernorm.%"},        \
    {short ".*.attn_q.%", "^" long ".*.self_attn.q_proj.%"},             \
    {short ".*.attn_k.%", "^" long ".*.self_attn.k_proj.%"},             \
    {short ".*.attn_v.%", "^" long ".*.self_attn.v_proj.%"},             \
    {short ".*.attn_out.%", "^" long ".*.self_attn.o_proj.%"},           \
    {short ".*.ffn_up.%", "^" long ".*.mlp.fc1.%"},                      \
    {short ".*.ffn_down.%", "^" long ".*.mlp.fc2.%"},                    \
    {short ".*.attn_gate", "^" long ".*.gate_attn"},                     \
    {short ".*.ffn_gate", "^" long ".*.gate_ffn"}
#define CROSS_NAMES(part)                                                                          \
    {"blk.*.cross_k.weight", part "layers.*.cross_attn.k_proj.weight"},                            \
    {"blk.*.cross_v.weight", part "layers.*.cross_attn.v_proj.weight"},                            \
    {"blk.*.cross_k_norm.weight", part "layers.*.cross_attn.k_norm.weight"}

static const struct tensor_name names[] = {
    {"v.patch_embd.weight", "^patch_embedding.weight"},
    {"v.class_embd", "^class_embedding"},
    {"v.position_embd.weight", "^gated_positional_embedding.embedding"},
    {"v.position_gate", "^gated_positional_embedding.gate"},
    {"v.tile_position_embd.weight", "^gated_positional_embedding.tile_embedding.weight"},
    {"v.pre_tile_embd.weight", "^pre_tile_positional_embedding.embedding.weight"},
    {"v.pre_tile_gate", "^pre_tile_positional_embedding.gate"},
    {"v.post_tile_embd.weight", "^post_tile_positional_embedding.embedding.weight"},
    {"v.post_tile_gate", "^post_tile_positional_embedding.gate"},
    {"v.pre_ln.%", "^layernorm_pre.%"},
    {"v.post_ln.%", "^layernorm_post.%"},
    LAYER_NAMES("v.blk", "transformer.layers"),
    LAYER_NAMES("v.global", "global_transformer.layers"),
    {"mm.0.%", "multi_modal_projector.%"},
    {"mm.0.%", "model.multi_modal_projector.%"},
    CROSS_NAMES("language_model.model."),
    CROSS_NAMES("model.language_model."),
    {NULL, NULL},
};
/* clang-format on */

/* supported_aspect_ratios: canvases [rows, columns], which must be all of max_num_tiles, in order. */
static void check_canvases(struct checkpoint_keys *keys, uint32_t tiles)
{
    struct json_value list = json_value_member(keys->object, "supported_aspect_ratios"), pair, side;
    uint32_t rows = 1, columns = 1, wrong = 0;
    if (keys->result != RESULT_OK)
        return;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &pair);) {
        uint32_t sides[2] = {0, 0}, count = 0;
        for (struct json_reader of = json_value_elements(pair); json_value_next(&of, &side);
             count++)
            wrong += count > 1 || json_value_u32(side, &sides[count]) != RESULT_OK;
        wrong += sides[0] != rows || sides[1] != columns;
        columns = columns < tiles / (rows < tiles ? rows : tiles) ? columns + 1 : 1;
        rows += columns == 1;
    }
    enum json_type type = json_value_type(list);
    if (type == JSON_ABSENT ? tiles != 4 : wrong > 0 || rows != tiles + 1)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "supported_aspect_ratios are not all canvases of %u tiles", tiles);
}

/* The layers whose outputs are parts of features: numbers in config->deepstack. */
static void read_outputs(struct checkpoint_keys *keys, struct vision_config *config)
{
    static const uint32_t usual[] = {3, 7, 15, 23, 30};
    uint32_t count = sizeof usual / sizeof usual[0];
    if (!checkpoint_hf_vision_list(keys, "intermediate_layers_indices", config->layers,
                                   VISION_DEEPSTACK_MAX, config->deepstack, &count)) {
        count = sizeof usual / sizeof usual[0];
        for (uint32_t i = 0; i < count; i++)
            config->deepstack[i] = usual[i];
        if (keys->result == RESULT_OK && config->layers <= usual[count - 1])
            checkpoint_keys_refuse(keys, RESULT_INVALID,
                                   "intermediate_layers_indices is missing, of %u layers",
                                   config->layers);
    }
    config->outputs = count;
    uint32_t columns =
        checkpoint_keys_u32_or(keys, "vision_output_dim", (struct u32_range){1, UINT32_MAX}, 7680);
    if (keys->result == RESULT_OK && columns != config->tower.hidden * (1 + count))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "vision_output_dim %u is not %u times %u",
                               columns, 1 + count, config->tower.hidden);
}

static void read_layers(struct checkpoint_keys *keys, struct vision_config *config)
{
    const struct vision_terms terms = {.hidden_key = "hidden_size",
                                       .layers_key = "num_hidden_layers",
                                       .heads_key = "attention_heads",
                                       .hidden = 1280,
                                       .layers = 32,
                                       .heads = 16,
                                       .patch_side = 14};
    checkpoint_vision_sizes(keys, &terms, config);
    config->global_layers =
        checkpoint_keys_u32_or(keys, "num_global_layers", (struct u32_range){0, LIMIT_LAYERS}, 8);
    config->tower.feed_forward = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, 5120);
    config->tower.norm_epsilon =
        checkpoint_keys_f32_or(keys, "norm_eps", (struct f32_range){1e-12f, 1e-1f}, 1e-5f);
    config->activation = checkpoint_vision_activation(keys, "hidden_act", ACTIVATION_GELU_ERF);
}

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    (void)root;
    read_layers(keys, config);
    read_outputs(keys, config);
    checkpoint_vision_square(keys, DEFAULT_PIXELS, config);
    uint32_t tiles =
        checkpoint_keys_u32_or(keys, "max_num_tiles", (struct u32_range){1, LIMIT_IMAGE_TILES}, 4);
    check_canvases(keys, tiles);
    uint32_t side = config->vision.fixed_side;
    if (keys->result != RESULT_OK)
        return;
    if (((uint64_t)side * side + 1 + 8) * tiles > LIMIT_PATCH_ROWS)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "%u tiles of %u x %u patches", tiles, side,
                               side);
    config->vision.fixed_side = 0;
    config->vision.canvas_side = side;
    config->vision.canvas_tiles = tiles;
    config->vision.crossed_layers = config->text->crossed_layers;
    config->vision.key_columns = config->text->kv_heads * config->text->head_dim;
}

const struct hf_vision_form checkpoint_hf_mllama_tower = {
    .naming = {names, NULL, prefixes, NULL},
    .probe = "v.class_embd",
    .parts = parts,
    .read_config = read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

struct canvas_tensors {
    struct tower_tensors tower;
    plan_tensor_id branch; /* [patches, hidden] */
    plan_tensor_id joined; /* [patches, (1 + outputs) * hidden] */
};

/* A part of the tower's layers. */
struct canvas_layers {
    const char *name;
    uint32_t count;
    bool gated;
};

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

static float raise(float gate)
{
    return fabsf(gate) < LEAST_GATE ? LEAST_GATE : gate;
}

static void list_places(struct plan_builder *b, const struct vision_config *c, plan_tensor_id x)
{
    uint32_t hidden = c->tower.hidden, tiles = c->vision.canvas_tiles;
    uint32_t places = c->vision.canvas_side * c->vision.canvas_side + 1;
    uint32_t aspects = 1 + model_vision_canvas_count(tiles);
    float gate = tanhf(plan_builder_number(b, "v.position_gate"));
    struct patch_table_params params = {.tiles = true, .patches = true};
    params.scale = tanhf(plan_builder_number(b, "v.pre_tile_gate"));
    plan_ops_patch_table(
        b, x, plan_builder_divided(b, aspects, tiles, hidden, "v.pre_tile_embd.weight"), params);
    plan_ops_patch_table(b, x, plan_builder_flat(b, 1, hidden, "v.class_embd"),
                         (struct patch_table_params){.scale = 1.0f, .leads = true});
    params = (struct patch_table_params){
        .scale = 1.0f - gate, .places = places, .leads = true, .patches = true};
    plan_ops_patch_table(b, x, plan_builder_flat(b, places, hidden, "v.position_embd.weight"),
                         params);
    params.scale = gate;
    params.tiles = true;
    plan_ops_patch_table(
        b, x,
        plan_builder_divided(b, aspects, tiles * places, hidden, "v.tile_position_embd.weight"),
        params);
}

/* The bias is added to all rows but padding, which is 0. */
static void list_first_norm(struct plan_builder *b, const struct vision_config *c, plan_tensor_id x)
{
    uint32_t hidden = c->tower.hidden;
    plan_ops_layer_norm_epsilon(b, x, plan_builder_vector(b, hidden, "v.pre_ln.weight"), EPSILON,
                                x);
    plan_ops_patch_table(
        b, x, plan_builder_flat(b, 1, hidden, "v.pre_ln.bias"),
        (struct patch_table_params){.scale = 1.0f, .leads = true, .patches = true});
}

static float read_gate(struct plan_builder *b, const struct canvas_layers *layers, uint32_t layer,
                       const char *name)
{
    if (!layers->gated)
        return 1.0f;
    return raise(tanhf(plan_builder_number(b, "%s.%u.%s", layers->name, layer, name)));
}

static plan_weight_id matrix(struct plan_builder *b, const struct canvas_layers *layers,
                             uint32_t layer, const char *name, uint32_t rows, uint32_t columns)
{
    return plan_builder_matrix(b, rows, columns, "%s.%u.%s.weight", layers->name, layer, name);
}

static void list_norm(struct plan_builder *b, const struct vision_config *c,
                      const struct canvas_layers *layers, uint32_t layer, const char *part,
                      const struct canvas_tensors *t)
{
    char name[STORED_NAME_BYTES];
    snprintf(name, sizeof name, "%s.%u.%s", layers->name, layer, part);
    tower_blocks_norm(b, false, t->tower.residual, c->tower.hidden, name, t->tower.normed);
}

static void list_layer(struct plan_builder *b, const struct vision_config *c,
                       const struct canvas_layers *layers, uint32_t layer,
                       const struct canvas_tensors *tensors)
{
    const struct tower_tensors *t = &tensors->tower;
    uint32_t hidden = c->tower.hidden, wide = c->tower.feed_forward;
    list_norm(b, c, layers, layer, "ln1", tensors);
    plan_ops_linear(b, t->normed,
                    (struct linear_weights){matrix(b, layers, layer, "attn_q", hidden, hidden),
                                            matrix(b, layers, layer, "attn_k", hidden, hidden),
                                            matrix(b, layers, layer, "attn_v", hidden, hidden)},
                    t->qkv);
    plan_builder_end_stage(b);
    plan_ops_patch_attention(b, t->qkv, plan_ops_qkv_slices(&c->tower), false, t->attended);
    plan_ops_project(b, t->attended, matrix(b, layers, layer, "attn_out", hidden, hidden),
                     PLAN_NONE, read_gate(b, layers, layer, "attn_gate"), PLAN_NONE, t->residual);
    plan_builder_end_stage(b);
    list_norm(b, c, layers, layer, "ln2", tensors);
    plan_ops_linear(b, t->normed, one(matrix(b, layers, layer, "ffn_up", wide, hidden)), t->wide);
    plan_ops_bias_add(b, t->wide,
                      one(plan_builder_vector(b, wide, "%s.%u.ffn_up.bias", layers->name, layer)));
    plan_ops_activate(b, t->wide, c->activation);
    plan_builder_end_stage(b);
    plan_ops_project(b, t->wide, matrix(b, layers, layer, "ffn_down", hidden, wide),
                     plan_builder_vector(b, hidden, "%s.%u.ffn_down.bias", layers->name, layer),
                     read_gate(b, layers, layer, "ffn_gate"), tensors->branch, t->residual);
}

/* Copies the residual into the columns of `joined` from offset on, `stride` apart. */
static void list_copy(struct plan_builder *b, const struct canvas_tensors *t, uint32_t offset,
                      uint32_t stride)
{
    const struct clip_columns_params params = {
        .offset = offset, .minimum = -INFINITY, .maximum = INFINITY, .stride = stride};
    plan_ops_clip_columns(b, t->tower.residual, params, t->joined);
}

/* A key and a value of each crossed layer of the text. */
static void list_keys(struct plan_builder *b, const struct vision_config *c, plan_tensor_id feature)
{
    uint32_t wide = c->vision.key_columns, columns = c->vision.text_hidden;
    const struct model_config *text = c->text;
    plan_tensor_id part = plan_builder_tensor(b, PLAN_ROWS_FEATURES, wide);
    for (uint32_t layer = 0, number = 0; layer < text->layers; layer++) {
        if (text->layer[layer].kind != LAYER_FEED_FORWARD)
            continue;
        plan_ops_linear(b, feature,
                        one(plan_builder_matrix(b, wide, columns, "blk.%u.cross_k.weight", layer)),
                        part);
        plan_ops_head_norm_epsilon(
            b, part, (struct column_slice){0, text->kv_heads, text->head_dim},
            plan_builder_vector(b, text->head_dim, "blk.%u.cross_k_norm.weight", layer),
            c->text_epsilon);
        plan_ops_feature_write(b, part, 2 * number);
        plan_ops_linear(b, feature,
                        one(plan_builder_matrix(b, wide, columns, "blk.%u.cross_v.weight", layer)),
                        part);
        plan_ops_feature_write(b, part, 2 * number++ + 1);
        plan_builder_end_stage(b);
    }
}

void tower_mllama_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {.activation = c->activation};
    const struct canvas_layers first = {"v.blk", c->layers, false},
                               global = {"v.global", c->global_layers, true};
    uint32_t hidden = c->tower.hidden, joined = (1 + c->outputs) * hidden,
             text = c->vision.text_hidden;
    struct canvas_tensors t = {.tower = tower_blocks_add_tensors(b, c, &form)};
    t.branch = plan_builder_tensor(b, PLAN_ROWS_PATCHES, hidden);
    t.joined = plan_builder_tensor(b, PLAN_ROWS_PATCHES, joined);
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_PATCHES, text);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.gain = 1.0f}, &t.tower);
    list_places(b, c, t.tower.residual);
    list_first_norm(b, c, t.tower.residual);
    for (uint32_t layer = 0; layer < first.count; layer++) {
        list_layer(b, c, &first, layer, &t);
        for (uint32_t i = 0; i < c->outputs; i++)
            if (c->deepstack[i] == layer)
                list_copy(b, &t, hidden + i, c->outputs);
        plan_builder_end_stage(b);
    }
    tower_blocks_layer_norm(b, t.tower.residual, hidden, "v.post_ln", EPSILON);
    plan_ops_patch_table(
        b, t.tower.residual,
        plan_builder_divided(b, 1 + model_vision_canvas_count(c->vision.canvas_tiles),
                             c->vision.canvas_tiles, hidden, "v.post_tile_embd.weight"),
        (struct patch_table_params){.scale = tanhf(plan_builder_number(b, "v.post_tile_gate")),
                                    .tiles = true,
                                    .leads = true,
                                    .patches = true,
                                    .pads = true});
    for (uint32_t layer = 0; layer < global.count; layer++) {
        list_layer(b, c, &global, layer, &t);
        plan_builder_end_stage(b);
    }
    list_copy(b, &t, 0, 1);
    tower_blocks_linear(b, t.joined, &(const struct tower_linear){"mm.0", text, joined, true}, row);
    plan_ops_join_rows(b, row, 1, feature);
    plan_builder_end_stage(b);
    list_keys(b, c, feature);
}
