/*
 * The calls of plan_ops.h for ops that look at the rows around a row.
 */
#include "worker/model/build/plan_ops.h"

static struct plan_op op_of(enum op_stem stem, plan_tensor_id x, plan_weight_id weight,
                            plan_tensor_id out)
{
    return (struct plan_op){.stem = stem,
                            .inputs = {x, PLAN_NONE},
                            .weights = {weight, PLAN_NONE, PLAN_NONE},
                            .output = out};
}

void plan_ops_sound_lines(struct plan_builder *b, uint32_t lines, plan_tensor_id out)
{
    struct plan_op op = op_of(OP_sound_rows, PLAN_NONE, PLAN_NONE, out);
    op.params.sound_rows.lines = lines;
    plan_builder_append(b, op);
}

void plan_ops_conv_2d(struct plan_builder *b, plan_tensor_id x, plan_weight_id kernel,
                      struct conv_2d_params params, plan_tensor_id out)
{
    struct plan_op op = op_of(OP_conv_2d, x, kernel, out);
    op.params.conv_2d = params;
    plan_builder_append(b, op);
}

void plan_ops_conv_depthwise(struct plan_builder *b, plan_tensor_id x, plan_weight_id kernel,
                             struct conv_2d_params params, plan_tensor_id out)
{
    struct plan_op op = op_of(OP_conv_depthwise, x, kernel, out);
    op.params.conv_depthwise.shape = params;
    plan_builder_append(b, op);
}

void plan_ops_part_norm(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                        struct part_norm_params params)
{
    struct plan_op op = op_of(OP_part_norm, x, weight, x);
    op.params.part_norm = params;
    plan_builder_append(b, op);
}

void plan_ops_near_attention(struct plan_builder *b, plan_tensor_id qkv, plan_weight_id distances,
                             struct near_attention_params params, plan_tensor_id out)
{
    struct plan_op op = op_of(OP_near_attention, qkv, distances, out);
    op.params.near_attention = params;
    plan_builder_append(b, op);
}

void plan_ops_past_norm(struct plan_builder *b, plan_tensor_id x, plan_tensor_id moments,
                        plan_weight_id weight, struct past_norm_params params)
{
    struct plan_op op = op_of(OP_line_moments, x, PLAN_NONE, moments);
    op.params.line_moments.cells = params.cells;
    plan_builder_append(b, op);
    op = op_of(OP_past_norm, x, weight, x);
    op.inputs[1] = moments;
    op.params.past_norm = params;
    plan_builder_append(b, op);
}

void plan_ops_embed_over(struct plan_builder *b, plan_weight_id table, uint32_t first,
                         plan_tensor_id out)
{
    struct plan_op op = op_of(OP_embed_over, PLAN_NONE, table, out);
    op.params.embed_over.first = first;
    plan_builder_append(b, op);
}
