/*
 *   x = embedding
 *   each layer:  x += mixes(norm(x)), its attention and its state space mixer, where it has them
 *                x += feed(norm(x))
 *   logits = Woutput . norm(x) [scaled]
 *
 * If layers have a single part, a layer without a mix is x += feed(norm(x)). As in llama, only logit
 * rows are computed after the last layer's mixes.
 */
#include "worker/model/build/hybrid_blocks.h"

#include "worker/model/build/ssm_blocks.h"

/* Which parts the layers have. */
struct hybrid_parts {
    bool attends;
    bool scans;
    bool feeds; /* a feed-forward part without experts */
};

/* One set for step rows and one for logit rows. */
struct hybrid_tensors {
    struct dense_tensors dense;
    plan_tensor_id mixed; /* [rows, columns of all heads of a mixer], gated */
};

/* For step rows. */
struct hybrid_inputs {
    plan_tensor_id qkv; /* [rows, plan_ops_qkv_slices()] */
    struct ssm_tensors ssm;
};

static bool has_feed_forward(const struct model_config *c, const struct hybrid_form *form,
                             uint32_t layer)
{
    return !form->single || c->layer[layer].kind == LAYER_FEED_FORWARD;
}

static struct hybrid_parts find_parts(const struct model_config *c, const struct hybrid_form *form)
{
    struct hybrid_parts parts = {false, false, false};
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        parts.attends |= layer_kind_attends(c->layer[layer].kind);
        parts.scans |= layer_kind_scans(c->layer[layer].kind);
        parts.feeds |= has_feed_forward(c, form, layer) && !c->layer[layer].experts;
    }
    return parts;
}

static struct hybrid_tensors add_tensors(struct plan_builder *b, const struct model_config *c,
                                         struct hybrid_parts parts, enum plan_rows rows)
{
    struct hybrid_tensors t = {.dense.residual = plan_builder_tensor(b, rows, c->hidden),
                               .dense.normed = plan_builder_tensor(b, rows, c->hidden)};
    if (parts.attends)
        t.dense.attended = plan_builder_tensor(b, rows, c->heads * c->head_dim);
    if (parts.scans)
        t.mixed = plan_builder_tensor(b, rows, ssm_blocks_columns(c));
    if (parts.feeds) {
        t.dense.gate_up = plan_builder_tensor(b, rows, 2 * c->feed_forward);
        t.dense.gated = plan_builder_tensor(b, rows, c->feed_forward);
    }
    if (c->experts.count > 0)
        t.dense.experts = expert_blocks_add_tensors(b, c, rows);
    return t;
}

static struct hybrid_inputs add_inputs(struct plan_builder *b, const struct model_config *c,
                                       struct hybrid_parts parts)
{
    struct hybrid_inputs in = {0};
    if (parts.attends)
        in.qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns);
    if (parts.scans)
        in.ssm = ssm_blocks_add_tensors(b, c);
    return in;
}

/* Computes the layer's mixes from the residual, before their last projections. */
static void list_mixes(struct plan_builder *b, const struct model_config *c,
                       const struct hybrid_form *form, uint32_t layer,
                       const struct hybrid_tensors *t, const struct hybrid_inputs *in)
{
    enum layer_kind kind = c->layer[layer].kind;
    if (layer_kind_attends(kind))
        dense_blocks_list_attention(b, c, &form->dense, layer, &t->dense, in->qkv);
    if (!layer_kind_scans(kind))
        return;
    if (!layer_kind_attends(kind))
        plan_ops_rms_norm(b, t->dense.residual,
                          plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer),
                          t->dense.normed);
    ssm_blocks_list(b, c, layer, t->dense.normed, &in->ssm, t->mixed);
}

/* The rest of the layer. */
static void list_outputs(struct plan_builder *b, const struct model_config *c,
                         const struct hybrid_form *form, uint32_t layer,
                         const struct hybrid_tensors *t)
{
    enum layer_kind kind = c->layer[layer].kind;
    if (layer_kind_attends(kind)) {
        if (c->attended_factor > 0.0f)
            plan_ops_scale(b, t->dense.attended, c->attended_factor);
        dense_blocks_list_output(b, c, &form->dense, layer, &t->dense);
    }
    if (layer_kind_scans(kind))
        ssm_blocks_list_output(b, c, layer, t->mixed, t->dense.normed, t->dense.residual);
    if (!has_feed_forward(c, form, layer))
        return;
    if (form->list_feed_forward)
        form->list_feed_forward(b, c, layer, &t->dense);
    else
        dense_blocks_list_feed_forward(b, c, &form->dense, layer, &t->dense);
}

plan_tensor_id hybrid_blocks_list(struct plan_builder *b, const struct model_config *c,
                                  const struct hybrid_form *form)
{
    struct hybrid_parts parts = find_parts(c, form);
    struct hybrid_tensors step = add_tensors(b, c, parts, PLAN_ROWS_STEP);
    struct hybrid_tensors last = add_tensors(b, c, parts, PLAN_ROWS_LOGITS);
    struct hybrid_inputs in = add_inputs(b, c, parts);
    uint32_t end = c->layers - 1;
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    plan_weight_id output = plan_builder_output_matrix(b, c, embedding);
    plan_builder_use_in_config(b, "rope_freqs.weight");

    plan_ops_embed_rows(b, embedding, step.dense.residual);
    for (uint32_t layer = 0; layer < end; layer++) {
        list_mixes(b, c, form, layer, &step, &in);
        list_outputs(b, c, form, layer, &step);
    }
    list_mixes(b, c, form, end, &step, &in);
    plan_ops_gather_rows(b, step.dense.residual, last.dense.residual);
    if (layer_kind_attends(c->layer[end].kind))
        plan_ops_gather_rows(b, step.dense.attended, last.dense.attended);
    if (layer_kind_scans(c->layer[end].kind))
        plan_ops_gather_rows(b, step.mixed, last.mixed);
    list_outputs(b, c, form, end, &last);

    plan_ops_rms_norm(b, last.dense.residual, norm, last.dense.normed);
    plan_ops_linear(b, last.dense.normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE},
                    logits);
    plan_ops_soft_cap(b, logits);
    return logits;
}
