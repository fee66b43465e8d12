/*
 * The tower of HunyuanOCR (hunyuan_vl): SigLIP's layers over images of any size, a table of positions that is
 * resized linearly, and a convolution over squares of patches:
 *
 *   y = W2 . gelu(conv(rms_norm(x)) + bias) + bias
 *   feature = rms_norm(W . y + bias)
 *
 * A learned row follows each line of features, and two more are around the image (op feature_place). They pass
 * through the same norm, and the first also through W. Since they are equal for all features, each is computed
 * beside every feature, which costs one further product with W.
 *
 * Stages: those of the layers, the features, and their places.
 *
 * Source: transformers, modeling_hunyuan_vl.py.
 */
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

/* Folders have a row before the table that nothing uses. */
static void list_positions(struct plan_builder *b, const struct vision_config *c,
                           const struct tower_tensors *t)
{
    uint32_t rows = c->table_side * c->table_side, first = c->unused_positions;
    plan_weight_id table = plan_builder_rows(
        b, (struct row_range){.whole = first + rows, .first = first, .rows = rows}, c->tower.hidden,
        "v.position_embd.weight");
    plan_ops_patch_positions(
        b, t->residual, table, PLAN_NONE,
        (struct patch_positions_params){POSITIONS_MIDDLES, c->table_side, false});
}

/* The kernel over [columns, lines, channels] as a matrix of joined rows; MLX stores it so. */
static plan_weight_id kernel(struct plan_builder *b, const struct vision_config *c, uint32_t rows,
                             uint32_t columns)
{
    static const char name[] = "mm.0.weight";
    uint32_t side = c->vision.merge_side;
    if (plan_builder_fastest(b, name) == side)
        return plan_builder_interleaved(b, rows, columns, side * side, name);
    return plan_builder_flat(b, rows, columns, "%s", name);
}

static void list_norm(struct plan_builder *b, const struct vision_config *c, plan_tensor_id x)
{
    plan_ops_rms_norm(b, x, plan_builder_vector(b, c->vision.text_hidden, "mm.post_norm.weight"),
                      x);
}

/* out = the learned row `name` [columns] in every row; x has as many columns. */
static void list_learned(struct plan_builder *b, plan_tensor_id x, uint32_t columns,
                         const char *name, plan_tensor_id out)
{
    plan_ops_clip_columns(b, x, (struct clip_columns_params){0}, out);
    plan_ops_bias_add(b, out, one(plan_builder_vector(b, columns, "%s", name)));
}

/* Squares of normed patches, up to the last product's input. */
static plan_tensor_id list_squares(struct plan_builder *b, const struct vision_config *c,
                                   const struct tower_tensors *t)
{
    uint32_t square = c->vision.merge_side * c->vision.merge_side, hidden = c->tower.hidden;
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, square * hidden);
    plan_tensor_id inner = plan_builder_tensor(b, PLAN_ROWS_FEATURES, 2 * hidden);
    plan_tensor_id outer = plan_builder_tensor(b, PLAN_ROWS_FEATURES, 4 * hidden);
    tower_blocks_norm(b, true, t->residual, hidden, "mm.pre_norm", t->normed);
    plan_ops_join_rows(b, t->normed, square, row);
    plan_ops_linear(b, row, one(kernel(b, c, 2 * hidden, square * hidden)), inner);
    plan_ops_bias_add(b, inner, one(plan_builder_vector(b, 2 * hidden, "mm.0.bias")));
    plan_ops_activate(b, inner, c->activation);
    plan_ops_linear(b, inner, one(plan_builder_flat(b, 4 * hidden, 2 * hidden, "mm.2.weight")),
                    outer);
    plan_ops_bias_add(b, outer, one(plan_builder_vector(b, 4 * hidden, "mm.2.bias")));
    return outer;
}

static void list_features(struct plan_builder *b, const struct vision_config *c,
                          const struct tower_tensors *t)
{
    uint32_t columns = 4 * c->tower.hidden, text = c->vision.text_hidden;
    const struct tower_linear last = {"mm.model.fc", text, columns, true};
    plan_tensor_id placed[FEATURE_FRAME_KINDS];
    plan_tensor_id row = list_squares(b, c, t);
    for (uint32_t kind = 0; kind < FEATURE_FRAME_KINDS; kind++)
        placed[kind] = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    tower_blocks_linear(b, row, &last, placed[FEATURE_OF_SQUARE]);
    list_learned(b, row, columns, "v.image_newline", row);
    tower_blocks_linear(b, row, &last, placed[FEATURE_AFTER_LINE]);
    list_learned(b, placed[FEATURE_OF_SQUARE], text, "mm.image_begin",
                 placed[FEATURE_BEFORE_IMAGE]);
    list_learned(b, placed[FEATURE_OF_SQUARE], text, "mm.image_end", placed[FEATURE_AFTER_IMAGE]);
    if (plan_builder_has(b, "v.view_seperator")) /* GGUF's spelling; nothing uses it */
        (void)plan_builder_vector(b, text, "v.view_seperator");
    for (uint32_t kind = 0; kind < FEATURE_FRAME_KINDS; kind++)
        list_norm(b, c, placed[kind]);
    plan_builder_end_stage(b);
    for (uint32_t kind = 0; kind < FEATURE_FRAME_KINDS; kind++)
        plan_ops_feature_place(b, placed[kind], PLAN_NONE, kind);
    plan_builder_end_stage(b);
}

void tower_hunyuan_vl_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {.activation = c->activation};
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    list_positions(b, c, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    list_features(b, c, &t);
}
