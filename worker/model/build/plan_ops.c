/*
 * Spells the op literals once, so that a family's file shows what differs from other families
 * instead of braces. Nothing is checked here: plan_builder_append() checks each op.
 */
#include "worker/model/build/plan_ops.h"

#include <math.h>

struct qkv_slices plan_ops_qkv_slices(const struct model_config *config)
{
    uint32_t query_columns = config->heads * config->head_dim;
    uint32_t kv_columns = config->kv_heads * config->head_dim;
    return (struct qkv_slices){
        .queries = {0, config->heads, config->head_dim},
        .keys = {query_columns, config->kv_heads, config->head_dim},
        .values = {query_columns + kv_columns, config->kv_heads, config->head_dim},
        .columns = query_columns + 2 * kv_columns,
    };
}

struct qkv_slices plan_ops_layer_slices(const struct model_config *config, uint32_t layer)
{
    uint32_t head_dim = model_config_head_dim(config, layer);
    bool stores = config->layer[layer].cache_back == 0 && !config->borrows_caches;
    uint32_t kv_heads = stores ? model_config_kv_heads(config, layer) : 0;
    uint32_t query_columns = config->heads * head_dim, kv_columns = kv_heads * head_dim;
    return (struct qkv_slices){
        .queries = {0, config->heads, head_dim},
        .keys = {query_columns, kv_heads, head_dim},
        .values = {query_columns + kv_columns, kv_heads, head_dim},
        .columns = query_columns + 2 * kv_columns,
    };
}

/* An op with up to two inputs and one weight; callers add parameters and further weights. */
static struct plan_op new_op(enum op_stem stem, plan_tensor_id x, plan_tensor_id y,
                             plan_weight_id weight, plan_tensor_id out)
{
    return (struct plan_op){
        .stem = stem,
        .inputs = {x, y},
        .output = out,
        .weights = {weight, PLAN_NONE, PLAN_NONE},
    };
}

void plan_ops_embed_rows(struct plan_builder *b, plan_weight_id weight, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_embed_rows, PLAN_NONE, PLAN_NONE, weight, out);
    op.params.embed_rows.scale = plan_builder_config(b)->embedding_scale;
    op.params.embed_rows.features = true;
    plan_builder_append(b, op);
}

void plan_ops_embed_rows_scaled(struct plan_builder *b, plan_weight_id weight, float scale,
                                plan_tensor_id out)
{
    struct plan_op op = new_op(OP_embed_rows, PLAN_NONE, PLAN_NONE, weight, out);
    op.params.embed_rows.scale = scale;
    op.params.embed_rows.image_token = plan_builder_config(b)->image_token;
    plan_builder_append(b, op);
}

void plan_ops_embed_places(struct plan_builder *b, plan_weight_id weight, enum row_index index,
                           uint32_t offset, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_embed_rows, PLAN_NONE, PLAN_NONE, weight, out);
    op.params.embed_rows =
        (struct embed_rows_params){.scale = 1.0f, .index = index, .offset = offset};
    plan_builder_append(b, op);
}

void plan_ops_rms_norm(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                       plan_tensor_id out)
{
    struct plan_op op = new_op(OP_rms_norm, x, PLAN_NONE, weight, out);
    op.params.rms_norm.epsilon = plan_builder_config(b)->norm_epsilon;
    op.params.rms_norm.weight_offset = plan_builder_config(b)->norm_weight_offset;
    plan_builder_append(b, op);
}

void plan_ops_layer_norm(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                         plan_tensor_id out)
{
    plan_ops_layer_norm_epsilon(b, x, weight, plan_builder_config(b)->norm_epsilon, out);
}

void plan_ops_layer_norm_epsilon(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                                 float epsilon, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_layer_norm, x, PLAN_NONE, weight, out);
    op.params.layer_norm.epsilon = epsilon;
    op.params.layer_norm.weight_offset = plan_builder_config(b)->norm_weight_offset;
    plan_builder_append(b, op);
}

void plan_ops_rms_norm_add(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                           plan_tensor_id y)
{
    struct plan_op op = new_op(OP_rms_norm_add, x, y, weight, y);
    op.params.rms_norm_add.epsilon = plan_builder_config(b)->norm_epsilon;
    op.params.rms_norm_add.weight_offset = plan_builder_config(b)->norm_weight_offset;
    plan_builder_append(b, op);
}

