/*
 *   x = embedding
 *   each layer:  q|k|v = W . n(x) [+ bias], q and k [normed,] each head rotated
 *                x += [norm of] Wo . attention(q, k, v)
 *                x += [norm of] Wdown . (activation(Wgate . n(x)) * Wup . n(x))
 *                or Wdown . activation(Wup . n(x)), or the layer's experts (expert_blocks.c)
 *   logits = Woutput . norm(x) [scaled and capped]
 *
 * n(x) is norm(x), or x itself in families that norm only the outputs of the halves. norm is
 * rms_norm, or layer_norm with or without a bias. If the halves are parallel, both read n(x) of the x
 * before the layer.
 *
 * Of the last layer's outputs, only the rows whose next token is needed are used. So those rows are
 * gathered after the last layer's attention, and its projections, the final norm and the vocabulary
 * matrix are computed for them alone.
 *
 * Only features that several families share belong here; the others go into the family's file.
 */
#include "worker/model/build/dense_blocks.h"

#include <stdio.h>

#include "proto/must.h"
#include "worker/model/build/ahead_blocks.h"

#define NORM_NAME_BYTES 64u

struct dense_tensors dense_blocks_add_tensors(struct plan_builder *b, const struct model_config *c,
                                              enum plan_rows rows)
{
    struct dense_tensors tensors = {
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .normed = plan_builder_tensor(b, rows, c->hidden),
        .attended = plan_builder_tensor(b, rows, c->heads * c->head_dim),
        .gate_up = plan_builder_tensor(b, rows, 2 * c->feed_forward),
        .gated = plan_builder_tensor(b, rows, c->feed_forward),
    };
    if (c->experts.count > 0)
        tensors.experts = expert_blocks_add_tensors(b, c, rows);
    return tensors;
}

static struct linear_weights qkv_matrices(struct plan_builder *b, const struct model_config *c,
                                          const struct dense_form *form, uint32_t layer)
{
    uint32_t q_rows = c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    if (form->joined_qkv)
        return (struct linear_weights){plan_builder_matrix(b, q_rows + 2 * kv_rows, c->hidden,
                                                           "blk.%u.attn_qkv.weight", layer),
                                       PLAN_NONE, PLAN_NONE};
    return (struct linear_weights){
        plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer),
        plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer),
        plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer),
    };
}

static struct linear_weights qkv_biases(struct plan_builder *b, const struct model_config *c,
                                        const struct dense_form *form, uint32_t layer)
{
    uint32_t q_rows = c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    if (form->joined_qkv)
        return (struct linear_weights){
            plan_builder_vector(b, q_rows + 2 * kv_rows, "blk.%u.attn_qkv.bias", layer), PLAN_NONE,
            PLAN_NONE};
    return (struct linear_weights){
        plan_builder_vector(b, q_rows, "blk.%u.attn_q.bias", layer),
        plan_builder_vector(b, kv_rows, "blk.%u.attn_k.bias", layer),
        plan_builder_vector(b, kv_rows, "blk.%u.attn_v.bias", layer),
    };
}

/* Norms x by the norm of that name. */
static void list_norm(struct plan_builder *b, const struct model_config *c,
                      const struct dense_form *form, plan_tensor_id x, const char *name,
                      plan_tensor_id out)
{
    plan_weight_id weight = plan_builder_vector(b, c->hidden, "%s.weight", name);
    if (!form->layer_norms) {
        plan_ops_rms_norm(b, x, weight, out);
        return;
    }
    plan_ops_layer_norm(b, x, weight, out);
    if (!form->norm_biases)
        return;
    plan_weight_id bias = plan_builder_vector(b, c->hidden, "%s.bias", name);
    plan_ops_bias_add(b, out, (struct linear_weights){bias, PLAN_NONE, PLAN_NONE});
}

/* The normed residual, or the residual itself if the form has no norm there. */
static plan_tensor_id list_input(struct plan_builder *b, const struct model_config *c,
                                 const struct dense_form *form, const char *norm_name,
                                 uint32_t layer, const struct dense_tensors *t)
{
    if (form->no_input_norms)
        return t->residual;
    char name[NORM_NAME_BYTES];
    snprintf(name, sizeof name, "blk.%u.%s", layer, norm_name);
    list_norm(b, c, form, t->residual, name, t->normed);
    return t->normed;
}

