/*
 * The forward pass of Gemma 4 (text).
 *
 *   x = embedding * sqrt(hidden)
 *   p = (norm_per_layer(Wp . x / sqrt(hidden)) + table * sqrt(columns)) / sqrt(2)
 *   each layer l:  x += norm(Wo . attention(rope(norm(Wq . n)), rope(norm(Wk . n)), norm(Wv . n)))
 *                  x += norm(Wdown . (gelu(Wgate . norm(x)) * Wup . norm(x)))
 *                  x += norm(Wproj . (gelu(Winp . x) * p[l]))
 *                  x *= scale
 *   logits = cap(Woutput . norm(x))
 *
 * n is norm(x); the values' norm has no weights. p, the per-layer inputs, are there in the small
 * models only. Layers differ in head size, key-value heads and feed-forward; those that share an
 * earlier layer's keys have only queries; where values are keys, the key matrix is used twice,
 * since both are normed apart.
 *
 * Where a layer has experts, its second half is
 *
 *   x += norm(norm(dense(norm(x))) + norm(experts(norm(x)))), dense being the one above
 *
 * with weights by the scores Wr . (norm(x) * scale) / sqrt(hidden), made to add up to one and then
 * multiplied by a number of each expert's.
 *
 * As in llama, logit rows part ways once the last layer has attended.
 */
#include <math.h>

#include "worker/model/build/expert_blocks.h"
#include "worker/model/build/family_tensors.h"
#include "worker/model/build/gemma_blocks.h"
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/family_list.h"

/* What layers of any sizes work in. */
struct gemma4_rows {
    enum plan_rows rows;
    plan_tensor_id residual;  /* [rows, hidden] */
    plan_tensor_id inner;     /* [rows, hidden] normed going into a half, projected coming out */
    plan_tensor_id per_layer; /* [rows, layers * per_layer_columns], or PLAN_NONE */
    plan_tensor_id other;     /* [rows, hidden], with experts */
    plan_tensor_id mixed;     /* the same */
    struct expert_tensors experts;
};

static struct gemma4_rows add_rows(struct plan_builder *b, const struct model_config *c,
                                   enum plan_rows rows)
{
    struct gemma4_rows r = {
        .rows = rows,
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .inner = plan_builder_tensor(b, rows, c->hidden),
        .per_layer = PLAN_NONE,
    };
    if (c->experts.count > 0) {
        r.other = plan_builder_tensor(b, rows, c->hidden);
        r.mixed = plan_builder_tensor(b, rows, c->hidden);
        r.experts = expert_blocks_add_tensors(b, c, rows);
    }
    if (c->per_layer_columns > 0)
        r.per_layer = plan_builder_tensor(b, rows, c->layers * c->per_layer_columns);
    return r;
}

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

static plan_weight_id value_weight(struct plan_builder *b, const struct model_config *c,
                                   uint32_t layer, uint32_t kv_rows, plan_weight_id key)
{
    return c->layer[layer].values_are_keys
               ? key
               : plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer);
}

/* Returns what the heads attended to: [step rows, heads * head size]. */
static plan_tensor_id list_attention(struct plan_builder *b, const struct model_config *c,
                                     struct family_tensors *pool, uint32_t layer,
                                     const struct gemma4_rows *r)
{
    const struct qkv_slices slices = plan_ops_layer_slices(c, layer);
    uint32_t q_rows = slices.queries.heads * slices.queries.head_dim;
    uint32_t kv_rows = slices.keys.heads * slices.keys.head_dim;
    bool stores = c->layer[layer].cache_back == 0;
    plan_tensor_id qkv = family_tensors_get(pool, b, FAMILY_QKV, r->rows, slices.columns);
    plan_tensor_id attended = family_tensors_get(pool, b, FAMILY_ATTENDED, r->rows, q_rows);
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer);
    plan_weight_id q_norm =
        plan_builder_vector(b, slices.queries.head_dim, "blk.%u.attn_q_norm.weight", layer);
    struct linear_weights weights =
        one(plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer));
    if (stores) {
        weights.second = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer);
        weights.third = value_weight(b, c, layer, kv_rows, weights.second);
    }
    plan_ops_rms_norm(b, r->residual, norm, r->inner);
    plan_ops_linear(b, r->inner, weights, qkv);
    plan_ops_head_norm(b, qkv, slices.queries, q_norm);
    if (stores) {
        gemma_blocks_keys(b, layer, slices, qkv);
    } else {
        gemma_blocks_pass_over_keys(b, layer);
        plan_ops_rope(b, qkv, slices.queries, layer);
    }
    plan_ops_attention(b, qkv, slices, layer, attended);
    return attended;
}