void plan_ops_head_norm(struct plan_builder *b, plan_tensor_id x, struct column_slice slice,
                        plan_weight_id weight)
{
    plan_ops_head_norm_scaled(b, x, slice, weight, 1.0f);
}

void plan_ops_head_norm_scaled(struct plan_builder *b, plan_tensor_id x, struct column_slice slice,
                               plan_weight_id weight, float scale)
{
    struct plan_op op = new_op(OP_head_norm, x, PLAN_NONE, weight, x);
    op.params.head_norm.slice = slice;
    op.params.head_norm.epsilon = plan_builder_config(b)->norm_epsilon / (scale * scale);
    op.params.head_norm.weight_offset =
        weight == PLAN_NONE ? 0.0f : plan_builder_config(b)->norm_weight_offset;
    plan_builder_append(b, op);
}

void plan_ops_head_norm_epsilon(struct plan_builder *b, plan_tensor_id x, struct column_slice slice,
                                plan_weight_id weight, float epsilon)
{
    struct plan_op op = new_op(OP_head_norm, x, PLAN_NONE, weight, x);
    op.params.head_norm.slice = slice;
    op.params.head_norm.epsilon = epsilon;
    plan_builder_append(b, op);
}

void plan_ops_rope(struct plan_builder *b, plan_tensor_id x, struct column_slice slice,
                   uint32_t layer)
{
    struct plan_op op = new_op(OP_rope, x, PLAN_NONE, PLAN_NONE, x);
    op.params.rope.slice = slice;
    op.params.rope.rope = plan_builder_config(b)->layer[layer].rope;
    plan_builder_append(b, op);
}

void plan_ops_linear(struct plan_builder *b, plan_tensor_id x, struct linear_weights weights,
                     plan_tensor_id out)
{
    struct plan_op op = new_op(OP_linear, x, PLAN_NONE, weights.first, out);
    op.weights[1] = weights.second;
    op.weights[2] = weights.third;
    plan_builder_append(b, op);
}

void plan_ops_linear_add(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                         plan_tensor_id y)
{
    plan_builder_append(b, new_op(OP_linear_add, x, y, weight, y));
}

void plan_ops_kv_write(struct plan_builder *b, plan_tensor_id qkv, struct qkv_slices slices,
                       uint32_t layer)
{
    struct plan_op op = new_op(OP_kv_write, qkv, PLAN_NONE, PLAN_NONE, PLAN_NONE);
    op.params.kv_write.keys = slices.keys;
    op.params.kv_write.values = slices.values;
    op.params.kv_write.layer = layer;
    plan_builder_append(b, op);
}

void plan_ops_attention(struct plan_builder *b, plan_tensor_id qkv, struct qkv_slices slices,
                        uint32_t layer, plan_tensor_id out)
{
    plan_ops_attention_sinks(b, qkv, slices, layer, PLAN_NONE, out);
}

void plan_ops_attention_sinks(struct plan_builder *b, plan_tensor_id qkv, struct qkv_slices slices,
                              uint32_t layer, plan_weight_id sinks, plan_tensor_id out)
{
    const struct model_config *config = plan_builder_config(b);
    struct plan_op op = new_op(OP_attention, qkv, PLAN_NONE, sinks, out);
    op.params.attention.queries = slices.queries;
    op.params.attention.kv_heads = model_config_kv_heads(config, layer);
    op.params.attention.layer = model_config_cache(config, layer);
    op.params.attention.near = config->layer[layer].near;
    op.params.attention.window =
        op.params.attention.near > 0 ? op.params.attention.near + 1 : config->layer[layer].window;
    op.params.attention.scale = config->attention_scale;
    op.params.attention.soft_cap = config->attention_soft_cap;
    op.params.attention.causal = config->layer[layer].causal;
    plan_builder_append(b, op);
}

void plan_ops_gate(struct plan_builder *b, plan_tensor_id x, enum gate_activation activation,
                   plan_tensor_id out)
{
    struct plan_op op = new_op(OP_gate, x, PLAN_NONE, PLAN_NONE, out);
    op.params.gate.activation = activation;
    plan_builder_append(b, op);
}

