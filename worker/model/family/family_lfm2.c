/*
 * The forward pass of LFM2 (dense).
 *
 *   x = embedding
 *   each layer:  x += mix(norm(x))
 *                x += Wdown . (silu(Wgate . norm(x)) * Wup . norm(x))
 *   logits = Woutput . norm(x)
 *
 *   mix of an attention layer:    Wo . attention(rope(norm_per_head(Wq|Wk . x)), Wv . x)
 *   mix of a convolution layer:   B|C|X = Win . x;  Wout . (C * convolution(B * X))
 *
 * Most layers convolve: each channel with its own last few inputs, which is all that a sequence
 * keeps of them. As in llama, logit rows part ways once the last layer has mixed.
 */
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/family_list.h"

/* What the second half of a layer works in, once for step rows and once for logit rows. */
struct lfm2_tensors {
    plan_tensor_id residual; /* [rows, hidden] */
    plan_tensor_id normed;   /* [rows, hidden] */
    plan_tensor_id attended; /* [rows, heads * head_dim] */
    plan_tensor_id mixed;    /* [rows, hidden] out of a convolution */
    plan_tensor_id gate_up;  /* [rows, 2 * feed_forward] */
    plan_tensor_id gated;    /* [rows, feed_forward] */
};

/* Before a layer mixes. */
struct lfm2_inputs {
    plan_tensor_id qkv; /* [rows, (heads + 2 * kv_heads) * head_dim] */
    plan_tensor_id bcx; /* [rows, 3 * hidden] */
};

static struct lfm2_tensors add_tensors(struct plan_builder *b, const struct model_config *c,
                                       enum plan_rows rows)
{
    return (struct lfm2_tensors){
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .normed = plan_builder_tensor(b, rows, c->hidden),
        .attended = plan_builder_tensor(b, rows, c->heads * c->head_dim),
        .mixed = plan_builder_tensor(b, rows, c->hidden),
        .gate_up = plan_builder_tensor(b, rows, 2 * c->feed_forward),
        .gated = plan_builder_tensor(b, rows, c->feed_forward),
    };
}

static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct lfm2_tensors *t, plan_tensor_id qkv)
{
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    uint32_t q_rows = c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    plan_weight_id q = plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer);
    plan_weight_id k = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer);
    plan_weight_id v = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer);
    plan_weight_id q_norm = plan_builder_vector(b, c->head_dim, "blk.%u.attn_q_norm.weight", layer);
    plan_weight_id k_norm = plan_builder_vector(b, c->head_dim, "blk.%u.attn_k_norm.weight", layer);

    plan_ops_linear(b, t->normed, (struct linear_weights){q, k, v}, qkv);
    plan_ops_head_norm(b, qkv, slices.queries, q_norm);
    plan_ops_head_norm(b, qkv, slices.keys, k_norm);
    plan_ops_rope(b, qkv, slices.queries, layer);
    plan_ops_rope(b, qkv, slices.keys, layer);
    plan_ops_kv_write(b, qkv, slices, layer);
    plan_ops_attention(b, qkv, slices, layer, t->attended);
}

static void list_convolution(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                             const struct lfm2_tensors *t, plan_tensor_id bcx)
{
    plan_weight_id in =
        plan_builder_matrix(b, 3 * c->hidden, c->hidden, "blk.%u.shortconv.in_proj.weight", layer);
    plan_weight_id taps =
        plan_builder_taps(b, c->conv_channels, c->conv_taps, "blk.%u.shortconv.conv.weight", layer);
    plan_ops_linear(b, t->normed, (struct linear_weights){in, PLAN_NONE, PLAN_NONE}, bcx);
    plan_ops_short_conv(b, bcx, taps, (struct short_conv_params){SHORT_CONV_GATED, layer},
                        t->mixed);
}

/* From the residual to what is to be projected back into it. */
static void list_mixing(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                        const struct lfm2_tensors *t, const struct lfm2_inputs *inputs)
{
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer);
    plan_ops_rms_norm(b, t->residual, norm, t->normed);
    if (c->layer[layer].kind == LAYER_ATTENTION)
        list_attention(b, c, layer, t, inputs->qkv);
    else
        list_convolution(b, c, layer, t, inputs->bcx);
}

static void list_projections(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                             const struct lfm2_tensors *t)
{
    uint32_t hidden = c->hidden, wide = c->feed_forward, attended = c->heads * c->head_dim;
    plan_weight_id norm = plan_builder_vector(b, hidden, "blk.%u.ffn_norm.weight", layer);
    plan_weight_id gate = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);

    if (c->layer[layer].kind == LAYER_ATTENTION)
        plan_ops_linear_add(
            b, t->attended,
            plan_builder_matrix(b, hidden, attended, "blk.%u.attn_output.weight", layer),
            t->residual);
    else
        plan_ops_linear_add(
            b, t->mixed,
            plan_builder_matrix(b, hidden, hidden, "blk.%u.shortconv.out_proj.weight", layer),
            t->residual);
    plan_ops_rms_norm(b, t->residual, norm, t->normed);
    plan_ops_linear(b, t->normed, (struct linear_weights){gate, up, PLAN_NONE}, t->gate_up);
    plan_ops_gate(b, t->gate_up, GATE_SILU, t->gated);
    plan_ops_linear_add(b, t->gated, down, t->residual);
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct lfm2_tensors step = add_tensors(b, c, PLAN_ROWS_STEP);
    struct lfm2_tensors last = add_tensors(b, c, PLAN_ROWS_LOGITS);
    struct lfm2_inputs inputs = {
        .qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns),
        .bcx = plan_builder_tensor(b, PLAN_ROWS_STEP, 3 * c->hidden)};
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    /* What GGUF calls so is the norm in front of the output matrix. */
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "token_embd_norm.weight");
    plan_weight_id output =
        c->tied_embeddings ? embedding
                           : plan_builder_matrix(b, c->vocab_tokens, c->hidden, "output.weight");
    if (c->tied_embeddings)
        plan_builder_use_in_config(b, "output.weight"); /* stored all the same: a copy */
    bool attends = c->layer[c->layers - 1].kind == LAYER_ATTENTION;

    plan_ops_embed_rows(b, embedding, step.residual);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        list_mixing(b, c, layer, &step, &inputs);
        list_projections(b, c, layer, &step);
    }
    list_mixing(b, c, c->layers - 1, &step, &inputs);
    plan_ops_gather_rows(b, step.residual, last.residual);
    if (attends)
        plan_ops_gather_rows(b, step.attended, last.attended);
    else
        plan_ops_gather_rows(b, step.mixed, last.mixed);
    list_projections(b, c, c->layers - 1, &last);

    plan_ops_rms_norm(b, last.residual, norm, last.normed);
    plan_ops_linear(b, last.normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE}, logits);
    return logits;
}

const struct model_family family_lfm2 = {
    .architecture = "lfm2",
    .gguf = &checkpoint_gguf_lfm2,
    .hf = &checkpoint_hf_lfm2,
    .list_ops = list_ops,
};
