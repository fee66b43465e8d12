/*
 * PaddleOCR-VL's tower: SigLIP's layers for images of any size, whose queries and keys are rotated by
 * line and column as in Qwen2-VL, after a table of positions resized to the image. Squares of normed
 * patches are joined and projected:
 *
 *   feature = W2 . gelu(W1 . join(norm(post_norm(x))) + bias) + bias
 *
 * Stages: those of the layers, and the features.
 *
 * Source: transformers, modeling_paddleocr_vl.py.
 */
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"

#define PROJECTOR_EPSILON 1e-5f

static void list_features(struct plan_builder *b, const struct vision_config *c, plan_tensor_id x)
{
    uint32_t square = c->vision.merge_side * c->vision.merge_side;
    uint32_t joined = square * c->tower.hidden, text = c->vision.text_hidden;
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id inner = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    tower_blocks_layer_norm(b, x, c->tower.hidden, "mm.input_norm", PROJECTOR_EPSILON);
    plan_ops_join_rows(b, x, square, row);
    tower_blocks_linear(b, row, &(const struct tower_linear){"mm.1", joined, joined, true}, inner);
    plan_ops_activate(b, inner, ACTIVATION_GELU_ERF);
    tower_blocks_linear(b, inner, &(const struct tower_linear){"mm.2", text, joined, true},
                        feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

void tower_paddleocr_vl_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {.rotates = true, .activation = c->activation};
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    tower_blocks_positions(b, c, POSITIONS_MIDDLES, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    tower_blocks_skip_head(b);
    plan_builder_use_in_config(b, "v.packing_embd.weight");
    tower_blocks_norm(b, false, t.residual, c->tower.hidden, "v.post_ln", t.normed);
    list_features(b, c, t.normed);
}