void plan_ops_bias_add(struct plan_builder *b, plan_tensor_id x, struct linear_weights biases)
{
    struct plan_op op = new_op(OP_bias_add, x, PLAN_NONE, biases.first, x);
    op.weights[1] = biases.second;
    op.weights[2] = biases.third;
    plan_builder_append(b, op);
}

void plan_ops_short_conv(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                         struct short_conv_params params, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_short_conv, x, PLAN_NONE, weight, out);
    op.params.short_conv = params;
    plan_builder_append(b, op);
}

void plan_ops_short_conv_bias(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                              plan_weight_id bias, struct short_conv_params params,
                              plan_tensor_id out)
{
    struct plan_op op = new_op(OP_short_conv, x, PLAN_NONE, weight, out);
    op.weights[1] = bias;
    op.params.short_conv = params;
    plan_builder_append(b, op);
}

void plan_ops_ssm_scan(struct plan_builder *b, plan_tensor_id x, plan_tensor_id projected,
                       struct linear_weights weights, uint32_t layer, plan_tensor_id out)
{
    const struct ssm_config *ssm = &plan_builder_config(b)->ssm;
    uint32_t columns = ssm->heads * ssm->head_dim;
    struct plan_op op = new_op(OP_ssm_scan, x, projected, weights.first, out);
    op.weights[1] = weights.second;
    op.weights[2] = weights.third;
    op.params.ssm_scan = (struct ssm_scan_params){
        .heads = ssm->heads,
        .head_dim = ssm->head_dim,
        .groups = ssm->groups,
        .state = ssm->state,
        .layer = layer,
        .steps_offset = 2 * columns + 2 * ssm->groups * ssm->state,
        .rate_is_log = ssm->rate_is_log,
        .least_step = ssm->least_step,
        .most_step = ssm->most_step,
    };
    plan_builder_append(b, op);
}

void plan_ops_group_norm_gate(struct plan_builder *b, plan_tensor_id x, plan_tensor_id projected,
                              plan_weight_id weight, plan_tensor_id out)
{
    const struct ssm_config *ssm = &plan_builder_config(b)->ssm;
    struct plan_op op = new_op(OP_group_norm_gate, x, projected, weight, out);
    op.params.group_norm_gate = (struct group_norm_gate_params){
        .gates = {0, ssm->groups, ssm->heads / ssm->groups * ssm->head_dim},
        .norm_first = ssm->norm == SSM_NORM_BEFORE_GATE,
        .epsilon = ssm->norm_epsilon,
    };
    plan_builder_append(b, op);
}

void plan_ops_scale_parts(struct plan_builder *b, plan_tensor_id x,
                          struct scale_parts_params params)
{
    struct plan_op op = new_op(OP_scale_parts, x, PLAN_NONE, PLAN_NONE, x);
    op.params.scale_parts = params;
    plan_builder_append(b, op);
}

void plan_ops_gated_delta(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y,
                          struct linear_weights rate_and_bias, uint32_t layer, plan_tensor_id out)
{
    const struct delta_config *delta = &plan_builder_config(b)->delta;
    struct plan_op op = new_op(OP_gated_delta, x, y, rate_and_bias.first, out);
    op.weights[1] = rate_and_bias.second;
    op.params.gated_delta = (struct gated_delta_params){.key_heads = delta->key_heads,
                                                        .value_heads = delta->value_heads,
                                                        .key_dim = delta->key_dim,
                                                        .value_dim = delta->value_dim,
                                                        .layer = layer,
                                                        .heads_alternate = delta->heads_alternate,
                                                        .rate_is_log = delta->rate_is_log};
    plan_builder_append(b, op);
}

void plan_ops_head_norm_gate(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y,
                             struct column_slice gates, plan_weight_id weight, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_head_norm_gate, x, y, weight, out);
    op.params.head_norm_gate.gates = gates;
    op.params.head_norm_gate.epsilon = plan_builder_config(b)->norm_epsilon;
    plan_builder_append(b, op);
}

void plan_ops_take_queries(struct plan_builder *b, plan_tensor_id x, plan_tensor_id out)
{
    const struct model_config *config = plan_builder_config(b);
    struct plan_op op = new_op(OP_take_queries, x, PLAN_NONE, PLAN_NONE, out);
    op.params.take_queries = (struct take_queries_params){config->heads, config->head_dim};
    plan_builder_append(b, op);
}

