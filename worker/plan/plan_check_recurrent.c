/*
 * The shape rules of ops of recurrent layers: those that update state, and the norms, gates and factors
 * beside them.
 */
#include "worker/plan/plan_check_rules.h"

/* A layer that keeps state, for ops that update it. */
static const char *check_layer_state(const struct op_view *v, uint32_t layer)
{
    if (v->x->rows != PLAN_ROWS_STEP || v->out->rows != PLAN_ROWS_STEP)
        return "only step rows have positions";
    if (layer >= LIMIT_LAYERS || layer >= v->plan->config.layers)
        return "the model has no such layer";
    if (v->plan->state.layer_index[layer] == STATE_LAYER_NONE)
        return "the layer keeps no state";
    return NULL;
}

/* Whether weight `w` of the op, if there is one, is one row of so many columns. */
static bool is_vector(const struct op_view *v, size_t w, uint64_t columns)
{
    if (v->op->weights[w] == PLAN_NONE)
        return true;
    const struct plan_weight *weight = &v->plan->weights[v->op->weights[w]];
    return weight->rows == 1 && weight->columns == columns;
}

const char *check_short_conv(const struct op_view *v)
{
    const struct short_conv_params *params = &v->op->params.short_conv;
    const char *wrong = check_layer_state(v, params->layer);
    uint64_t channels = v->out->columns, taps = v->w->columns;
    if (wrong)
        return wrong;
    if (v->w->rows != channels || taps < 2 || taps > LIMIT_CONV_TAPS)
        return "the weight is not [output columns, taps]";
    if ((taps - 1) * channels != v->plan->state.conv_floats)
        return "the layer's state is of another shape";
    if (params->form == SHORT_CONV_GATED ? v->x->columns != 3 * channels
                                         : v->x->columns < (uint64_t)params->offset + channels)
        return "the input's columns do not fit the output's";
    if (v->op->weights[1] != PLAN_NONE && params->form == SHORT_CONV_GATED)
        return "the gated form has no bias";
    if (!is_vector(v, 1, channels))
        return "the bias is not one value per channel";
    return v->x == v->out ? "the output overwrites the input" : NULL;
}

const char *check_gated_delta(const struct op_view *v)
{
    const struct gated_delta_params *p = &v->op->params.gated_delta;
    const struct plan_weight *bias = &v->plan->weights[v->op->weights[1]];
    const char *wrong = check_layer_state(v, p->layer);
    uint64_t keys = (uint64_t)p->key_heads * p->key_dim;
    uint64_t values = (uint64_t)p->value_heads * p->value_dim;
    if (wrong)
        return wrong;
    if (p->key_heads == 0 || p->value_heads % p->key_heads != 0)
        return "value heads do not share the key heads evenly";
    if (p->key_dim == 0 || p->key_dim > LIMIT_HEAD_DIM || p->value_dim == 0 ||
        p->value_dim > LIMIT_HEAD_DIM)
        return "the head sizes are out of range";
    if (values * p->key_dim != v->plan->state.delta_floats)
        return "the layer's state is of another shape";
    if (v->x->columns != 2 * keys + values || v->y->columns != 2 * (uint64_t)p->value_heads ||
        v->y->rows != PLAN_ROWS_STEP)
        return "the inputs are not queries, keys and values, and two values per value head";
    if (v->w->rows != 1 || v->w->columns != p->value_heads || bias->rows != 1 ||
        bias->columns != p->value_heads)
        return "the weights are not one value per value head";
    return v->out->columns != values || v->out == v->x || v->out == v->y
               ? "the output is not another tensor of [step rows, values]"
               : NULL;
}

const char *check_ssm_scan(const struct op_view *v)
{
    const struct ssm_scan_params *p = &v->op->params.ssm_scan;
    const char *wrong = check_layer_state(v, p->layer);
    uint64_t values = (uint64_t)p->heads * p->head_dim;
    if (wrong)
        return wrong;
    if (p->groups == 0 || p->heads == 0 || p->heads % p->groups != 0)
        return "heads do not share the groups evenly";
    if (p->head_dim == 0 || p->head_dim > LIMIT_HEAD_DIM || p->state == 0 ||
        p->state > LIMIT_HEAD_DIM)
        return "the head sizes are out of range";
    if (!(p->least_step >= 0.0f && p->least_step <= p->most_step))
        return "the bounds of steps are out of order";
    if (values * p->state != v->plan->state.delta_floats)
        return "the layer's state is of another shape";
    if (v->x->columns != values + 2 * (uint64_t)p->groups * p->state ||
        v->y->rows != PLAN_ROWS_STEP || v->y->columns < (uint64_t)p->steps_offset + p->heads)
        return "the inputs are not values and groups, and a step per head";
    if (!is_vector(v, 0, p->heads) || !is_vector(v, 1, p->heads) || !is_vector(v, 2, p->heads))
        return "the weights are not one value per head";
    return v->out->columns != values || v->out == v->x || v->out == v->y
               ? "the output is not another tensor of [step rows, values]"
               : NULL;
}

const char *check_group_norm_gate(const struct op_view *v)
{
    const struct group_norm_gate_params *params = &v->op->params.group_norm_gate;
    if (!same_shape(v->x, v->out) || v->y->rows != v->out->rows)
        return "inputs and output differ in shape";
    if (!slice_fits(&params->gates, v->y) ||
        (uint64_t)params->gates.heads * params->gates.head_dim != v->x->columns)
        return "the slice lies outside the second input, or is not of the first one's columns";
    if (v->y == v->out || v->x == v->out)
        return "the output overwrites an input";
    return v->w ? check_norm(v, v->x->columns, params->epsilon) : NULL;
}

const char *check_scale_parts(const struct op_view *v)
{
    const struct scale_parts_params *params = &v->op->params.scale_parts;
    uint64_t columns = 0;
    if (params->count == 0 || params->count > SCALE_PARTS_MAX)
        return "there are no parts, or too many";
    for (uint32_t part = 0; part < params->count; part++) {
        columns += params->columns[part];
        if (check_factor(params->scales[part]))
            return check_factor(params->scales[part]);
    }
    return columns == v->x->columns ? NULL : "the parts are not all columns";
}

const char *check_head_norm_gate(const struct op_view *v)
{
    const struct head_norm_gate_params *params = &v->op->params.head_norm_gate;
    if (!same_shape(v->x, v->out) || v->y->rows != v->out->rows)
        return "inputs and output differ in shape";
    if (!slice_fits(&params->gates, v->y) ||
        (uint64_t)params->gates.heads * params->gates.head_dim != v->x->columns)
        return "the slice lies outside the second input, or is not of the first one's columns";
    if (v->y == v->out)
        return "the output overwrites the gates";
    return check_norm(v, params->gates.head_dim, params->epsilon);
}
