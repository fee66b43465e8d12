/*
 * The forward pass of Gemma 3n (text).
 *
 *   h[0] = embedding * sqrt(hidden), h[j] = Wj . h[0] at the magnitude of h[0]      (streams)
 *   each layer l:  h  += mix of h by Wm . route(h[0])                               (predict)
 *                  n   = norm(h[0])
 *                  a   = (h[0] + norm(Wo . attention(..n..)) + n + norm(Wr . Wl . n)) / sqrt(2)
 *                  a  += norm(Wdown . (gelu(cut(Wgate . norm(a))) * Wup . norm(a)))
 *                  h[j] += (1 + (Wc . route(a))[j]) * (a - h[0])                    (correct)
 *                  h[j] += norm(Wproj . (gelu(Winp . (scale * h[0])) * p[l]))       for j > 0
 *   logits = cap(Woutput . norm(mean over j of h[0], Uj . h[j] at the magnitude of h[0]))
 *
 * route(x) = tanh(Wroute . norm(x) / hidden). Attention and the per-layer inputs p are gemma4's.
 * The mean is a sum: the norm behind it makes up for that with its epsilon.
 *
 * As in llama, logit rows part ways once the last layer has attended.
 */
#include <math.h>

#include "worker/model/build/family_tensors.h"
#include "worker/model/build/gemma_blocks.h"
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/family_list.h"

/* What layers work in, once for step rows and once for logit rows. */
struct gemma3n_rows {
    enum plan_rows rows;
    plan_tensor_id streams;      /* [rows, streams * hidden] */
    plan_tensor_id predicted;    /* the same; the next layer's streams */
    plan_tensor_id active;       /* [rows, hidden] */
    plan_tensor_id inner;        /* [rows, hidden] */
    plan_tensor_id other;        /* [rows, hidden] */
    plan_tensor_id low;          /* [rows, laurel_rank] */
    plan_tensor_id routed;       /* [rows, streams] */
    plan_tensor_id coefficients; /* [rows, streams * streams] */
    plan_tensor_id corrections;  /* [rows, streams] */
    plan_tensor_id attended;     /* [rows, heads * head_dim] */
    plan_tensor_id narrow;       /* [rows, per_layer_columns] */
    plan_tensor_id per_layer;    /* [rows, layers * per_layer_columns] */
};

static struct gemma3n_rows add_rows(struct plan_builder *b, const struct model_config *c,
                                    enum plan_rows rows)
{
    uint32_t n = c->streams;
    return (struct gemma3n_rows){
        .rows = rows,
        .streams = plan_builder_tensor(b, rows, n * c->hidden),
        .predicted = plan_builder_tensor(b, rows, n * c->hidden),
        .active = plan_builder_tensor(b, rows, c->hidden),
        .inner = plan_builder_tensor(b, rows, c->hidden),
        .other = plan_builder_tensor(b, rows, c->hidden),
        .low = plan_builder_tensor(b, rows, c->laurel_rank),
        .routed = plan_builder_tensor(b, rows, n),
        .coefficients = plan_builder_tensor(b, rows, n * n),
        .corrections = plan_builder_tensor(b, rows, n),
        .attended = plan_builder_tensor(b, rows, c->heads * c->head_dim),
        .narrow = plan_builder_tensor(b, rows, c->per_layer_columns),
        .per_layer = plan_builder_tensor(b, rows, c->layers * c->per_layer_columns),
    };
}

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

/* Matrix `stream` of the first or the last projections: one stack in GGUF, several tensors else. */
static plan_weight_id stream_matrix(struct plan_builder *b, const struct model_config *c,
                                    bool unembed, uint32_t stream)
{
    const char *stack = unembed ? "altup_unembd_proj.weight" : "altup_proj.weight";
    if (plan_builder_has(b, "%s", stack))
        return plan_builder_part(b, c->streams - 1, stream - 1, c->hidden, c->hidden, stack);
    return unembed
               ? plan_builder_matrix(b, c->hidden, c->hidden, "altup_unembd_proj.%u.weight",
                                     stream - 1)
               : plan_builder_matrix(b, c->hidden, c->hidden, "altup_proj.%u.weight", stream - 1);
}

/* The embedding is in r->active. */
static void list_streams(struct plan_builder *b, const struct model_config *c,
                         const struct gemma3n_rows *r)
{
    plan_ops_stream_match(b, r->active, r->active, (struct stream_match_params){0, 0, false},
                          r->streams);
    for (uint32_t stream = 1; stream < c->streams; stream++) {
        plan_ops_linear(b, r->active, one(stream_matrix(b, c, false, stream)), r->inner);
        plan_ops_stream_match(b, r->inner, r->active,
                              (struct stream_match_params){0, stream, false}, r->streams);
    }
}

