/*
 * The towers of Qwen2-VL and Qwen2.5-VL: patches of two frames, queries and keys rotated by line
 * and column, and at the end squares of patches, normed and joined, through two matrices:
 *
 *   feature = W2 . gelu(W0 . join(norm(x)) + bias) + bias
 *
 * Qwen2-VL has layer norms and a plain feed-forward part; Qwen2.5-VL has rms norms, a gated one,
 * and windows in most layers.
 *
 * Stages: those of the layers, the first of which also projects patches, and the features.
 */
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static void list_merger(struct plan_builder *b, const struct vision_config *c, bool rms,
                        const struct tower_tensors *t)
{
    uint32_t count = c->vision.merge_side * c->vision.merge_side;
    uint32_t joined = count * c->tower.hidden;
    plan_tensor_id square = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id wide = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, c->vision.text_hidden);
    tower_blocks_norm(b, rms, t->residual, c->tower.hidden, "v.post_ln", t->normed);
    plan_ops_join_rows(b, t->normed, count, square);
    tower_blocks_linear(b, square, &(const struct tower_linear){"mm.0", joined, joined, true},
                        wide);
    plan_ops_activate(b, wide, ACTIVATION_GELU_ERF);
    tower_blocks_linear(b, wide,
                        &(const struct tower_linear){"mm.2", c->vision.text_hidden, joined, true},
                        feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

static void list(struct plan_builder *b, const struct vision_config *c,
                 const struct tower_form *form)
{
    struct tower_tensors t = tower_blocks_add_tensors(b, c, form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.gain = 1.0f}, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, form, layer, &t);
        plan_builder_end_stage(b);
    }
    list_merger(b, c, form->rms_norms, &t);
}

void tower_qwen2_vl_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    list(b, c,
         &(const struct tower_form){
             .joined_qkv = true, .rotates = true, .activation = ACTIVATION_GELU_QUICK});
}

void tower_qwen2_5_vl_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    list(b, c,
         &(const struct tower_form){
             .rms_norms = true, .joined_qkv = true, .rotates = true, .gated = true});
}