/* The experts beside the dense half, whose output is in r->inner: there comes the normed sum. */
static void list_experts(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                         const struct gemma4_rows *r)
{
    static const struct expert_form form = {.gate = {.activation = GATE_GELU_TANH}};
    uint32_t hidden = c->hidden, count = c->experts.count;
    plan_weight_id dense = plan_builder_vector(b, hidden, "blk.%u.post_ffw_norm_1.weight", layer);
    plan_weight_id before = plan_builder_vector(b, hidden, "blk.%u.pre_ffw_norm_2.weight", layer);
    plan_weight_id behind = plan_builder_vector(b, hidden, "blk.%u.post_ffw_norm_2.weight", layer);
    plan_weight_id scale = plan_builder_vector(b, hidden, "blk.%u.ffn_gate_inp.scale", layer);
    plan_weight_id scores =
        plan_builder_matrix(b, count, hidden, "blk.%u.ffn_gate_inp.weight", layer);
    plan_weight_id weights = plan_builder_vector(b, count, "blk.%u.ffn_down_exps.scale", layer);
    plan_ops_rms_norm(b, r->inner, dense, r->inner);
    plan_ops_rms_norm(b, r->residual, scale, r->other);
    plan_ops_linear(b, r->other, one(scores), r->experts.scores);
    plan_ops_scale(b, r->experts.scores, 1.0f / sqrtf((float)hidden));
    plan_ops_rms_norm(b, r->residual, before, r->other);
    expert_blocks_list_scored(b, c, &form, layer, r->other, &r->experts, weights, false, r->mixed);
    plan_ops_rms_norm(b, r->mixed, behind, r->other);
    plan_ops_add_rows(b, r->inner, r->other, 1.0f, r->inner);
}

static void list_feed_forward(struct plan_builder *b, const struct model_config *c,
                              struct family_tensors *pool, uint32_t layer,
                              const struct gemma4_rows *r)
{
    uint32_t hidden = c->hidden, wide = model_config_feed_forward(c, layer);
    plan_tensor_id gate_up = family_tensors_get(pool, b, FAMILY_GATE_UP, r->rows, 2 * wide);
    plan_tensor_id gated = family_tensors_get(pool, b, FAMILY_GATED, r->rows, wide);
    plan_weight_id norm = plan_builder_vector(b, hidden, "blk.%u.ffn_norm.weight", layer);
    plan_weight_id gate = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);
    plan_weight_id post = plan_builder_vector(b, hidden, "blk.%u.post_ffw_norm.weight", layer);
    plan_ops_rms_norm(b, r->residual, norm, r->inner);
    plan_ops_linear(b, r->inner, (struct linear_weights){gate, up, PLAN_NONE}, gate_up);
    plan_ops_gate(b, gate_up, GATE_GELU_TANH, gated);
    plan_ops_linear(b, gated, one(down), r->inner);
    if (c->layer[layer].experts)
        list_experts(b, c, layer, r);
    plan_ops_rms_norm_add(b, r->inner, post, r->residual);
}

