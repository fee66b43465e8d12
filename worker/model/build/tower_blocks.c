/*
 *   x = W . pixels [+ bias] [+ positions]
 *   each layer:  q|k|v = W . norm(x) + bias [rotated]
 *                x += Wo . attention(q, k, v) + bias
 *                x += Wdown . activation(Wup . norm(x) + bias) + bias, or with a gate
 *
 * A layer over many patches takes longer than a step of a few streams, so it is split into four
 * stages. Stages end between ops, and more of them would gain little.
 *
 * Rows of the last layer are handled by the tower's own file, since towers differ there.
 */
#include "worker/model/build/tower_blocks.h"

#include <math.h>
#include <stdio.h>

/* The last matrix of half a layer, and its factors. */
struct tower_half {
    const char *name;
    const char *scale;
    plan_tensor_id x;
    uint32_t columns;
};

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

static const char *blocks_of(const struct tower_form *form)
{
    return form->blocks ? form->blocks : "v.blk";
}

/* Silu has an op that takes gate and up side by side; other gates are activated by themselves. */
static bool gates_by_silu(const struct tower_form *form)
{
    return form->gated && form->activation == ACTIVATION_SILU;
}

struct tower_tensors tower_blocks_add_tensors(struct plan_builder *b, const struct vision_config *c,
                                              const struct tower_form *form)
{
    const enum plan_rows rows = form->of_features ? PLAN_ROWS_FEATURES : PLAN_ROWS_PATCHES;
    uint32_t hidden = c->tower.hidden, wide = c->tower.feed_forward;
    uint32_t pixels = 3 * c->frames * c->vision.patch_side * c->vision.patch_side;
    if (c->vision.mels > 0)
        pixels = SOUND_TAPS * c->vision.mels;
    struct tower_tensors tensors = {
        .pixels = form->of_features ? PLAN_NONE : plan_builder_tensor(b, rows, pixels),
        .residual = plan_builder_tensor(b, rows, hidden),
        .normed = plan_builder_tensor(b, rows, hidden),
        .qkv = plan_builder_tensor(b, rows, plan_ops_qkv_slices(&c->tower).columns),
        .attended = plan_builder_tensor(b, rows, hidden),
        .wide = plan_builder_tensor(b, rows, gates_by_silu(form) ? 2 * wide : wide),
    };
    if (form->gated)
        tensors.gated = plan_builder_tensor(b, rows, wide);
    if (form->qk_norms || form->scales || form->no_k_bias)
        tensors.row = plan_builder_tensor(b, rows, hidden);
    return tensors;
}

void tower_blocks_norm(struct plan_builder *b, bool rms, plan_tensor_id x, uint32_t columns,
                       const char *name, plan_tensor_id out)
{
    plan_weight_id weight = plan_builder_vector(b, columns, "%s.weight", name);
    if (rms) {
        plan_ops_rms_norm(b, x, weight, out);
        return;
    }
    plan_ops_layer_norm(b, x, weight, out);
    plan_ops_bias_add(b, out, one(plan_builder_vector(b, columns, "%s.bias", name)));
}

/* normed = norm of the residual, of the layer's `name`. */
static void list_norm(struct plan_builder *b, const struct vision_config *c,
                      const struct tower_form *form, uint32_t layer, const char *name,
                      const struct tower_tensors *t)
{
    char norm[STORED_NAME_BYTES];
    uint32_t hidden = c->tower.hidden;
    snprintf(norm, sizeof norm, "%s.%u.%s", blocks_of(form), layer, name);
    if (form->epsilon <= 0.0f) {
        tower_blocks_norm(b, form->rms_norms, t->residual, hidden, norm, t->normed);
        return;
    }
    plan_ops_layer_norm_epsilon(b, t->residual, plan_builder_vector(b, hidden, "%s.weight", norm),
                                form->epsilon, t->normed);
    plan_ops_bias_add(b, t->normed, one(plan_builder_vector(b, hidden, "%s.bias", norm)));
}

void tower_blocks_layer_norm(struct plan_builder *b, plan_tensor_id x, uint32_t columns,
                             const char *name, float epsilon)
{
    plan_weight_id weight = plan_builder_vector(b, columns, "%s.weight", name);
    plan_ops_layer_norm_epsilon(b, x, weight, epsilon, x);
    plan_ops_bias_add(b, x, one(plan_builder_vector(b, columns, "%s.bias", name)));
}

void tower_blocks_linear(struct plan_builder *b, plan_tensor_id x,
                         const struct tower_linear *linear, plan_tensor_id out)
{
    plan_ops_linear(
        b, x, one(plan_builder_matrix(b, linear->rows, linear->columns, "%s.weight", linear->name)),
        out);
    if (linear->bias)
        plan_ops_bias_add(b, out,
                          one(plan_builder_vector(b, linear->rows, "%s.bias", linear->name)));
}