static void list_route(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                       const struct gemma3n_rows *r)
{
    plan_weight_id norm =
        plan_builder_vector(b, c->hidden, "blk.%u.altup_router_norm.weight", layer);
    plan_weight_id route =
        plan_builder_matrix(b, c->streams, c->hidden, "blk.%u.altup_router.weight", layer);
    plan_ops_rms_norm(b, r->active, norm, r->inner);
    plan_ops_linear(b, r->inner, one(route), r->routed);
    plan_ops_tanh(b, r->routed, 1.0f / (float)c->hidden);
}

/* Leaves the active stream in r->active and its norm in r->inner. */
static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           struct family_tensors *pool, const struct gemma3n_rows *r)
{
    const struct qkv_slices slices = plan_ops_layer_slices(c, layer);
    uint32_t n = c->streams, q_rows = c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    bool stores = c->layer[layer].cache_back == 0;
    plan_tensor_id qkv = family_tensors_get(pool, b, FAMILY_QKV, r->rows, slices.columns);
    plan_weight_id predict =
        plan_builder_matrix(b, n * n, n, "blk.%u.altup_predict_coef.weight", layer);
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer);
    plan_weight_id q_norm = plan_builder_vector(b, c->head_dim, "blk.%u.attn_q_norm.weight", layer);
    struct linear_weights weights =
        one(plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer));
    if (stores) {
        weights.second = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer);
        weights.third = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer);
    }
    plan_ops_stream_take(b, r->streams, 0, r->active);
    list_route(b, c, layer, r);
    plan_ops_linear(b, r->routed, one(predict), r->coefficients);
    plan_ops_stream_mix(b, r->streams, r->coefficients, n, r->predicted);
    plan_ops_stream_take(b, r->predicted, 0, r->active);
    plan_ops_rms_norm(b, r->active, norm, r->inner);
    plan_ops_linear(b, r->inner, weights, qkv);
    plan_ops_head_norm(b, qkv, slices.queries, q_norm);
    if (stores) {
        gemma_blocks_keys(b, layer, slices, qkv);
    } else {
        gemma_blocks_pass_over_keys(b, layer);
        plan_ops_rope(b, qkv, slices.queries, layer);
    }
    plan_ops_attention(b, qkv, slices, layer, r->attended);
}

/* What is attended to, the low-rank residual and the active stream become one, in r->active. */
static void list_join(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                      const struct gemma3n_rows *r)
{
    uint32_t hidden = c->hidden, rank = c->laurel_rank;
    plan_weight_id o =
        plan_builder_matrix(b, hidden, c->heads * c->head_dim, "blk.%u.attn_output.weight", layer);
    plan_weight_id o_norm =
        plan_builder_vector(b, hidden, "blk.%u.post_attention_norm.weight", layer);
    plan_weight_id left = plan_builder_matrix(b, rank, hidden, "blk.%u.laurel_l.weight", layer);
    plan_weight_id right = plan_builder_matrix(b, hidden, rank, "blk.%u.laurel_r.weight", layer);
    plan_weight_id post = plan_builder_vector(b, hidden, "blk.%u.laurel_post_norm.weight", layer);
    plan_ops_linear(b, r->inner, one(left), r->low);
    plan_ops_linear(b, r->low, one(right), r->other);
    plan_ops_rms_norm_add(b, r->other, post, r->inner);
    plan_ops_linear(b, r->attended, one(o), r->other);
    plan_ops_rms_norm_add(b, r->other, o_norm, r->active);
    plan_ops_add_rows(b, r->active, r->inner, sqrtf(0.5f), r->active);
}

static void list_feed_forward(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                              struct family_tensors *pool, const struct gemma3n_rows *r)
{
    uint32_t hidden = c->hidden, wide = model_config_feed_forward(c, layer);
    plan_tensor_id gate_up = family_tensors_get(pool, b, FAMILY_GATE_UP, r->rows, 2 * wide);
    plan_tensor_id gated = family_tensors_get(pool, b, FAMILY_GATED, r->rows, wide);
    plan_weight_id norm = plan_builder_vector(b, hidden, "blk.%u.ffn_norm.weight", layer);
    plan_weight_id gate = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);
    plan_weight_id post = plan_builder_vector(b, hidden, "blk.%u.post_ffw_norm.weight", layer);
    plan_ops_rms_norm(b, r->active, norm, r->inner);
    plan_ops_linear(b, r->inner, (struct linear_weights){gate, up, PLAN_NONE}, gate_up);
    if (c->layer[layer].cuts)
        plan_ops_stream_cut(b, gate_up, 2, c->layer[layer].cut_deviations);
    plan_ops_gate(b, gate_up, GATE_GELU_TANH, gated);
    plan_ops_linear(b, gated, one(down), r->inner);
    plan_ops_rms_norm_add(b, r->inner, post, r->active);
}