void plan_ops_gate_heads(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y)
{
    const struct model_config *config = plan_builder_config(b);
    struct plan_op op = new_op(OP_gate_heads, x, y, PLAN_NONE, y);
    op.params.gate_heads = (struct gate_heads_params){config->heads, config->head_dim};
    plan_builder_append(b, op);
}

void plan_ops_position_scale(struct plan_builder *b, plan_tensor_id x, struct column_slice slice)
{
    const struct model_config *config = plan_builder_config(b);
    struct plan_op op = new_op(OP_position_scale, x, PLAN_NONE, PLAN_NONE, x);
    op.params.position_scale.slice = slice;
    op.params.position_scale.period_tokens = config->position_scale_tokens;
    op.params.position_scale.beta = config->position_scale_beta;
    plan_builder_append(b, op);
}

static struct moe_route_params route_params(const struct plan_builder *b, bool softmax_chosen)
{
    const struct expert_config *experts = &plan_builder_config(b)->experts;
    return (struct moe_route_params){.chosen = experts->chosen,
                                     .softmax_chosen = softmax_chosen,
                                     .normalized = experts->normalized,
                                     .scale = experts->scale > 0.0f ? experts->scale : 1.0f,
                                     .weighed = experts->weighed,
                                     .sigmoid = experts->sigmoid,
                                     .groups = experts->groups,
                                     .groups_chosen = experts->groups_chosen,
                                     .group_best = experts->group_best,
                                     .epsilon = experts->epsilon};
}

void plan_ops_moe_route(struct plan_builder *b, plan_tensor_id x, bool softmax_chosen,
                        plan_weight_id scales, plan_tensor_id route)
{
    struct plan_op op = new_op(OP_moe_route, x, PLAN_NONE, scales, route);
    op.params.moe_route = route_params(b, softmax_chosen);
    plan_builder_append(b, op);
}

void plan_ops_moe_route_of(struct plan_builder *b, plan_tensor_id x, enum expert_rows rows,
                           plan_weight_id bias, plan_tensor_id route)
{
    const struct expert_config *experts = &plan_builder_config(b)->experts;
    struct plan_op op = new_op(OP_moe_route, x, PLAN_NONE, bias, route);
    op.params.moe_route = route_params(b, false);
    op.params.moe_route.rows = rows;
    op.params.moe_route.edges[0] = experts->image_edges[0];
    op.params.moe_route.edges[1] = experts->image_edges[1];
    plan_builder_append(b, op);
}

void plan_ops_head_route(struct plan_builder *b, plan_tensor_id route)
{
    plan_builder_append(b, new_op(OP_head_route, PLAN_NONE, PLAN_NONE, PLAN_NONE, route));
}

void plan_ops_take_heads(struct plan_builder *b, plan_tensor_id x, struct take_heads_params params,
                         plan_tensor_id out)
{
    struct plan_op op = new_op(OP_take_heads, x, PLAN_NONE, PLAN_NONE, out);
    op.params.take_heads = params;
    plan_builder_append(b, op);
}

void plan_ops_join_heads(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y,
                         struct join_heads_params params, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_join_heads, x, y, PLAN_NONE, out);
    op.params.join_heads = params;
    plan_builder_append(b, op);
}

void plan_ops_moe_linear(struct plan_builder *b, plan_tensor_id x, plan_tensor_id route,
                         struct linear_weights stacks, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_moe_linear, x, route, stacks.first, out);
    op.weights[1] = stacks.second;
    op.weights[2] = stacks.third;
    plan_builder_append(b, op);
}

void plan_ops_moe_gate(struct plan_builder *b, plan_tensor_id x, plan_tensor_id route,
                       struct linear_weights biases, struct moe_gate_params params,
                       plan_tensor_id out)
{
    struct plan_op op = new_op(OP_moe_gate, x, route, biases.first, out);
    op.weights[1] = biases.second;
    op.params.moe_gate = params;
    plan_builder_append(b, op);
}

void plan_ops_moe_combine(struct plan_builder *b, plan_tensor_id x, plan_tensor_id route,
                          plan_weight_id bias, bool add, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_moe_combine, x, route, bias, out);
    op.params.moe_combine.add = add;
    plan_builder_append(b, op);
}