void tower_blocks_list_patches(struct plan_builder *b, const struct vision_config *c,
                               const struct tower_patches *patches, const struct tower_tensors *t)
{
    uint32_t side = c->vision.patch_side, columns = 3 * c->frames * side * side;
    plan_weight_id kernel = plan_builder_flat(b, c->tower.hidden, columns, "v.patch_embd.weight");
    struct patch_rows_params params = {
        .frames = c->frames,
        /* MLX stores channels as the fastest dimension */
        .channels_last = patches->channels_last ||
                         (side != 3 && plan_builder_fastest(b, "v.patch_embd.weight") == 3),
        .gain = patches->gain,
        .shift = patches->shift,
    };
    plan_ops_patch_rows(b, params, t->pixels);
    plan_builder_end_stage(b);
    plan_ops_linear(b, t->pixels, one(kernel), t->residual);
    if (plan_builder_has(b, "v.patch_embd.weight.1")) { /* of the second frame */
        params.first_frame = 1;
        if (c->vision.frames > 1)
            plan_ops_patch_rows(b, params, t->pixels);
        plan_ops_linear_add(b, t->pixels,
                            plan_builder_flat(b, c->tower.hidden, columns, "v.patch_embd.weight.1"),
                            t->residual);
    }
    if (patches->bias)
        plan_ops_bias_add(b, t->residual,
                          one(plan_builder_vector(b, c->tower.hidden, "v.patch_embd.bias")));
}

void tower_blocks_positions(struct plan_builder *b, const struct vision_config *c,
                            enum position_form form, const struct tower_tensors *t)
{
    uint32_t side = c->table_side, rows = form == POSITIONS_AXES ? 2 * side : side * side;
    uint32_t hidden = c->tower.hidden;
    bool lead = c->vision.lead_row;
    plan_weight_id lead_row = lead ? plan_builder_flat(b, 1, hidden, "v.class_embd") : PLAN_NONE;
    plan_ops_patch_positions(
        b, t->residual,
        plan_builder_flat(b, rows + (lead ? 1 : 0), hidden, "v.position_embd.weight"), lead_row,
        (struct patch_positions_params){form, side, lead});
}

/* Norms the columns of q (`part` 0) or k (1) in the joined tensor, as one or head by head. */
static void list_qk_norm(struct plan_builder *b, const struct vision_config *c, uint32_t part,
                         bool each, uint32_t layer, const struct tower_tensors *t)
{
    static const char *const names[] = {"attn_q_norm", "attn_k_norm"};
    uint32_t hidden = c->tower.hidden;
    struct column_slice slice = {.offset = part * hidden,
                                 .heads = each ? c->tower.heads : 1,
                                 .head_dim = each ? c->tower.head_dim : hidden};
    plan_ops_head_norm(
        b, t->qkv, slice,
        plan_builder_vector(b, slice.head_dim, "v.blk.%u.%s.weight", layer, names[part]));
}

/* Each part by itself, and its columns copied. */
static void list_qkv_apart(struct plan_builder *b, const struct vision_config *c, uint32_t layer,
                           const struct tower_tensors *t)
{
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v"};
    uint32_t hidden = c->tower.hidden;
    for (uint32_t i = 0; i < 3; i++) {
        plan_ops_linear(
            b, t->normed,
            one(plan_builder_matrix(b, hidden, hidden, "v.blk.%u.%s.weight", layer, parts[i])),
            t->row);
        if (i != 1)
            plan_ops_bias_add(
                b, t->row,
                one(plan_builder_vector(b, hidden, "v.blk.%u.%s.bias", layer, parts[i])));
        plan_ops_clip_columns(b, t->row,
                              (struct clip_columns_params){
                                  .offset = i * hidden, .minimum = -INFINITY, .maximum = INFINITY},
                              t->qkv);
    }
}

