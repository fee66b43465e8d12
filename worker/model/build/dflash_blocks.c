/*
 * Rows of context pass no layer: only their keys and values are computed, in a plan of their own, so a prompt
 * costs little.
 */
#include "worker/model/build/dflash_blocks.h"

#include <stdio.h>

#include "worker/model/build/dense_blocks.h"
#include "worker/model/build/plan_ops.h"

static const struct dense_form form = {.head_norms = true};

static void list_half(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                      const struct dense_tensors *t)
{
    dense_blocks_list_output(b, c, &form, layer, t);
    dense_blocks_list_feed_forward(b, c, &form, layer, t);
}

/* What only the other pass uses. */
static void leave(struct plan_builder *b, const char *const *names)
{
    for (; *names; names++)
        plan_builder_use_in_config(b, *names);
}

plan_tensor_id dflash_blocks_list(struct plan_builder *b, const struct model_config *c,
                                  const struct dflash_target *target)
{
    static const char *const of_context[] = {"fc.weight", "hidden_norm.weight", NULL};
    struct dense_tensors step = dense_blocks_add_tensors(b, c, PLAN_ROWS_STEP);
    struct dense_tensors last = dense_blocks_add_tensors(b, c, PLAN_ROWS_LOGITS);
    plan_tensor_id qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding = plan_builder_copy(b, target->embedding);
    plan_weight_id output = plan_builder_copy(b, target->output);
    leave(b, of_context);

    plan_ops_embed_rows_scaled(b, embedding, target->embedding_scale, step.residual);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        dense_blocks_list_attention(b, c, &form, layer, &step, qkv);
        list_half(b, c, layer, &step);
    }
    dense_blocks_list_attention(b, c, &form, c->layers - 1, &step, qkv);
    plan_ops_gather_rows(b, step.residual, last.residual);
    plan_ops_gather_rows(b, step.attended, last.attended);
    list_half(b, c, c->layers - 1, &last);
    plan_ops_rms_norm(b, last.residual, plan_builder_vector(b, c->hidden, "output_norm.weight"),
                      last.normed);
    plan_ops_linear(b, last.normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE}, logits);
    plan_ops_soft_cap(b, logits);
    return logits;
}

/* Keys and values of one layer; `kv` is scratch. */
static void list_cells(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                       plan_tensor_id normed, plan_tensor_id kv)
{
    static const char *const of_block[] = {"attn_q",      "attn_q_norm", "attn_norm",
                                           "attn_output", "ffn_norm",    "ffn_gate",
                                           "ffn_up",      "ffn_down",    NULL};
    uint32_t rows = c->kv_heads * c->head_dim;
    struct qkv_slices slices = {.keys = {0, c->kv_heads, c->head_dim},
                                .values = {rows, c->kv_heads, c->head_dim},
                                .columns = 2 * rows};
    struct linear_weights matrices = {
        plan_builder_matrix(b, rows, c->hidden, "blk.%u.attn_k.weight", layer),
        plan_builder_matrix(b, rows, c->hidden, "blk.%u.attn_v.weight", layer), PLAN_NONE};
    plan_ops_linear(b, normed, matrices, kv);
    plan_ops_head_norm(b, kv, slices.keys,
                       plan_builder_vector(b, c->head_dim, "blk.%u.attn_k_norm.weight", layer));
    plan_ops_rope(b, kv, slices.keys, layer);
    plan_ops_kv_write(b, kv, slices, layer);
    for (const char *const *name = of_block; *name; name++) {
        char whole[STORED_NAME_BYTES];
        snprintf(whole, sizeof whole, "blk.%u.%s.weight", layer, *name);
        plan_builder_use_in_config(b, whole);
    }
}

void dflash_blocks_list_context(struct plan_builder *b, const struct model_config *c,
                                uint32_t tap_columns)
{
    static const char *const of_block[] = {"output_norm.weight", NULL};
    plan_tensor_id given = plan_builder_hidden_in(b, tap_columns);
    plan_tensor_id tapped = plan_builder_tensor(b, PLAN_ROWS_STEP, tap_columns);
    plan_tensor_id normed = plan_builder_tensor(b, PLAN_ROWS_STEP, c->hidden);
    plan_tensor_id kv = plan_builder_tensor(b, PLAN_ROWS_STEP, 2 * c->kv_heads * c->head_dim);
    plan_weight_id fc = plan_builder_matrix(b, c->hidden, tap_columns, "fc.weight");
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "hidden_norm.weight");
    leave(b, of_block);

    plan_ops_take_heads(b, given, (struct take_heads_params){.heads = 1}, tapped);
    plan_ops_linear(b, tapped, (struct linear_weights){fc, PLAN_NONE, PLAN_NONE}, normed);
    plan_ops_rms_norm(b, normed, norm, normed);
    for (uint32_t layer = 0; layer < c->layers; layer++)
        list_cells(b, c, layer, normed, kv);
}