void plan_ops_gather_rows(struct plan_builder *b, plan_tensor_id x, plan_tensor_id out)
{
    plan_builder_append(b, new_op(OP_gather_rows, x, PLAN_NONE, PLAN_NONE, out));
}

void plan_ops_soft_cap(struct plan_builder *b, plan_tensor_id logits)
{
    const struct model_config *config = plan_builder_config(b);
    struct plan_op op = new_op(OP_soft_cap, logits, PLAN_NONE, PLAN_NONE, logits);
    op.params.soft_cap.scale = config->logit_scale;
    op.params.soft_cap.cap = config->logit_soft_cap;
    if (config->logit_scale != 1.0f || config->logit_soft_cap != 0.0f)
        plan_builder_append(b, op);
}

void plan_ops_moe_shared(struct plan_builder *b, plan_tensor_id x, plan_tensor_id score,
                         plan_tensor_id out)
{
    plan_builder_append(b, new_op(OP_moe_shared, x, score, PLAN_NONE, out));
}

void plan_ops_gate_with(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y, uint32_t offset,
                        enum gate_activation activation, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_gate_with, x, y, PLAN_NONE, out);
    op.params.gate_with.activation = activation;
    op.params.gate_with.offset = offset;
    plan_builder_append(b, op);
}

void plan_ops_add_rows(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y, float scale,
                       plan_tensor_id out)
{
    struct plan_op op = new_op(OP_add_rows, x, y, PLAN_NONE, out);
    op.params.add_rows.scale = scale;
    plan_builder_append(b, op);
}

void plan_ops_scale_columns(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight)
{
    plan_builder_append(b, new_op(OP_scale_columns, x, PLAN_NONE, weight, x));
}

void plan_ops_scale(struct plan_builder *b, plan_tensor_id x, float scale)
{
    struct plan_op op = new_op(OP_soft_cap, x, PLAN_NONE, PLAN_NONE, x);
    op.params.soft_cap.scale = scale;
    plan_builder_append(b, op);
}

void plan_ops_project(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                      plan_weight_id bias, float factor, plan_tensor_id branch, plan_tensor_id y)
{
    const struct linear_weights biases = {bias, PLAN_NONE, PLAN_NONE};
    bool scales = fabsf(factor - 1.0f) > 0.0f;
    if (bias == PLAN_NONE || !scales) {
        if (scales)
            plan_ops_scale(b, x, factor);
        plan_ops_linear_add(b, x, weight, y);
        if (bias != PLAN_NONE)
            plan_ops_bias_add(b, y, biases);
        return;
    }
    plan_ops_linear(b, x, (struct linear_weights){weight, PLAN_NONE, PLAN_NONE}, branch);
    plan_ops_bias_add(b, branch, biases);
    plan_ops_scale(b, branch, factor);
    plan_ops_add_rows(b, y, branch, 1.0f, y);
}

void plan_ops_tanh(struct plan_builder *b, plan_tensor_id x, float scale)
{
    struct plan_op op = new_op(OP_soft_cap, x, PLAN_NONE, PLAN_NONE, x);
    op.params.soft_cap.scale = scale;
    op.params.soft_cap.cap = 1.0f;
    plan_builder_append(b, op);
}

void plan_ops_rms_norm_scaled(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                              float scale, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_rms_norm, x, PLAN_NONE, weight, out);
    op.params.rms_norm.epsilon = plan_builder_config(b)->norm_epsilon / (scale * scale);
    op.params.rms_norm.weight_offset = plan_builder_config(b)->norm_weight_offset;
    plan_builder_append(b, op);
}

void plan_ops_stream_take(struct plan_builder *b, plan_tensor_id x, uint32_t stream,
                          plan_tensor_id out)
{
    struct plan_op op = new_op(OP_stream_take, x, PLAN_NONE, PLAN_NONE, out);
    op.params.stream_take.stream = stream;
    plan_builder_append(b, op);
}

void plan_ops_stream_mix(struct plan_builder *b, plan_tensor_id x, plan_tensor_id coefficients,
                         uint32_t streams, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_stream_mix, x, coefficients, PLAN_NONE, out);
    op.params.stream_mix.streams = streams;
    plan_builder_append(b, op);
}

void plan_ops_stream_correct(struct plan_builder *b, plan_tensor_id x, plan_tensor_id coefficients,
                             struct stream_correct_params params, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_stream_correct, x, coefficients, PLAN_NONE, out);
    op.params.stream_correct = params;
    plan_builder_append(b, op);
}