static void list_qkv(struct plan_builder *b, const struct vision_config *c,
                     const struct tower_form *form, uint32_t layer, const struct tower_tensors *t)
{
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v"};
    uint32_t hidden = c->tower.hidden;
    plan_weight_id weights[3] = {PLAN_NONE, PLAN_NONE, PLAN_NONE}, biases[3];
    for (uint32_t i = 0; i < 3; i++)
        biases[i] = PLAN_NONE;
    const char *blocks = blocks_of(form);
    bool joined = form->joined_qkv && plan_builder_has(b, "%s.%u.attn_qkv.weight", blocks, layer);
    if (joined) {
        weights[0] =
            plan_builder_matrix(b, 3 * hidden, hidden, "%s.%u.attn_qkv.weight", blocks, layer);
        if (!form->no_qkv_bias)
            biases[0] = plan_builder_vector(b, 3 * hidden, "%s.%u.attn_qkv.bias", blocks, layer);
    }
    for (uint32_t i = 0; i < 3 && !joined; i++) {
        weights[i] =
            plan_builder_matrix(b, hidden, hidden, "%s.%u.%s.weight", blocks, layer, parts[i]);
        if (!form->no_qkv_bias)
            biases[i] = plan_builder_vector(b, hidden, "%s.%u.%s.bias", blocks, layer, parts[i]);
    }
    plan_ops_linear(b, t->normed, (struct linear_weights){weights[0], weights[1], weights[2]},
                    t->qkv);
    if (!form->no_qkv_bias)
        plan_ops_bias_add(b, t->qkv, (struct linear_weights){biases[0], biases[1], biases[2]});
    for (uint32_t i = 0; i < 2 && (form->qk_norms || form->qk_head_norms); i++)
        list_qk_norm(b, c, i, form->qk_head_norms, layer, t);
}

/* residual += [ls *] (x times the layer's `name` [hidden, columns] + bias) */
static void add_half(struct plan_builder *b, const struct vision_config *c,
                     const struct tower_form *form, uint32_t layer, const struct tower_half *half,
                     const struct tower_tensors *t)
{
    uint32_t hidden = c->tower.hidden;
    plan_weight_id weight = plan_builder_matrix(b, hidden, half->columns, "%s.%u.%s.weight",
                                                blocks_of(form), layer, half->name);
    plan_weight_id bias = PLAN_NONE;
    if (!form->no_biases)
        bias = plan_builder_vector(b, hidden, "%s.%u.%s.bias", blocks_of(form), layer, half->name);
    if (!form->scales) {
        plan_ops_linear_add(b, half->x, weight, t->residual);
        if (!form->no_biases)
            plan_ops_bias_add(b, t->residual, one(bias));
        return;
    }
    plan_ops_linear(b, half->x, one(weight), t->row);
    if (!form->no_biases)
        plan_ops_bias_add(b, t->row, one(bias));
    plan_ops_scale_columns(
        b, t->row, plan_builder_vector(b, hidden, "v.blk.%u.%s.weight", layer, half->scale));
    plan_ops_add_rows(b, t->residual, t->row, 1.0f, t->residual);
}

/* Over the rows of a tile, or of windows of it. */
static void list_tile_attention(struct plan_builder *b, const struct vision_config *c,
                                const struct tower_form *form, uint32_t layer,
                                const struct tower_tensors *t)
{
    struct qkv_slices slices = plan_ops_qkv_slices(&c->tower);
    struct linear_weights weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE};
    uint32_t window = form->of_features || c->sees_all[layer] ? 0 : c->tile_window;
    uint32_t rows = 2 * (window > 0 ? window : c->table_side) - 1;
    const char *blocks = blocks_of(form);
    if (form->relative)
        weights = (struct linear_weights){
            plan_builder_flat(b, rows, c->tower.head_dim, "%s.%u.attn_rel_h", blocks, layer),
            plan_builder_flat(b, rows, c->tower.head_dim, "%s.%u.attn_rel_w", blocks, layer),
            plan_builder_vector(b, slices.columns, "%s.%u.attn_qkv.bias", blocks, layer)};
    plan_ops_tile_attention(b, t->qkv,
                            (struct tile_attention_params){.queries = slices.queries,
                                                           .keys = slices.keys.offset,
                                                           .values = slices.values.offset,
                                                           .window = window,
                                                           .scale = c->tower.attention_scale},
                            weights, t->attended);
}

static void list_attention(struct plan_builder *b, const struct vision_config *c,
                           const struct tower_form *form, uint32_t layer,
                           const struct tower_tensors *t)
{
    struct qkv_slices slices = plan_ops_qkv_slices(&c->tower);
    uint32_t hidden = c->tower.hidden;
    list_norm(b, c, form, layer, "ln1", t);
    if (form->no_k_bias)
        list_qkv_apart(b, c, layer, t);
    else
        list_qkv(b, c, form, layer, t);
    if (form->rotates)
        plan_ops_patch_rope(b, t->qkv, slices);
    plan_builder_end_stage(b);
    if (form->relative || form->of_features)
        list_tile_attention(b, c, form, layer, t);
    else
        plan_ops_patch_attention(b, t->qkv, slices,
                                 c->vision.window_side > 0 && !c->sees_all[layer], t->attended);
    add_half(b, c, form, layer, &(const struct tower_half){"attn_out", "ls1", t->attended, hidden},
             t);
    plan_builder_end_stage(b);
}

