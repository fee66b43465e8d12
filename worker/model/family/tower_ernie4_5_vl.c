/*
 * The tower of ERNIE 4.5 VL: Qwen2-VL's layers over patches of one frame, a norm, and a resampler that joins squares of
 * patches, and then two frames:
 *
 *   s = layer_norm(W2 . gelu(W1 . join(norm(x)) + bias) + bias)
 *   t = layer_norm(W4 . gelu(W3 . (s | s) + bias) + bias)
 *   feature = rms_norm(W . t + bias)
 *
 * A still image is both frames.
 *
 * Stages: those of the layers, four of the resampler, whose matrices are as large as a layer's, and the features.
 *
 * Source: transformers, modeling_ernie4_5_vl_moe.py.
 */
#include <math.h>

#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"

/* out = layer_norm(second . gelu(first . x + bias) + bias) of the resampler's part `name` */
static void list_part(struct plan_builder *b, const struct vision_config *c, const char *names[3],
                      plan_tensor_id x, uint32_t columns, plan_tensor_id inner, plan_tensor_id out)
{
    uint32_t wide = c->vision.merge_side * c->vision.merge_side * c->tower.hidden;
    tower_blocks_linear(b, x, &(const struct tower_linear){names[0], wide, columns, true}, inner);
    plan_ops_activate(b, inner, ACTIVATION_GELU_ERF);
    plan_builder_end_stage(b);
    tower_blocks_linear(b, inner, &(const struct tower_linear){names[1], wide, wide, true}, out);
    tower_blocks_layer_norm(b, out, wide, names[2], c->tower.norm_epsilon);
    plan_builder_end_stage(b);
}

static void list_features(struct plan_builder *b, const struct vision_config *c,
                          const struct tower_tensors *t)
{
    static const char *spatial[3] = {"mm.spatial.fc1", "mm.spatial.fc2", "mm.spatial.norm"};
    static const char *temporal[3] = {"mm.temporal.fc1", "mm.temporal.fc2", "mm.temporal.norm"};
    uint32_t square = c->vision.merge_side * c->vision.merge_side, hidden = c->tower.hidden;
    uint32_t wide = square * hidden, text = c->vision.text_hidden;
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, wide);
    plan_tensor_id inner = plan_builder_tensor(b, PLAN_ROWS_FEATURES, wide);
    plan_tensor_id frames = plan_builder_tensor(b, PLAN_ROWS_FEATURES, 2 * wide);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    struct clip_columns_params copy = {.minimum = -INFINITY, .maximum = INFINITY};
    tower_blocks_norm(b, false, t->residual, hidden, "v.post_ln", t->normed);
    plan_ops_join_rows(b, t->normed, square, row);
    list_part(b, c, spatial, row, wide, inner, row);
    plan_ops_clip_columns(b, row, copy, frames);
    copy.offset = wide;
    plan_ops_clip_columns(b, row, copy, frames);
    list_part(b, c, temporal, frames, 2 * wide, inner, row);
    tower_blocks_linear(b, row, &(const struct tower_linear){"mm.fc", text, wide, true}, feature);
    /* The last norm has the text's epsilon. */
    plan_ops_rms_norm_scaled(b, feature, plan_builder_vector(b, text, "mm.post_norm.weight"),
                             sqrtf(c->tower.norm_epsilon / c->text_epsilon), feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

void tower_ernie4_5_vl_moe_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {
        .joined_qkv = true, .rotates = true, .activation = c->activation};
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.gain = 1.0f}, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    list_features(b, c, &t);
}