void plan_ops_stream_add(struct plan_builder *b, plan_tensor_id x, uint32_t first,
                         plan_tensor_id out)
{
    struct plan_op op = new_op(OP_stream_add, x, PLAN_NONE, PLAN_NONE, out);
    op.params.stream_add.first = first;
    plan_builder_append(b, op);
}

void plan_ops_stream_match(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y,
                           struct stream_match_params params, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_stream_match, x, y, PLAN_NONE, out);
    op.params.stream_match = params;
    plan_builder_append(b, op);
}

void plan_ops_stream_cut(struct plan_builder *b, plan_tensor_id x, uint32_t streams,
                         float deviations)
{
    struct plan_op op = new_op(OP_stream_cut, x, PLAN_NONE, PLAN_NONE, x);
    op.params.stream_cut.streams = streams;
    op.params.stream_cut.deviations = deviations;
    plan_builder_append(b, op);
}

void plan_ops_patch_rows(struct plan_builder *b, struct patch_rows_params params,
                         plan_tensor_id out)
{
    struct plan_op op = new_op(OP_patch_rows, PLAN_NONE, PLAN_NONE, PLAN_NONE, out);
    op.params.patch_rows = params;
    plan_builder_append(b, op);
}

void plan_ops_patch_positions(struct plan_builder *b, plan_tensor_id x, plan_weight_id table,
                              plan_weight_id lead, struct patch_positions_params params)
{
    struct plan_op op = new_op(OP_patch_positions, x, PLAN_NONE, table, x);
    op.weights[1] = lead;
    op.params.patch_positions = params;
    plan_builder_append(b, op);
}

void plan_ops_patch_rope(struct plan_builder *b, plan_tensor_id qkv, struct qkv_slices slices)
{
    const struct model_config *config = plan_builder_config(b);
    const struct column_slice *rotated[] = {&slices.queries, &slices.keys};
    for (uint32_t i = 0; i < 2; i++) {
        struct plan_op op = new_op(OP_rope, qkv, PLAN_NONE, PLAN_NONE, qkv);
        op.params.rope.slice = *rotated[i];
        for (uint32_t rope = 0; rope < config->rope_count; rope++) {
            op.params.rope.rope = rope;
            plan_builder_append(b, op);
            op.params.rope.slice.offset += config->ropes[rope].dims;
        }
    }
}

void plan_ops_patch_attention(struct plan_builder *b, plan_tensor_id qkv, struct qkv_slices slices,
                              bool windowed, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_patch_attention, qkv, PLAN_NONE, PLAN_NONE, out);
    op.params.patch_attention =
        (struct patch_attention_params){.queries = slices.queries,
                                        .keys = slices.keys.offset,
                                        .values = slices.values.offset,
                                        .windowed = windowed,
                                        .scale = plan_builder_config(b)->attention_scale};
    plan_builder_append(b, op);
}

void plan_ops_tile_attention(struct plan_builder *b, plan_tensor_id qkv,
                             struct tile_attention_params params, struct linear_weights weights,
                             plan_tensor_id out)
{
    struct plan_op op = new_op(OP_tile_attention, qkv, PLAN_NONE, weights.first, out);
    op.weights[1] = weights.second;
    op.weights[2] = weights.third;
    op.params.tile_attention = params;
    plan_builder_append(b, op);
}

void plan_ops_neighbour_rows(struct plan_builder *b, plan_tensor_id x, uint32_t step,
                             plan_tensor_id out)
{
    struct plan_op op = new_op(OP_neighbour_rows, x, PLAN_NONE, PLAN_NONE, out);
    op.params.neighbour_rows.step = step;
    plan_builder_append(b, op);
}

void plan_ops_xielu(struct plan_builder *b, plan_tensor_id x, struct xielu_params params)
{
    struct plan_op op = new_op(OP_activate, x, PLAN_NONE, PLAN_NONE, x);
    op.params.activate = (struct activate_params){ACTIVATION_XIELU, params};
    plan_builder_append(b, op);
}

void plan_ops_activate(struct plan_builder *b, plan_tensor_id x, enum activation activation)
{
    struct plan_op op = new_op(OP_activate, x, PLAN_NONE, PLAN_NONE, x);
    op.params.activate.activation = activation;
    plan_builder_append(b, op);
}

