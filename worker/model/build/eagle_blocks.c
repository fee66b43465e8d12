/*
 * Both inputs of a row are given, one of them as zeros: a product of zeros is exactly zero, so one plan serves
 * rows of the target's states and rows of the head's own.
 */
#include "worker/model/build/eagle_blocks.h"

#include "worker/model/build/dense_blocks.h"
#include "worker/model/build/plan_ops.h"

static const struct dense_form plain = {0};

/* Lists h, [step rows, hidden]. */
static plan_tensor_id list_state(struct plan_builder *b, const struct model_config *c,
                                 const struct eagle_form *form)
{
    uint32_t taps = form->tap_columns;
    plan_tensor_id given = plan_builder_hidden_in(b, taps + c->hidden);
    plan_tensor_id tapped = plan_builder_tensor(b, PLAN_ROWS_STEP, taps);
    plan_tensor_id own = plan_builder_tensor(b, PLAN_ROWS_STEP, c->hidden);
    plan_tensor_id state = plan_builder_tensor(b, PLAN_ROWS_STEP, c->hidden);
    plan_weight_id fc = plan_builder_matrix(b, c->hidden, taps, "fc.weight");

    plan_ops_take_heads(b, given, (struct take_heads_params){.heads = 1}, tapped);
    plan_ops_take_heads(b, given, (struct take_heads_params){.heads = 1, .first = taps}, own);
    if (form->norm_before_fc)
        plan_ops_rms_norm(b, tapped, plan_builder_vector(b, taps, "input_norm.weight"), tapped);
    plan_ops_linear(b, tapped, (struct linear_weights){fc, PLAN_NONE, PLAN_NONE}, state);
    plan_ops_add_rows(b, state, own, 1.0f, state);
    return state;
}

/* Lists queries, keys and values of both halves, and attention. */
static void list_attention(struct plan_builder *b, const struct model_config *c,
                           plan_tensor_id embedded, plan_tensor_id normed, plan_tensor_id attended)
{
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    uint32_t q_rows = c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    plan_tensor_id joined = plan_builder_tensor(b, PLAN_ROWS_STEP, 2 * c->hidden);
    plan_tensor_id qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, slices.columns);
    struct linear_weights matrices = {
        plan_builder_matrix(b, q_rows, 2 * c->hidden, "blk.0.attn_q.weight"),
        plan_builder_matrix(b, kv_rows, 2 * c->hidden, "blk.0.attn_k.weight"),
        plan_builder_matrix(b, kv_rows, 2 * c->hidden, "blk.0.attn_v.weight"),
    };

    plan_ops_join_heads(b, embedded, normed, (struct join_heads_params){.heads = 1}, joined);
    plan_ops_linear(b, joined, matrices, qkv);
    plan_ops_rope(b, qkv, slices.queries, 0);
    plan_ops_rope(b, qkv, slices.keys, 0);
    plan_ops_kv_write(b, qkv, slices, 0);
    plan_ops_attention(b, qkv, slices, 0, attended);
}

static plan_weight_id output_matrix(struct plan_builder *b, const struct model_config *c,
                                    const struct eagle_form *form, plan_weight_id embedding)
{
    if (plan_builder_has(b, "output.weight") && !form->tied)
        return plan_builder_matrix(b, c->logit_tokens > 0 ? c->logit_tokens : c->vocab_tokens,
                                   c->hidden, "output.weight");
    if (c->logit_tokens > 0 || !form->tied)
        plan_builder_refuse(b, "tensor lm_head.weight is missing");
    plan_builder_use_in_config(b, "output.weight");
    return embedding;
}

plan_tensor_id eagle_blocks_list(struct plan_builder *b, const struct model_config *c,
                                 const struct eagle_form *form)
{
    uint32_t tokens = c->logit_tokens > 0 ? c->logit_tokens : c->vocab_tokens;
    plan_builder_use_in_config(b, "d2t");
    plan_builder_use_in_config(b, "t2d");
    plan_tensor_id state = list_state(b, c, form);
    struct dense_tensors last = dense_blocks_add_tensors(b, c, PLAN_ROWS_LOGITS);
    plan_tensor_id embedded = plan_builder_tensor(b, PLAN_ROWS_STEP, c->hidden);
    plan_tensor_id normed = plan_builder_tensor(b, PLAN_ROWS_STEP, c->hidden);
    plan_tensor_id attended = plan_builder_tensor(b, PLAN_ROWS_STEP, c->heads * c->head_dim);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, tokens);
    plan_weight_id embedding =
        plan_builder_shared_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id output = output_matrix(b, c, form, embedding);

    plan_ops_embed_rows(b, embedding, embedded);
    plan_ops_rms_norm(b, embedded, plan_builder_vector(b, c->hidden, "blk.0.attn_norm.weight"),
                      embedded);
    plan_ops_rms_norm(b, state, plan_builder_vector(b, c->hidden, "hidden_norm.weight"), normed);
    list_attention(b, c, embedded, normed, attended);
    plan_ops_gather_rows(b, form->norm_before_residual ? normed : state, last.residual);
    plan_ops_gather_rows(b, attended, last.attended);
    dense_blocks_list_output(b, c, &plain, 0, &last);
    dense_blocks_list_feed_forward(b, c, &plain, 0, &last);
    plan_builder_hidden_out(b, last.residual);
    plan_ops_rms_norm(b, last.residual, plan_builder_vector(b, c->hidden, "output_norm.weight"),
                      last.normed);
    plan_ops_linear(b, last.normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE}, logits);
    return logits;
}