/* Norms queries and keys, each head alone or all of them as one. */
static void list_head_norms(struct plan_builder *b, const struct dense_form *form, uint32_t layer,
                            plan_tensor_id qkv, struct qkv_slices slices)
{
    if (form->whole_norms) {
        slices.queries = (struct column_slice){slices.queries.offset, 1,
                                               slices.queries.heads * slices.queries.head_dim};
        slices.keys =
            (struct column_slice){slices.keys.offset, 1, slices.keys.heads * slices.keys.head_dim};
    }
    plan_ops_head_norm(
        b, qkv, slices.queries,
        plan_builder_vector(b, slices.queries.head_dim, "blk.%u.attn_q_norm.weight", layer));
    plan_ops_head_norm(
        b, qkv, slices.keys,
        plan_builder_vector(b, slices.keys.head_dim, "blk.%u.attn_k_norm.weight", layer));
}

void dense_blocks_list_attention(struct plan_builder *b, const struct model_config *c,
                                 const struct dense_form *form, uint32_t layer,
                                 const struct dense_tensors *t, plan_tensor_id qkv)
{
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    plan_tensor_id input = list_input(b, c, form, "attn_norm", layer, t);
    plan_ops_linear(b, input, qkv_matrices(b, c, form, layer), qkv);
    if (form->qkv_bias || c->attention_bias)
        plan_ops_bias_add(b, qkv, qkv_biases(b, c, form, layer));
    /* Placed before the ops on heads, which a backend may fuse: scaling commutes with rotation, but
     * a norm would undo it. */
    bool normed = form->head_norms || form->whole_norms;
    must(c->position_scale_tokens == 0 || !normed);
    if (c->position_scale_tokens > 0)
        plan_ops_position_scale(b, qkv, slices.queries);
    if (normed && !form->norms_after_rope)
        list_head_norms(b, form, layer, qkv, slices);
    if (c->layer[layer].rope != ROPE_NONE) {
        plan_ops_rope(b, qkv, slices.queries, layer);
        plan_ops_rope(b, qkv, slices.keys, layer);
    }
    if (normed && form->norms_after_rope)
        list_head_norms(b, form, layer, qkv, slices);
    plan_ops_kv_write(b, qkv, slices, layer);
    plan_weight_id sinks = form->sinks
                               ? plan_builder_vector(b, c->heads, "blk.%u.attn_sinks.weight", layer)
                               : (plan_weight_id)PLAN_NONE;
    plan_ops_attention_sinks(b, qkv, slices, layer, sinks, t->attended);
}

void dense_blocks_list_output_bias(struct plan_builder *b, const struct model_config *c,
                                   uint32_t layer, plan_tensor_id residual)
{
    plan_weight_id bias = plan_builder_vector(b, c->hidden, "blk.%u.attn_output.bias", layer);
    plan_ops_bias_add(b, residual, (struct linear_weights){bias, PLAN_NONE, PLAN_NONE});
}

/* The last projection of a half. */
struct half_output {
    plan_tensor_id x;
    plan_weight_id matrix;
    plan_weight_id bias; /* or PLAN_NONE */
    const char *norm_name;
};

/* Projects x by the half's last matrix, norms it if the form says so, and adds it to the residual.
 */
static void list_add(struct plan_builder *b, const struct model_config *c,
                     const struct dense_form *form, const struct half_output *half, uint32_t layer,
                     const struct dense_tensors *t)
{
    struct linear_weights bias = {half->bias, PLAN_NONE, PLAN_NONE};
    must(!form->post_norms || !form->layer_norms);
    if (!form->post_norms) {
        plan_ops_linear_add(b, half->x, half->matrix, t->residual);
        if (half->bias != PLAN_NONE)
            plan_ops_bias_add(b, t->residual, bias);
        return;
    }
    plan_weight_id norm =
        plan_builder_vector(b, c->hidden, "blk.%u.%s.weight", layer, half->norm_name);
    plan_ops_linear(b, half->x, (struct linear_weights){half->matrix, PLAN_NONE, PLAN_NONE},
                    t->normed);
    if (half->bias != PLAN_NONE)
        plan_ops_bias_add(b, t->normed, bias);
    plan_ops_rms_norm_add(b, t->normed, norm, t->residual);
}