static void list_per_layer(struct plan_builder *b, const struct model_config *c,
                           struct family_tensors *pool, uint32_t layer, const struct gemma4_rows *r)
{
    uint32_t hidden = c->hidden, columns = c->per_layer_columns;
    plan_tensor_id narrow = family_tensors_get(pool, b, FAMILY_NARROW, r->rows, columns);
    plan_weight_id gate = plan_builder_matrix(b, columns, hidden, "blk.%u.inp_gate.weight", layer);
    plan_weight_id back = plan_builder_matrix(b, hidden, columns, "blk.%u.proj.weight", layer);
    plan_weight_id post = plan_builder_vector(b, hidden, "blk.%u.post_norm.weight", layer);
    plan_ops_linear(b, r->residual, one(gate), narrow);
    plan_ops_gate_with(b, narrow, r->per_layer, layer * columns, GATE_GELU_TANH, narrow);
    plan_ops_linear(b, narrow, one(back), r->inner);
    plan_ops_rms_norm_add(b, r->inner, post, r->residual);
}

/* From what a layer attended to, to its end. */
static void list_projections(struct plan_builder *b, const struct model_config *c,
                             struct family_tensors *pool, uint32_t layer,
                             const struct gemma4_rows *r, plan_tensor_id attended)
{
    uint32_t columns = c->heads * model_config_head_dim(c, layer);
    plan_weight_id o =
        plan_builder_matrix(b, c->hidden, columns, "blk.%u.attn_output.weight", layer);
    plan_weight_id o_norm =
        plan_builder_vector(b, c->hidden, "blk.%u.post_attention_norm.weight", layer);
    plan_ops_linear(b, attended, one(o), r->inner);
    plan_ops_rms_norm_add(b, r->inner, o_norm, r->residual);
    list_feed_forward(b, c, pool, layer, r);
    if (c->per_layer_columns > 0)
        list_per_layer(b, c, pool, layer, r);
    if (plan_builder_has(b, "blk.%u.layer_output_scale.weight", layer))
        plan_ops_scale_columns(
            b, r->residual, plan_builder_vector(b, 1, "blk.%u.layer_output_scale.weight", layer));
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct family_tensors pool = {0};
    struct gemma4_rows step = add_rows(b, c, PLAN_ROWS_STEP);
    struct gemma4_rows last = add_rows(b, c, PLAN_ROWS_LOGITS);
    uint32_t end = c->layers - 1, attended_columns = c->heads * model_config_head_dim(c, end);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    plan_weight_id output =
        c->tied_embeddings ? embedding
                           : plan_builder_matrix(b, c->vocab_tokens, c->hidden, "output.weight");
    if (c->tied_embeddings)
        plan_builder_use_in_config(b, "output.weight"); /* stored all the same: a copy */
    plan_builder_use_in_config(b, "rope_freqs.weight");

    plan_ops_embed_rows(b, embedding, step.residual);
    if (c->per_layer_columns > 0)
        gemma_blocks_per_layer_inputs(b, c, step.residual, step.per_layer);
    for (uint32_t layer = 0; layer < end; layer++)
        list_projections(b, c, &pool, layer, &step, list_attention(b, c, &pool, layer, &step));
    plan_tensor_id attended = list_attention(b, c, &pool, end, &step);
    plan_tensor_id gathered =
        family_tensors_get(&pool, b, FAMILY_ATTENDED, PLAN_ROWS_LOGITS, attended_columns);
    plan_ops_gather_rows(b, step.residual, last.residual);
    plan_ops_gather_rows(b, attended, gathered);
    if (c->per_layer_columns > 0)
        plan_ops_gather_rows(b, step.per_layer, last.per_layer);
    list_projections(b, c, &pool, end, &last, gathered);

    plan_ops_rms_norm(b, last.residual, norm, last.inner);
    plan_ops_linear(b, last.inner, one(output), logits);
    plan_ops_soft_cap(b, logits);
    return logits;
}

const struct model_family family_gemma4 = {
    .architecture = "gemma4",
    .gguf = &checkpoint_gguf_gemma4,
    .hf = &checkpoint_hf_gemma4,
    .list_ops = list_ops,
    .list_vision_ops = tower_gemma4_list_ops,
};
