/*
 * The projection stays one tensor: the ops that follow take their columns of it. Factors multiply it
 * before the convolution, because that is followed by an activation.
 */
#include "worker/model/build/ssm_blocks.h"

#include <math.h>

/* Columns of the projection, in order. */
struct ssm_widths {
    uint32_t gates; /* z, as wide as x */
    uint32_t conv;  /* x | B | C */
    uint32_t steps; /* one for each head */
};

static struct ssm_widths widths_of(const struct model_config *c)
{
    uint32_t columns = ssm_blocks_columns(c);
    return (struct ssm_widths){columns, columns + 2 * c->ssm.groups * c->ssm.state, c->ssm.heads};
}

uint32_t ssm_blocks_columns(const struct model_config *c)
{
    return c->ssm.heads * c->ssm.head_dim;
}

struct ssm_tensors ssm_blocks_add_tensors(struct plan_builder *b, const struct model_config *c)
{
    struct ssm_widths wide = widths_of(c);
    return (struct ssm_tensors){
        .projected = plan_builder_tensor(b, PLAN_ROWS_STEP, wide.gates + wide.conv + wide.steps),
        .conv = plan_builder_tensor(b, PLAN_ROWS_STEP, wide.conv),
        .scanned = plan_builder_tensor(b, PLAN_ROWS_STEP, wide.gates),
    };
}

static bool is_one(float factor)
{
    return fabsf(factor - 1.0f) < 1e-12f;
}

/* Without a bias both factors are one product. */
static void list_factors(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                         plan_tensor_id projected)
{
    const struct ssm_config *ssm = &c->ssm;
    uint32_t bc = ssm->groups * ssm->state, columns = ssm_blocks_columns(c);
    struct scale_parts_params parts = {.count = SCALE_PARTS_MAX,
                                       .columns = {columns, columns, bc, bc, ssm->heads}};
    float whole = ssm->in_factor;
    if (ssm->in_bias) {
        struct ssm_widths wide = widths_of(c);
        plan_weight_id bias = plan_builder_vector(b, wide.gates + wide.conv + wide.steps,
                                                  "blk.%u.ssm_in.bias", layer);
        if (!is_one(whole))
            plan_ops_scale(b, projected, whole);
        plan_ops_bias_add(b, projected, (struct linear_weights){bias, PLAN_NONE, PLAN_NONE});
        whole = 1.0f;
    }
    bool scales = false;
    for (uint32_t part = 0; part < SCALE_PARTS_MAX; part++) {
        parts.scales[part] = ssm->factors[part] * whole;
        scales |= !is_one(parts.scales[part]);
    }
    if (scales)
        plan_ops_scale_parts(b, projected, parts);
}

void ssm_blocks_list(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                     plan_tensor_id normed, const struct ssm_tensors *t, plan_tensor_id gated)
{
    const struct ssm_config *ssm = &c->ssm;
    struct ssm_widths wide = widths_of(c);
    plan_weight_id in = plan_builder_matrix(b, wide.gates + wide.conv + wide.steps, c->hidden,
                                            "blk.%u.ssm_in.weight", layer);
    plan_weight_id taps =
        plan_builder_taps(b, wide.conv, c->conv_taps, "blk.%u.ssm_conv1d.weight", layer);
    plan_weight_id conv_bias = PLAN_NONE, norm = PLAN_NONE;
    if (ssm->conv_bias)
        conv_bias = plan_builder_vector(b, wide.conv, "blk.%u.ssm_conv1d.bias", layer);
    /* GGUF has columns of one number, and a norm's groups as rows. */
    struct linear_weights scan = {
        plan_builder_flat(b, 1, ssm->heads, "blk.%u.ssm_a", layer),
        plan_builder_vector(b, ssm->heads, "blk.%u.ssm_dt.bias", layer),
        plan_builder_flat(b, 1, ssm->heads, "blk.%u.ssm_d", layer),
    };
    if (ssm->norm != SSM_NO_NORM)
        norm = plan_builder_flat(b, 1, wide.gates, "blk.%u.ssm_norm.weight", layer);

    plan_ops_linear(b, normed, (struct linear_weights){in, PLAN_NONE, PLAN_NONE}, t->projected);
    list_factors(b, c, layer, t->projected);
    plan_ops_short_conv_bias(
        b, t->projected, taps, conv_bias,
        (struct short_conv_params){.form = SHORT_CONV_SILU, .layer = layer, .offset = wide.gates},
        t->conv);
    plan_ops_ssm_scan(b, t->conv, t->projected, scan, layer, t->scanned);
    plan_ops_group_norm_gate(b, t->scanned, t->projected, norm, gated);
}

void ssm_blocks_list_output(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                            plan_tensor_id gated, plan_tensor_id branch, plan_tensor_id residual)
{
    plan_weight_id out =
        plan_builder_matrix(b, c->hidden, ssm_blocks_columns(c), "blk.%u.ssm_out.weight", layer);
    struct linear_weights bias = {PLAN_NONE, PLAN_NONE, PLAN_NONE};
    if (c->ssm.out_bias)
        bias.first = plan_builder_vector(b, c->hidden, "blk.%u.ssm_out.bias", layer);
    plan_ops_project(b, gated, out, bias.first, c->ssm.out_factor, branch, residual);
}