void dense_blocks_list_output(struct plan_builder *b, const struct model_config *c,
                              const struct dense_form *form, uint32_t layer,
                              const struct dense_tensors *t)
{
    struct half_output half = {.x = t->attended,
                               .matrix = plan_builder_matrix(b, c->hidden, c->heads * c->head_dim,
                                                             "blk.%u.attn_output.weight", layer),
                               .bias = PLAN_NONE,
                               .norm_name = "post_attention_norm"};
    if (form->output_bias || c->output_bias)
        half.bias = plan_builder_vector(b, c->hidden, "blk.%u.attn_output.bias", layer);
    list_add(b, c, form, &half, layer, t);
}

/* gated = activation(Wgate . input) * Wup . input */
static void list_gated(struct plan_builder *b, const struct model_config *c,
                       const struct dense_form *form, uint32_t layer, plan_tensor_id input,
                       const struct dense_tensors *t)
{
    uint32_t hidden = c->hidden, wide = c->feed_forward;
    struct linear_weights gate_up = {PLAN_NONE, PLAN_NONE, PLAN_NONE};
    struct linear_weights biases = gate_up;
    if (form->joined_gate_up) {
        gate_up.first = plan_builder_matrix(b, 2 * wide, hidden, "blk.%u.ffn_up.weight", layer);
    } else {
        gate_up.first = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
        gate_up.second = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    }
    plan_ops_linear(b, input, gate_up, t->gate_up);
    if (c->feed_forward_bias) {
        must(!form->joined_gate_up);
        biases.first = plan_builder_vector(b, wide, "blk.%u.ffn_gate.bias", layer);
        biases.second = plan_builder_vector(b, wide, "blk.%u.ffn_up.bias", layer);
        plan_ops_bias_add(b, t->gate_up, biases);
    }
    plan_ops_gate(b, t->gate_up, form->activation, t->gated);
}

/* gated = activation(Wup . input) */
static void list_ungated(struct plan_builder *b, const struct model_config *c,
                         const struct dense_form *form, uint32_t layer, plan_tensor_id input,
                         const struct dense_tensors *t)
{
    struct linear_weights up = {PLAN_NONE, PLAN_NONE, PLAN_NONE}, bias = up;
    up.first = plan_builder_matrix(b, c->feed_forward, c->hidden, "blk.%u.ffn_up.weight", layer);
    plan_ops_linear(b, input, up, t->gated);
    if (c->feed_forward_bias) {
        bias.first = plan_builder_vector(b, c->feed_forward, "blk.%u.ffn_up.bias", layer);
        plan_ops_bias_add(b, t->gated, bias);
    }
    if (form->activation_alone == ACTIVATION_XIELU)
        plan_ops_xielu(b, t->gated, form->xielu(b, c, layer));
    else
        plan_ops_activate(b, t->gated, form->activation_alone);
}

void dense_blocks_list_feed_forward(struct plan_builder *b, const struct model_config *c,
                                    const struct dense_form *form, uint32_t layer,
                                    const struct dense_tensors *t)
{
    const char *norm_name = form->feed_forward_norm ? form->feed_forward_norm : "ffn_norm";
    plan_tensor_id input = form->parallel ? t->normed : list_input(b, c, form, norm_name, layer, t);
    must(!form->parallel || (!form->post_norms && !form->no_input_norms && !c->experts.count));
    if (c->layer[layer].experts) {
        must(!form->post_norms && !form->no_input_norms);
        expert_blocks_list(b, c, &form->experts, layer, t->normed, &t->experts, t->residual);
        return;
    }
    if (form->ungated)
        list_ungated(b, c, form, layer, input, t);
    else
        list_gated(b, c, form, layer, input, t);
    struct half_output half = {.x = t->gated,
                               .matrix = plan_builder_matrix(b, c->hidden, c->feed_forward,
                                                             "blk.%u.ffn_down.weight", layer),
                               .bias = PLAN_NONE,
                               .norm_name = "post_ffw_norm"};
    if (c->feed_forward_bias)
        half.bias = plan_builder_vector(b, c->hidden, "blk.%u.ffn_down.bias", layer);
    list_add(b, c, form, &half, layer, t);
}

