/*
 * The forward pass of Qwen 3.5 (text), dense or with mixtures of experts.
 *
 *   x = embedding
 *   each layer:  x += mix(norm(x))
 *                x += feed(norm(x)), feed(y) = Wdown . (silu(Wgate . y) * Wup . y)
 *   logits = Woutput . norm(x)
 *
 *   mix of an attention layer:   Q|G = Wq . x for each head;
 *       Wo . (attention(rope(norm_per_head(Q|Wk . x)), Wv . x) * sigmoid(G))
 *   mix of a delta layer:        Wout . (norm_per_head(delta(silu(convolution(Wqkv . x)),
 *                                                            Wbeta|Walpha . x)) * silu(Wz . x))
 *
 *   with experts:  x += experts(norm(x)) + feed(norm(x)) * sigmoid(wscore . norm(x)), where feed is
 *       the one that every row uses (config.feed_forward), and the weights of the others, by a
 *       softmax over all scores, add up to one.
 *
 * Three layers of four are gated delta nets (op_list.h, gated_delta): of a sequence they keep a
 * matrix a head and the last columns of a short convolution, however long it is. Only a part of
 * each head of the attention layers is rotated. Norm weights lack their 1 in folders, as Gemma's
 * do, but for the norm behind the delta net.
 *
 * As in llama, logit rows part ways once the last layer has mixed.
 */
#include <stdio.h>

#include "worker/model/build/expert_blocks.h"
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/family_list.h"

/* What the second half of a layer works in, once for step rows and once for logit rows. */
struct qwen3_5_tensors {
    plan_tensor_id residual; /* [rows, hidden] */
    plan_tensor_id normed;   /* [rows, hidden] */
    plan_tensor_id attended; /* [rows, heads * head_dim] */
    plan_tensor_id answered; /* [rows, value heads * value dim], normed and gated */
    plan_tensor_id gate_up;  /* [rows, 2 * feed_forward] */
    plan_tensor_id gated;    /* [rows, feed_forward] */
    /* Where there are experts. */
    struct expert_tensors experts;
    plan_tensor_id shared; /* [rows, hidden], of the one that every row uses */
    plan_tensor_id score;  /* [rows, 1], of it */
};

/* Before a layer mixes. */
struct qwen3_5_inputs {
    plan_tensor_id gated_qkv; /* heads of query | gate, keys, values */
    plan_tensor_id qkv;
    plan_tensor_id qkvz;  /* queries, keys and values of the delta net, gates */
    plan_tensor_id conv;  /* the former three, convolved */
    plan_tensor_id rates; /* beta | alpha */
    plan_tensor_id delta; /* [rows, value heads * value dim] */
};

/* Columns of a delta net's tensors. */
struct delta_columns {
    uint32_t conv;
    uint32_t values;
};

static struct delta_columns delta_columns(const struct model_config *c)
{
    uint32_t values = c->delta.value_heads * c->delta.value_dim;
    return (struct delta_columns){2 * c->delta.key_heads * c->delta.key_dim + values, values};
}

static struct qwen3_5_tensors add_tensors(struct plan_builder *b, const struct model_config *c,
                                          enum plan_rows rows)
{
    struct qwen3_5_tensors t = {
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .normed = plan_builder_tensor(b, rows, c->hidden),
        .attended = plan_builder_tensor(b, rows, c->heads * c->head_dim),
        .answered = plan_builder_tensor(b, rows, delta_columns(c).values),
        .gate_up = plan_builder_tensor(b, rows, 2 * c->feed_forward),
        .gated = plan_builder_tensor(b, rows, c->feed_forward),
    };
    if (c->experts.count > 0) {
        t.experts = expert_blocks_add_tensors(b, c, rows);
        t.shared = plan_builder_tensor(b, rows, c->hidden);
        t.score = plan_builder_tensor(b, rows, 1);
    }
    return t;
}

static struct qwen3_5_inputs add_inputs(struct plan_builder *b, const struct model_config *c)
{
    uint32_t qkv = plan_ops_qkv_slices(c).columns;
    struct delta_columns columns = delta_columns(c);
    return (struct qwen3_5_inputs){
        .gated_qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, qkv + c->heads * c->head_dim),
        .qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, qkv),
        .qkvz = plan_builder_tensor(b, PLAN_ROWS_STEP, columns.conv + columns.values),
        .conv = plan_builder_tensor(b, PLAN_ROWS_STEP, columns.conv),
        .rates = plan_builder_tensor(b, PLAN_ROWS_STEP, 2 * c->delta.value_heads),
        .delta = plan_builder_tensor(b, PLAN_ROWS_STEP, columns.values),
    };
}