void plan_ops_sound_rows(struct plan_builder *b, uint32_t tap, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_sound_rows, PLAN_NONE, PLAN_NONE, PLAN_NONE, out);
    op.params.sound_rows.tap = tap;
    plan_builder_append(b, op);
}

void plan_ops_sound_taps(struct plan_builder *b, plan_tensor_id x, uint32_t tap, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_sound_taps, x, PLAN_NONE, PLAN_NONE, out);
    op.params.sound_taps.tap = tap;
    plan_builder_append(b, op);
}

void plan_ops_clip_columns(struct plan_builder *b, plan_tensor_id x,
                           struct clip_columns_params params, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_clip_columns, x, PLAN_NONE, PLAN_NONE, out);
    op.params.clip_columns = params;
    plan_builder_append(b, op);
}

void plan_ops_join_rows(struct plan_builder *b, plan_tensor_id x, uint32_t count,
                        plan_tensor_id out)
{
    struct plan_op op = new_op(OP_join_rows, x, PLAN_NONE, PLAN_NONE, out);
    op.params.join_rows.count = count;
    plan_builder_append(b, op);
}

void plan_ops_join_padded(struct plan_builder *b, plan_tensor_id x,
                          struct join_padded_params params, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_join_padded, x, PLAN_NONE, PLAN_NONE, out);
    op.params.join_padded = params;
    plan_builder_append(b, op);
}

void plan_ops_pool_rows(struct plan_builder *b, plan_tensor_id x, struct pool_rows_params params,
                        plan_tensor_id out)
{
    struct plan_op op = new_op(OP_pool_rows, x, PLAN_NONE, PLAN_NONE, out);
    op.params.pool_rows = params;
    plan_builder_append(b, op);
}

void plan_ops_feature_write(struct plan_builder *b, plan_tensor_id x, uint32_t part)
{
    struct plan_op op = new_op(OP_feature_write, x, PLAN_NONE, PLAN_NONE, PLAN_NONE);
    op.params.feature_write.part = part;
    plan_builder_append(b, op);
}

void plan_ops_feature_place(struct plan_builder *b, plan_tensor_id x, plan_weight_id newline,
                            enum feature_kind kind)
{
    struct plan_op op = new_op(OP_feature_place, x, PLAN_NONE, newline, PLAN_NONE);
    op.params.feature_place.kind = kind;
    plan_builder_append(b, op);
}

void plan_ops_feature_add(struct plan_builder *b, plan_tensor_id residual, uint32_t layer)
{
    struct plan_op op = new_op(OP_feature_add, residual, PLAN_NONE, PLAN_NONE, residual);
    op.params.feature_add.part = layer + 1;
    if (layer < plan_builder_config(b)->deepstack_layers)
        plan_builder_append(b, op);
}

void plan_ops_cross_attention(struct plan_builder *b, plan_tensor_id x, uint32_t number,
                              plan_tensor_id out)
{
    const struct model_config *config = plan_builder_config(b);
    struct plan_op op = new_op(OP_cross_attention, x, PLAN_NONE, PLAN_NONE, out);
    op.params.cross_attention = (struct cross_attention_params){
        .queries = {0, config->heads, config->head_dim},
        .kv_heads = config->kv_heads,
        .layer = number,
        .scale = config->attention_scale,
    };
    plan_builder_append(b, op);
}

void plan_ops_rms_norm_offset(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                              float offset, plan_tensor_id out)
{
    struct plan_op op = new_op(OP_rms_norm, x, PLAN_NONE, weight, out);
    op.params.rms_norm.epsilon = plan_builder_config(b)->norm_epsilon;
    op.params.rms_norm.weight_offset = offset;
    plan_builder_append(b, op);
}

void plan_ops_patch_table(struct plan_builder *b, plan_tensor_id x, plan_weight_id table,
                          struct patch_table_params params)
{
    struct plan_op op = new_op(OP_patch_table, x, PLAN_NONE, table, x);
    op.params.patch_table = params;
    plan_builder_append(b, op);
}

void plan_ops_seeing_rows(struct plan_builder *b, plan_tensor_id x)
{
    plan_builder_append(b, new_op(OP_seeing_rows, x, PLAN_NONE, PLAN_NONE, x));
}