static void list_layer(struct plan_builder *b, const struct model_config *c,
                       const struct dense_form *form, uint32_t layer, const struct dense_tensors *t)
{
    dense_blocks_list_output(b, c, form, layer, t);
    dense_blocks_list_feed_forward(b, c, form, layer, t);
}

/* Gathers what the last layer's second half reads. */
static void list_gathering(struct plan_builder *b, const struct dense_form *form,
                           const struct dense_tensors *step, const struct dense_tensors *last)
{
    plan_ops_gather_rows(b, step->residual, last->residual);
    plan_ops_gather_rows(b, step->attended, last->attended);
    if (form->parallel)
        plan_ops_gather_rows(b, step->normed, last->normed);
}

/* The last layer after its attention and the final norm, for logit rows or, with keeps_hidden, for all. */
static void list_end(struct plan_builder *b, const struct model_config *c,
                     const struct dense_form *form, const struct dense_tensors *step,
                     const struct dense_tensors *last)
{
    const struct dense_tensors *t = c->keeps_hidden ? step : last;
    if (!c->keeps_hidden)
        list_gathering(b, form, step, last);
    list_layer(b, c, form, c->layers - 1, t);
    list_norm(b, c, form, t->residual, "output_norm", t->normed);
    if (!c->keeps_hidden)
        return;
    plan_builder_hidden_out(b, step->normed);
    plan_ops_gather_rows(b, step->normed, last->normed);
}

plan_tensor_id dense_blocks_list_ahead(struct plan_builder *b, const struct model_config *c,
                                       const struct dense_form *form, bool keeps_normed)
{
    struct dense_tensors step = dense_blocks_add_tensors(b, c, PLAN_ROWS_STEP);
    struct dense_tensors last = dense_blocks_add_tensors(b, c, PLAN_ROWS_LOGITS);
    plan_tensor_id qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns);
    must(!form->parallel);
    ahead_blocks_list_input(b, c, step.normed, step.residual);
    dense_blocks_list_attention(b, c, form, 0, &step, qkv);
    list_gathering(b, form, &step, &last);
    list_layer(b, c, form, 0, &last);
    return ahead_blocks_list_end(b, c, keeps_normed, last.residual, last.normed);
}

plan_tensor_id dense_blocks_list(struct plan_builder *b, const struct model_config *c,
                                 const struct dense_form *form)
{
    struct dense_tensors step = dense_blocks_add_tensors(b, c, PLAN_ROWS_STEP);
    struct dense_tensors last = dense_blocks_add_tensors(b, c, PLAN_ROWS_LOGITS);
    plan_tensor_id qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id output = plan_builder_output_matrix(b, c, embedding);
    plan_builder_use_in_config(b, "rope_freqs.weight");
    plan_builder_use_in_config(b, "rope_factors_long.weight");
    plan_builder_use_in_config(b, "rope_factors_short.weight");
    for (uint32_t layer = 0; layer < c->ahead_layers; layer++)
        plan_builder_leave_layer(b, c->layers + layer);

    plan_ops_embed_rows(b, embedding, step.residual);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        dense_blocks_list_attention(b, c, form, layer, &step, qkv);
        list_layer(b, c, form, layer, &step);
        plan_ops_feature_add(b, step.residual, layer);
    }
    dense_blocks_list_attention(b, c, form, c->layers - 1, &step, qkv);
    list_end(b, c, form, &step, &last);
    plan_ops_linear(b, last.normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE}, logits);
    if (form->logit_bias) {
        plan_weight_id bias = plan_builder_vector(b, c->vocab_tokens, "output.bias");
        plan_ops_bias_add(b, logits, (struct linear_weights){bias, PLAN_NONE, PLAN_NONE});
    }
    plan_ops_soft_cap(b, logits);
    return logits;
}

plan_tensor_id dense_blocks_list_plain(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c, &(const struct dense_form){0});
}

plan_tensor_id dense_blocks_list_mixture(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c, &(const struct dense_form){.experts = {.gate = {.activation = GATE_SILU}}});
}