static void list_per_layer(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct gemma3n_rows *r)
{
    uint32_t hidden = c->hidden, columns = c->per_layer_columns;
    plan_weight_id scale =
        plan_builder_vector(b, hidden, "blk.%u.altup_correct_scale.weight", layer);
    plan_weight_id gate = plan_builder_matrix(b, columns, hidden, "blk.%u.inp_gate.weight", layer);
    plan_weight_id back = plan_builder_matrix(b, hidden, columns, "blk.%u.proj.weight", layer);
    plan_weight_id post = plan_builder_vector(b, hidden, "blk.%u.post_norm.weight", layer);
    plan_ops_stream_take(b, r->predicted, 0, r->inner);
    if (c->scale_corrected)
        plan_ops_scale_columns(b, r->inner, scale);
    plan_ops_linear(b, r->inner, one(gate), r->narrow);
    plan_ops_gate_with(b, r->narrow, r->per_layer, layer * columns, GATE_GELU_TANH, r->narrow);
    plan_ops_linear(b, r->narrow, one(back), r->other);
    plan_ops_rms_norm(b, r->other, post, r->inner);
    plan_ops_stream_add(b, r->inner, 1, r->predicted);
}

/* From what the layer attended to, to its end: the next layer's streams are r->streams. */
static void list_rest(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                      struct family_tensors *pool, struct gemma3n_rows *r)
{
    plan_weight_id correct =
        plan_builder_matrix(b, c->streams, c->streams, "blk.%u.altup_correct_coef.weight", layer);
    list_join(b, c, layer, r);
    list_feed_forward(b, c, layer, pool, r);
    list_route(b, c, layer, r);
    plan_ops_linear(b, r->routed, one(correct), r->corrections);
    plan_ops_stream_correct(b, r->active, r->corrections, c->streams, r->predicted);
    list_per_layer(b, c, layer, r);
    plan_tensor_id done = r->predicted;
    r->predicted = r->streams;
    r->streams = done;
}

/* The streams' sum, in r->other. */
static void list_merge(struct plan_builder *b, const struct model_config *c,
                       const struct gemma3n_rows *r)
{
    plan_ops_stream_take(b, r->streams, 0, r->active);
    plan_ops_stream_match(b, r->active, r->active, (struct stream_match_params){0, 0, false},
                          r->other);
    plan_tensor_id projected = plan_builder_tensor(b, r->rows, c->hidden);
    for (uint32_t stream = 1; stream < c->streams; stream++) {
        plan_ops_stream_take(b, r->streams, stream, r->inner);
        plan_ops_linear(b, r->inner, one(stream_matrix(b, c, true, stream)), projected);
        plan_ops_stream_match(b, projected, r->active, (struct stream_match_params){0, 0, true},
                              r->other);
    }
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct family_tensors pool = {0};
    struct gemma3n_rows step = add_rows(b, c, PLAN_ROWS_STEP);
    struct gemma3n_rows last = add_rows(b, c, PLAN_ROWS_LOGITS);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    plan_weight_id output =
        c->tied_embeddings ? embedding
                           : plan_builder_matrix(b, c->vocab_tokens, c->hidden, "output.weight");
    if (c->tied_embeddings)
        plan_builder_use_in_config(b, "output.weight"); /* stored all the same: a copy */

    plan_ops_embed_rows(b, embedding, step.active);
    gemma_blocks_per_layer_inputs(b, c, step.active, step.per_layer);
    list_streams(b, c, &step);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        list_attention(b, c, layer, &pool, &step);
        list_rest(b, c, layer, &pool, &step);
    }
    list_attention(b, c, c->layers - 1, &pool, &step);
    plan_ops_gather_rows(b, step.predicted, last.predicted);
    plan_ops_gather_rows(b, step.active, last.active);
    plan_ops_gather_rows(b, step.inner, last.inner);
    plan_ops_gather_rows(b, step.attended, last.attended);
    plan_ops_gather_rows(b, step.per_layer, last.per_layer);
    list_rest(b, c, c->layers - 1, &pool, &last);
    list_merge(b, c, &last);

    plan_ops_rms_norm_scaled(b, last.other, norm, 1.0f / (float)c->streams, last.inner);
    plan_ops_linear(b, last.inner, one(output), logits);
    plan_ops_soft_cap(b, logits);
    return logits;
}

const struct model_family family_gemma3n = {
    .architecture = "gemma3n",
    .gguf = &checkpoint_gguf_gemma3n,
    .hf = &checkpoint_hf_gemma3n,
    .list_ops = list_ops,
};
