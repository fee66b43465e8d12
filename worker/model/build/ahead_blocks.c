/*
 * The product with two inputs side by side is a sum of two products, each with half of the matrix' columns.
 */
#include "worker/model/build/ahead_blocks.h"

#include "worker/model/build/plan_ops.h"

void ahead_blocks_list_input(struct plan_builder *b, const struct model_config *c,
                             plan_tensor_id normed, plan_tensor_id residual)
{
    uint32_t hidden = c->hidden;
    plan_tensor_id given = plan_builder_hidden_in(b, hidden);
    plan_tensor_id embedded = plan_builder_tensor(b, PLAN_ROWS_STEP, hidden);
    plan_weight_id embedding = plan_builder_matrix(b, c->vocab_tokens, hidden, "token_embd.weight");
    plan_weight_id of_token = plan_builder_columns(b, 2, 0, hidden, hidden, "nextn.eh_proj.weight");
    plan_weight_id of_state = plan_builder_columns(b, 2, 1, hidden, hidden, "nextn.eh_proj.weight");
    plan_weight_id enorm = plan_builder_vector(b, hidden, "nextn.enorm.weight");
    plan_weight_id hnorm = plan_builder_vector(b, hidden, "nextn.hnorm.weight");
    plan_builder_use_in_config(b, "nextn.embed_tokens.weight");
    plan_builder_use_in_config(b, "nextn.shared_head_head.weight");

    plan_ops_embed_rows(b, embedding, embedded);
    plan_ops_rms_norm(b, embedded, enorm, normed);
    plan_ops_linear(b, normed, (struct linear_weights){of_token, PLAN_NONE, PLAN_NONE}, residual);
    plan_ops_rms_norm(b, given, hnorm, normed);
    plan_ops_linear_add(b, normed, of_state, residual);
}

plan_tensor_id ahead_blocks_list_end(struct plan_builder *b, const struct model_config *c,
                                     bool keeps_normed, plan_tensor_id residual,
                                     plan_tensor_id normed)
{
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id output = plan_builder_output_matrix(b, c, embedding);
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "nextn.shared_head_norm.weight");

    plan_ops_rms_norm(b, residual, norm, normed);
    plan_builder_hidden_out(b, keeps_normed ? normed : residual);
    plan_ops_linear(b, normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE}, logits);
    return logits;
}