/* out = W . normed [+ bias] of the layer's part `name` [feed_forward, hidden] */
static void list_wide(struct plan_builder *b, const struct vision_config *c,
                      const struct tower_form *form, uint32_t layer, const char *name,
                      const struct tower_tensors *t, plan_tensor_id out)
{
    char part[STORED_NAME_BYTES];
    snprintf(part, sizeof part, "%s.%u.%s", blocks_of(form), layer, name);
    tower_blocks_linear(b, t->normed,
                        &(const struct tower_linear){part, c->tower.feed_forward, c->tower.hidden,
                                                     !form->no_biases},
                        out);
}

/* wide = gate | up, gated = silu(gate) * up */
static void list_silu_gate(struct plan_builder *b, const struct vision_config *c,
                           const struct tower_form *form, uint32_t layer,
                           const struct tower_tensors *t)
{
    static const char *const parts[] = {"ffn_gate", "ffn_up"};
    uint32_t hidden = c->tower.hidden, wide = c->tower.feed_forward;
    plan_weight_id weights[2], biases[2] = {PLAN_NONE, PLAN_NONE};
    for (uint32_t i = 0; i < 2; i++) {
        weights[i] = plan_builder_matrix(b, wide, hidden, "v.blk.%u.%s.weight", layer, parts[i]);
        if (!form->no_biases)
            biases[i] = plan_builder_vector(b, wide, "v.blk.%u.%s.bias", layer, parts[i]);
    }
    plan_ops_linear(b, t->normed, (struct linear_weights){weights[0], weights[1], PLAN_NONE},
                    t->wide);
    if (!form->no_biases)
        plan_ops_bias_add(b, t->wide, (struct linear_weights){biases[0], biases[1], PLAN_NONE});
    plan_ops_gate(b, t->wide, GATE_SILU, t->gated);
}

static void list_feed_forward(struct plan_builder *b, const struct vision_config *c,
                              const struct tower_form *form, uint32_t layer,
                              const struct tower_tensors *t)
{
    uint32_t wide = c->tower.feed_forward;
    list_norm(b, c, form, layer, "ln2", t);
    if (gates_by_silu(form)) {
        list_silu_gate(b, c, form, layer, t);
    } else if (form->gated) {
        list_wide(b, c, form, layer, "ffn_gate", t, t->gated);
        plan_ops_activate(b, t->gated, form->activation);
        list_wide(b, c, form, layer, "ffn_up", t, t->wide);
        plan_ops_gate_with(b, t->gated, t->wide, 0, GATE_PLAIN, t->gated);
    } else {
        list_wide(b, c, form, layer, "ffn_up", t, t->wide);
        plan_ops_activate(b, t->wide, form->activation);
    }
    plan_builder_end_stage(b);
    add_half(b, c, form, layer,
             &(const struct tower_half){"ffn_down", "ls2", form->gated ? t->gated : t->wide, wide},
             t);
}

void tower_blocks_list_layer(struct plan_builder *b, const struct vision_config *c,
                             const struct tower_form *form, uint32_t layer,
                             const struct tower_tensors *t)
{
    list_attention(b, c, form, layer, t);
    list_feed_forward(b, c, form, layer, t);
}

void tower_blocks_skip_rest(struct plan_builder *b, const struct vision_config *c, bool norm)
{
    static const char *const parts[] = {
        "ln1",      "attn_q",   "attn_k",      "attn_v",      "attn_out", "ln2", "ffn_up",
        "ffn_down", "attn_qkv", "attn_q_norm", "attn_k_norm", "ls1",      "ls2", "ffn_gate"};
    static const char *const kinds[] = {"weight", "bias"};
    char name[STORED_NAME_BYTES];
    for (uint32_t layer = c->layers; layer < c->layers + c->unused_layers; layer++)
        for (size_t i = 0; i < 2 * sizeof parts / sizeof parts[0]; i++) {
            snprintf(name, sizeof name, "v.blk.%u.%s.%s", layer, parts[i / 2], kinds[i % 2]);
            plan_builder_use_in_config(b, name);
        }
    for (size_t i = 0; i < 2 && norm; i++) {
        snprintf(name, sizeof name, "v.post_ln.%s", kinds[i]);
        plan_builder_use_in_config(b, name);
    }
}

void tower_blocks_skip_head(struct plan_builder *b)
{
    static const char *const names[] = {"v.head.probe",
                                        "v.head.attention.in_proj_weight",
                                        "v.head.attention.in_proj_bias",
                                        "v.head.attention.out_proj.weight",
                                        "v.head.attention.out_proj.bias",
                                        "v.head.layernorm.weight",
                                        "v.head.layernorm.bias",
                                        "v.head.mlp.fc1.weight",
                                        "v.head.mlp.fc1.bias",
                                        "v.head.mlp.fc2.weight",
                                        "v.head.mlp.fc2.bias"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        plan_builder_use_in_config(b, names[i]);
}
