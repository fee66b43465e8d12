/*
 * The projection of per-layer inputs is normed right after it is scaled. norm(s * x) is norm(x)
 * with another epsilon, so the scaling is folded into the epsilon.
 */
#include "worker/model/build/gemma_blocks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/plan/float_dot.h"

void gemma_blocks_per_layer_inputs(struct plan_builder *b, const struct model_config *c,
                                   plan_tensor_id x, plan_tensor_id inputs)
{
    uint32_t columns = c->per_layer_columns, all = c->layers * columns;
    plan_tensor_id table = plan_builder_tensor(b, PLAN_ROWS_STEP, all);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->per_layer_tokens, all, "per_layer_token_embd.weight");
    plan_weight_id projection =
        plan_builder_matrix(b, all, c->hidden, "per_layer_model_proj.weight");
    plan_weight_id norm = plan_builder_vector(b, columns, "per_layer_proj_norm.weight");
    plan_ops_embed_rows_scaled(b, embedding, sqrtf((float)columns), table);
    plan_ops_linear(b, x, (struct linear_weights){projection, PLAN_NONE, PLAN_NONE}, inputs);
    plan_ops_head_norm_scaled(b, inputs, (struct column_slice){0, c->layers, columns}, norm,
                              1.0f / sqrtf((float)c->hidden));
    plan_ops_add_rows(b, inputs, table, sqrtf(0.5f), inputs);
}

void gemma_blocks_keys(struct plan_builder *b, uint32_t layer, struct qkv_slices slices,
                       plan_tensor_id qkv)
{
    plan_weight_id norm =
        plan_builder_vector(b, slices.keys.head_dim, "blk.%u.attn_k_norm.weight", layer);
    plan_ops_head_norm(b, qkv, slices.keys, norm);
    plan_ops_head_norm(b, qkv, slices.values, PLAN_NONE);
    plan_ops_rope(b, qkv, slices.queries, layer);
    plan_ops_rope(b, qkv, slices.keys, layer);
    plan_ops_kv_write(b, qkv, slices, layer);
}

void gemma_blocks_pass_over_keys(struct plan_builder *b, uint32_t layer)
{
    static const char *const stems[] = {"attn_k", "attn_v", "attn_k_norm"};
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        struct stored_name name;
        snprintf(name.text, sizeof name.text, "blk.%u.%s.weight", layer, stems[i]);
        plan_builder_use_in_config(b, name.text);
    }
}

/* --- tokens of other modalities --------------------------------------------------------------- */

/* out = x * rsqrt(mean(x^2) + epsilon) * weight; `weight` may be NULL, out may be x */
static void norm_floats(const float *x, const float *weight, uint32_t columns, float epsilon,
                        float *out)
{
    double squares = 0.0;
    for (uint32_t c = 0; c < columns; c++)
        squares += (double)x[c] * (double)x[c];
    double factor = 1.0 / sqrt(squares / columns + (double)epsilon);
    for (uint32_t c = 0; c < columns; c++)
        out[c] = (float)((double)x[c] * factor * (weight ? (double)weight[c] : 1.0));
}

static void embed(const struct modality_rows *r, const float *row, const float *norm,
                  const float *matrix, float *normed, float *out)
{
    uint32_t columns = r->tokens.columns;
    norm_floats(row, norm, columns, r->tokens.epsilon, normed);
    for (uint32_t h = 0; h < r->hidden; h++)
        out[h] = float_dot(normed, matrix + (size_t)h * columns, columns);
    norm_floats(out, NULL, r->hidden, r->tokens.epsilon, out);
}

plan_weight_id gemma_blocks_modality_rows(struct plan_builder *b, const struct modality_rows *r)
{
    uint32_t columns = r->tokens.columns;
    size_t table = (size_t)r->tokens.rows * columns, matrix = (size_t)r->hidden * columns;
    float *out, *work = calloc(table + matrix + 2 * (size_t)columns, sizeof *work);
    plan_weight_id id = plan_builder_computed(b, r->count, r->hidden, r->stem, &out);
    if (!work)
        plan_builder_refuse(b, "no memory for tokens of other modalities");
    if (work && out &&
        plan_builder_floats(b, r->tokens.rows, columns, work, "hard.%s.embedding.weight",
                            r->stem) &&
        plan_builder_floats(b, 1, columns, work + table, "hard.%s.norm.weight", r->stem) &&
        plan_builder_floats(b, r->hidden, columns, work + table + columns,
                            "hard.%s.projection.weight", r->stem))
        for (uint32_t row = 0; row < r->count; row++)
            embed(r, work + (size_t)(r->first + row) * columns, work + table,
                  work + table + columns, work + table + columns + matrix,
                  out + (size_t)row * r->hidden);
    free(work);
    return id;
}