static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct qwen3_5_tensors *t, const struct qwen3_5_inputs *in)
{
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    uint32_t q_rows = 2 * c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    plan_weight_id q = plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer);
    plan_weight_id k = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer);
    plan_weight_id v = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer);
    plan_weight_id q_norm = plan_builder_vector(b, c->head_dim, "blk.%u.attn_q_norm.weight", layer);
    plan_weight_id k_norm = plan_builder_vector(b, c->head_dim, "blk.%u.attn_k_norm.weight", layer);

    plan_ops_linear(b, t->normed, (struct linear_weights){q, k, v}, in->gated_qkv);
    plan_ops_take_queries(b, in->gated_qkv, in->qkv);
    plan_ops_head_norm(b, in->qkv, slices.queries, q_norm);
    plan_ops_head_norm(b, in->qkv, slices.keys, k_norm);
    plan_ops_rope(b, in->qkv, slices.queries, layer);
    plan_ops_rope(b, in->qkv, slices.keys, layer);
    plan_ops_kv_write(b, in->qkv, slices, layer);
    plan_ops_attention(b, in->qkv, slices, layer, t->attended);
    plan_ops_gate_heads(b, in->gated_qkv, t->attended);
}

static void list_delta(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                       const struct qwen3_5_tensors *t, const struct qwen3_5_inputs *in)
{
    const struct delta_config *d = &c->delta;
    struct delta_columns columns = delta_columns(c);
    struct column_slice gates = {columns.conv, d->value_heads, d->value_dim};
    uint32_t hidden = c->hidden, heads = d->value_heads;
    plan_weight_id qkv =
        plan_builder_matrix(b, columns.conv, hidden, "blk.%u.attn_qkv.weight", layer);
    plan_weight_id z =
        plan_builder_matrix(b, columns.values, hidden, "blk.%u.attn_gate.weight", layer);
    plan_weight_id beta = plan_builder_matrix(b, heads, hidden, "blk.%u.ssm_beta.weight", layer);
    plan_weight_id alpha = plan_builder_matrix(b, heads, hidden, "blk.%u.ssm_alpha.weight", layer);
    plan_weight_id taps =
        plan_builder_taps(b, c->conv_channels, c->conv_taps, "blk.%u.ssm_conv1d.weight", layer);
    plan_weight_id rate = plan_builder_vector(b, heads, "blk.%u.ssm_a", layer);
    plan_weight_id bias = plan_builder_vector(b, heads, "blk.%u.ssm_dt.bias", layer);
    plan_weight_id norm = plan_builder_vector(b, d->value_dim, "blk.%u.ssm_norm.weight", layer);

    plan_ops_linear(b, t->normed, (struct linear_weights){qkv, z, PLAN_NONE}, in->qkvz);
    plan_ops_linear(b, t->normed, (struct linear_weights){beta, alpha, PLAN_NONE}, in->rates);
    plan_ops_short_conv(b, in->qkvz, taps, (struct short_conv_params){SHORT_CONV_SILU, layer},
                        in->conv);
    plan_ops_gated_delta(b, in->conv, in->rates, (struct linear_weights){rate, bias, PLAN_NONE},
                         layer, in->delta);
    plan_ops_head_norm_gate(b, in->delta, in->qkvz, gates, norm, t->answered);
}

/* From the residual to what is to be projected back into it. */
static void list_mixing(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                        const struct qwen3_5_tensors *t, const struct qwen3_5_inputs *in)
{
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer);
    plan_ops_rms_norm(b, t->residual, norm, t->normed);
    if (c->layer[layer].kind == LAYER_ATTENTION)
        list_attention(b, c, layer, t, in);
    else
        list_delta(b, c, layer, t, in);
}

static void list_dense(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                       const struct qwen3_5_tensors *t)
{
    uint32_t hidden = c->hidden, wide = c->feed_forward;
    plan_weight_id gate = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);

    plan_ops_linear(b, t->normed, (struct linear_weights){gate, up, PLAN_NONE}, t->gate_up);
    plan_ops_gate(b, t->gate_up, GATE_SILU, t->gated);
    plan_ops_linear_add(b, t->gated, down, t->residual);
}

