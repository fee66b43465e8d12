/*
 * SigLIP's tower, as in Gemma 3 and Idefics 3 (SmolVLM): squares of one size, a learned position
 * table, layer norms, and a norm after the last layer. The projection differs:
 *
 *   Gemma 3     feature = W . norm(mean of a square of patches)
 *   Idefics 3   feature = W . join(a square of patches)
 *
 * Stages: those of the layers, and the features.
 */
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static const struct tower_form form = {.activation = ACTIVATION_GELU_TANH};

/* Lists everything up to the last norm, whose output is in t.normed. */
static struct tower_tensors list_layers(struct plan_builder *b, const struct vision_config *c)
{
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    tower_blocks_positions(b, c, POSITIONS_EXACT, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    tower_blocks_norm(b, false, t.residual, c->tower.hidden, "v.post_ln", t.normed);
    return t;
}

void tower_gemma3_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    uint32_t square = c->vision.merge_side * c->vision.merge_side;
    uint32_t hidden = c->tower.hidden, text_hidden = c->vision.text_hidden;
    struct tower_tensors t = list_layers(b, c);
    plan_tensor_id pooled = plan_builder_tensor(b, PLAN_ROWS_FEATURES, hidden);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text_hidden);
    plan_ops_pool_rows(b, t.normed, (struct pool_rows_params){square, 1.0f / (float)square},
                       pooled);
    plan_ops_rms_norm_offset(b, pooled, plan_builder_vector(b, hidden, "mm.norm.weight"),
                             c->pooled_norm_offset, pooled);
    plan_ops_linear(
        b, pooled,
        (struct linear_weights){plan_builder_transposed(b, text_hidden, hidden, "mm.weight"),
                                PLAN_NONE, PLAN_NONE},
        feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

void tower_idefics3_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    uint32_t square = c->vision.merge_side * c->vision.merge_side;
    uint32_t joined = square * c->tower.hidden, text_hidden = c->vision.text_hidden;
    struct tower_tensors t = list_layers(b, c);
    plan_tensor_id wide = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text_hidden);
    plan_ops_join_rows(b, t.normed, square, wide);
    tower_blocks_linear(b, wide, &(const struct tower_linear){"mm", text_hidden, joined, false},
                        feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}
