/*
 * The towers of GLM-4.1V and GLM-OCR: Qwen2.5-VL's layers without windows, a norm and a resized table of positions before
 * them, a convolution over squares of patches after them, and a gated merger:
 *
 *   y = gelu(layer_norm(W . conv(norm(x))))
 *   feature = W2 . (silu(Wg . y) * (Wu . y))
 *
 * GLM-OCR has neither the first norm nor the table, but norms of each head of queries and keys, and
 * biases in its layers.
 *
 * Stages: those of the layers, and the features.
 *
 * Source: transformers, modeling_glm4v.py and modeling_glm_ocr.py.
 */
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"

#define MERGER_EPSILON 1e-5f

/* The kernel over [columns, lines, channels] as a matrix of joined rows; MLX stores it so. */
static plan_weight_id kernel(struct plan_builder *b, const struct vision_config *c,
                             uint32_t columns)
{
    static const char name[] = "mm.patch_merger.weight";
    uint32_t side = c->vision.merge_side, text = c->vision.text_hidden;
    if (plan_builder_fastest(b, name) == side)
        return plan_builder_interleaved(b, text, columns, side * side, name);
    return plan_builder_flat(b, text, columns, "%s", name);
}

static void list_merger(struct plan_builder *b, const struct vision_config *c,
                        const struct tower_tensors *t)
{
    uint32_t square = c->vision.merge_side * c->vision.merge_side;
    uint32_t joined = square * c->tower.hidden, text = c->vision.text_hidden;
    uint32_t wide = c->projector_wide;
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id first = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_tensor_id gate = plan_builder_tensor(b, PLAN_ROWS_FEATURES, wide);
    plan_tensor_id up = plan_builder_tensor(b, PLAN_ROWS_FEATURES, wide);
    tower_blocks_norm(b, true, t->residual, c->tower.hidden, "v.post_ln", t->normed);
    plan_ops_join_rows(b, t->normed, square, row);
    plan_ops_linear(b, row, (struct linear_weights){kernel(b, c, joined), PLAN_NONE, PLAN_NONE},
                    first);
    plan_ops_bias_add(b, first,
                      (struct linear_weights){plan_builder_vector(b, text, "mm.patch_merger.bias"),
                                              PLAN_NONE, PLAN_NONE});
    tower_blocks_linear(b, first, &(const struct tower_linear){"mm.model.fc", text, text, false},
                        feature);
    tower_blocks_layer_norm(b, feature, text, "mm.post_norm", MERGER_EPSILON);
    plan_ops_activate(b, feature, ACTIVATION_GELU_ERF);
    tower_blocks_linear(b, feature, &(const struct tower_linear){"mm.gate", wide, text, false},
                        gate);
    tower_blocks_linear(b, feature, &(const struct tower_linear){"mm.up", wide, text, false}, up);
    plan_ops_gate_with(b, gate, up, 0, GATE_SILU, gate);
    tower_blocks_linear(b, gate, &(const struct tower_linear){"mm.down", text, wide, false}, first);
    plan_ops_feature_write(b, first, 0);
    plan_builder_end_stage(b);
}

static void list(struct plan_builder *b, const struct vision_config *c,
                 const struct tower_form *form)
{
    struct tower_tensors t = tower_blocks_add_tensors(b, c, form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    if (c->table_side > 0) {
        tower_blocks_norm(b, true, t.residual, c->tower.hidden, "v.norm_embd", t.residual);
        tower_blocks_positions(b, c, POSITIONS_CUBIC, &t);
    }
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, form, layer, &t);
        plan_builder_end_stage(b);
    }
    list_merger(b, c, &t);
}

void tower_glm4v_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {.rms_norms = true,
                                    .joined_qkv = true,
                                    .rotates = true,
                                    .no_qkv_bias = !c->qkv_bias,
                                    .no_biases = true,
                                    .gated = true,
                                    .activation = ACTIVATION_SILU};
    list(b, c, &form);
}

void tower_glm_ocr_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    list(b, c,
         &(const struct tower_form){.rms_norms = true,
                                    .joined_qkv = true,
                                    .rotates = true,
                                    .no_qkv_bias = !c->qkv_bias,
                                    .no_biases = !c->qkv_bias,
                                    .qk_head_norms = true,
                                    .gated = true,
                                    .activation = ACTIVATION_SILU});
}