static void list_experts(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                         const struct qwen3_5_tensors *t)
{
    static const struct expert_form form = {.gate = {.activation = GATE_SILU}};
    uint32_t hidden = c->hidden, wide = c->feed_forward;
    plan_weight_id score =
        plan_builder_matrix(b, 1, hidden, "blk.%u.ffn_gate_inp_shexp.weight", layer);
    plan_weight_id gate =
        plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate_shexp.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up_shexp.weight", layer);
    plan_weight_id down =
        plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down_shexp.weight", layer);

    expert_blocks_list(b, c, &form, layer, t->normed, &t->experts, t->residual);
    plan_ops_linear(b, t->normed, (struct linear_weights){score, PLAN_NONE, PLAN_NONE}, t->score);
    plan_ops_linear(b, t->normed, (struct linear_weights){gate, up, PLAN_NONE}, t->gate_up);
    plan_ops_gate(b, t->gate_up, GATE_SILU, t->gated);
    plan_ops_linear(b, t->gated, (struct linear_weights){down, PLAN_NONE, PLAN_NONE}, t->shared);
    plan_ops_moe_shared(b, t->shared, t->score, t->residual);
}

static void list_projections(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                             const struct qwen3_5_tensors *t)
{
    bool attends = c->layer[layer].kind == LAYER_ATTENTION;
    uint32_t hidden = c->hidden;
    uint32_t mixed = attends ? c->heads * c->head_dim : delta_columns(c).values;
    plan_weight_id out =
        attends ? plan_builder_matrix(b, hidden, mixed, "blk.%u.attn_output.weight", layer)
                : plan_builder_matrix(b, hidden, mixed, "blk.%u.ssm_out.weight", layer);
    plan_weight_id norm =
        plan_builder_vector(b, hidden, "blk.%u.post_attention_norm.weight", layer);

    plan_ops_linear_add(b, attends ? t->attended : t->answered, out, t->residual);
    plan_ops_rms_norm(b, t->residual, norm, t->normed);
    if (c->layer[layer].experts)
        list_experts(b, c, layer, t);
    else
        list_dense(b, c, layer, t);
}

/* Layers that predict tokens further on: what GGUF calls their weights. */
static void leave_ahead_layers(struct plan_builder *b, const struct model_config *c)
{
    static const char *const names[] = {
        "attn_norm",
        "attn_q",
        "attn_k",
        "attn_v",
        "attn_output",
        "attn_q_norm",
        "attn_k_norm",
        "post_attention_norm",
        "ffn_gate",
        "ffn_up",
        "ffn_down",
        "ffn_gate_inp",
        "ffn_gate_exps",
        "ffn_up_exps",
        "ffn_gate_up_exps",
        "ffn_down_exps",
        "ffn_gate_inp_shexp",
        "ffn_gate_shexp",
        "ffn_up_shexp",
        "ffn_down_shexp",
        "nextn.eh_proj",
        "nextn.enorm",
        "nextn.hnorm",
        "nextn.embed_tokens",
        "nextn.shared_head_head",
        "nextn.shared_head_norm",
    };
    for (uint32_t layer = c->layers; layer < c->layers + c->ahead_layers; layer++) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            struct stored_name name;
            snprintf(name.text, sizeof name.text, "blk.%u.%s.weight", layer, names[i]);
            plan_builder_use_in_config(b, name.text);
        }
    }
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct qwen3_5_tensors step = add_tensors(b, c, PLAN_ROWS_STEP);
    struct qwen3_5_tensors last = add_tensors(b, c, PLAN_ROWS_LOGITS);
    struct qwen3_5_inputs inputs = add_inputs(b, c);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    plan_weight_id output =
        c->tied_embeddings ? embedding
                           : plan_builder_matrix(b, c->vocab_tokens, c->hidden, "output.weight");
    if (c->tied_embeddings)
        plan_builder_use_in_config(b, "output.weight"); /* stored all the same: a copy */

    leave_ahead_layers(b, c);
    plan_ops_embed_rows(b, embedding, step.residual);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        list_mixing(b, c, layer, &step, &inputs);
        list_projections(b, c, layer, &step);
    }
    list_mixing(b, c, c->layers - 1, &step, &inputs);
    plan_ops_gather_rows(b, step.residual, last.residual);
    if (c->layer[c->layers - 1].kind == LAYER_ATTENTION)
        plan_ops_gather_rows(b, step.attended, last.attended);
    else
        plan_ops_gather_rows(b, step.answered, last.answered);
    list_projections(b, c, c->layers - 1, &last);

    plan_ops_rms_norm(b, last.residual, norm, last.normed);
    plan_ops_linear(b, last.normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE}, logits);
    return logits;
}

const struct model_family family_qwen3_5 = {
    .architecture = "qwen35",
    .gguf = &checkpoint_gguf_qwen3_5,
    .hf = &checkpoint_hf_qwen3_5,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen3_vl_list_ops,
};

const struct model_family family_qwen3_5_moe = {
    .architecture = "qwen35moe",
    .gguf = &checkpoint_gguf_qwen3_5_moe,
    .hf = &checkpoint_hf_qwen3_5_moe,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen3_vl_list_ops,
};
