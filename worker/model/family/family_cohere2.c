/*
 * The forward pass of Cohere's Command R7B and A (cohere2).
 *
 *   x = embedding
 *   each layer:  n = layer_norm(x)
 *                x += Wo . attention(rope(Wq|Wk . n), Wv . n)
 *                x += Wdown . (silu(Wgate . n) * Wup . n)
 *   logits = logit_scale * Woutput . layer_norm(x)
 *
 * Both halves of a layer read the same normed row, so n outlives the attention. Norms subtract the
 * mean. Layers that see all positions do not rotate.
 *
 * As in llama, logit rows part ways once the last layer has attended.
 */
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/family_list.h"

/* What a layer works in behind attention, once for step rows and once for logit rows. */
struct cohere2_tensors {
    plan_tensor_id residual; /* [rows, hidden] */
    plan_tensor_id normed;   /* [rows, hidden] */
    plan_tensor_id attended; /* [rows, heads * head_dim] */
    plan_tensor_id gate_up;  /* [rows, 2 * feed_forward] */
    plan_tensor_id gated;    /* [rows, feed_forward] */
};

static struct cohere2_tensors add_tensors(struct plan_builder *b, const struct model_config *c,
                                          enum plan_rows rows)
{
    return (struct cohere2_tensors){
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .normed = plan_builder_tensor(b, rows, c->hidden),
        .attended = plan_builder_tensor(b, rows, c->heads * c->head_dim),
        .gate_up = plan_builder_tensor(b, rows, 2 * c->feed_forward),
        .gated = plan_builder_tensor(b, rows, c->feed_forward),
    };
}

static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct cohere2_tensors *t, plan_tensor_id qkv)
{
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    uint32_t q_rows = c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer);
    plan_weight_id q = plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer);
    plan_weight_id k = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer);
    plan_weight_id v = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer);

    plan_ops_layer_norm(b, t->residual, norm, t->normed);
    plan_ops_linear(b, t->normed, (struct linear_weights){q, k, v}, qkv);
    if (c->layer[layer].rope != ROPE_NONE) {
        plan_ops_rope(b, qkv, slices.queries, layer);
        plan_ops_rope(b, qkv, slices.keys, layer);
    }
    plan_ops_kv_write(b, qkv, slices, layer);
    plan_ops_attention(b, qkv, slices, layer, t->attended);
}

static void list_projections(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                             const struct cohere2_tensors *t)
{
    uint32_t hidden = c->hidden, wide = c->feed_forward, attended = c->heads * c->head_dim;
    plan_weight_id o = plan_builder_matrix(b, hidden, attended, "blk.%u.attn_output.weight", layer);
    plan_weight_id gate = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);

    plan_ops_linear_add(b, t->attended, o, t->residual);
    plan_ops_linear(b, t->normed, (struct linear_weights){gate, up, PLAN_NONE}, t->gate_up);
    plan_ops_gate(b, t->gate_up, GATE_SILU, t->gated);
    plan_ops_linear_add(b, t->gated, down, t->residual);
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct cohere2_tensors step = add_tensors(b, c, PLAN_ROWS_STEP);
    struct cohere2_tensors last = add_tensors(b, c, PLAN_ROWS_LOGITS);
    plan_tensor_id qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    plan_weight_id output =
        c->tied_embeddings ? embedding
                           : plan_builder_matrix(b, c->vocab_tokens, c->hidden, "output.weight");
    if (c->tied_embeddings)
        plan_builder_use_in_config(b, "output.weight"); /* stored all the same: a copy */

    plan_ops_embed_rows(b, embedding, step.residual);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        list_attention(b, c, layer, &step, qkv);
        list_projections(b, c, layer, &step);
    }
    list_attention(b, c, c->layers - 1, &step, qkv);
    plan_ops_gather_rows(b, step.residual, last.residual);
    plan_ops_gather_rows(b, step.normed, last.normed);
    plan_ops_gather_rows(b, step.attended, last.attended);
    list_projections(b, c, c->layers - 1, &last);

    plan_ops_layer_norm(b, last.residual, norm, last.normed);
    plan_ops_linear(b, last.normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE}, logits);
    plan_ops_soft_cap(b, logits);
    return logits;
}

const struct model_family family_cohere2 = {
    .architecture = "cohere2",
    .gguf = &checkpoint_gguf_cohere2,
    .hf = &checkpoint_hf_cohere2,
    .list_ops = list_ops,
};
