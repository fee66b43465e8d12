/*
 * Gemma 4's tower: images of any shape, a position table for columns and one for lines, heads that
 * are normed and rotated by column and line, norms before and after both halves of a layer, and at
 * the end averages over squares of patches:
 *
 *   x = W . (2 pixels - 1) + column[x] + line[y]
 *   each layer:  q, k, v = W . norm(x), each head normed, q and k rotated
 *                x += norm(Wo . attention(q, k, v))
 *                x += norm(Wdown . (gelu(Wgate . norm(x)) * Wup . norm(x)))
 *   feature = W . norm((mean of a square * sqrt(hidden) - bias) * scale)
 *
 * Norms of values and of features have no weights. Some models have the bias and scale. Others clip
 * the input and output of each matrix in a layer (clipped_blocks.h).
 *
 * Stages: two for each layer, and the features.
 */
#include <math.h>

#include "worker/model/build/clipped_blocks.h"
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static const struct tower_form form = {.rms_norms = true, .gated = true};

struct gemma4_tower {
    struct tower_tensors t;
    /* Clipped towers only. */
    plan_tensor_id clipped; /* [patches, hidden] */
    plan_tensor_id head;    /* [patches, hidden]: queries, keys or values */
    plan_tensor_id half;    /* [patches, feed_forward]: gate or up */
};

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

/* --- layers ----------------------------------------------------------------------------------- */

static void list_attention(struct plan_builder *b, const struct vision_config *c, uint32_t layer,
                           const struct gemma4_tower *tower)
{
    static const char *const stems[] = {"attn_q", "attn_k", "attn_v"};
    const struct tower_tensors *t = &tower->t;
    struct qkv_slices slices = plan_ops_qkv_slices(&c->tower);
    uint32_t hidden = c->tower.hidden, head_dim = c->tower.head_dim;
    struct clipped_matrix qkv[3];
    for (uint32_t i = 0; i < 3; i++)
        qkv[i] = (struct clipped_matrix){stems[i],       layer,       hidden, hidden,    t->normed,
                                         tower->clipped, tower->head, t->qkv, i * hidden};
    plan_ops_rms_norm(b, t->residual, plan_builder_vector(b, hidden, "v.blk.%u.ln1.weight", layer),
                      t->normed);
    clipped_blocks_list(b, c->clipped, qkv, 3);
    plan_ops_head_norm(b, t->qkv, slices.queries,
                       plan_builder_vector(b, head_dim, "v.blk.%u.attn_q_norm.weight", layer));
    plan_ops_head_norm(b, t->qkv, slices.keys,
                       plan_builder_vector(b, head_dim, "v.blk.%u.attn_k_norm.weight", layer));
    plan_ops_head_norm(b, t->qkv, slices.values, PLAN_NONE);
    plan_ops_patch_rope(b, t->qkv, slices);
    plan_ops_patch_attention(b, t->qkv, slices, false, t->attended);
    clipped_blocks_list(b, c->clipped,
                        &(const struct clipped_matrix){"attn_out", layer, hidden, hidden,
                                                       t->attended, t->attended, t->normed,
                                                       t->normed, 0},
                        1);
    plan_ops_rms_norm_add(b, t->normed,
                          plan_builder_vector(b, hidden, "v.blk.%u.attn_post_norm.weight", layer),
                          t->residual);
}

static void list_feed_forward(struct plan_builder *b, const struct vision_config *c, uint32_t layer,
                              const struct gemma4_tower *tower)
{
    const struct tower_tensors *t = &tower->t;
    uint32_t hidden = c->tower.hidden, wide = c->tower.feed_forward;
    const struct clipped_matrix gate_up[] = {
        {"ffn_gate", layer, wide, hidden, t->normed, tower->clipped, tower->half, t->wide, 0},
        {"ffn_up", layer, wide, hidden, t->normed, tower->clipped, tower->half, t->wide, wide},
    };
    plan_ops_rms_norm(b, t->residual, plan_builder_vector(b, hidden, "v.blk.%u.ln2.weight", layer),
                      t->normed);
    clipped_blocks_list(b, c->clipped, gate_up, 2);
    plan_ops_gate(b, t->wide, GATE_GELU_TANH, t->gated);
    clipped_blocks_list(b, c->clipped,
                        &(const struct clipped_matrix){"ffn_down", layer, hidden, wide, t->gated,
                                                       t->gated, t->normed, t->normed, 0},
                        1);
    plan_ops_rms_norm_add(b, t->normed,
                          plan_builder_vector(b, hidden, "v.blk.%u.ffn_post_norm.weight", layer),
                          t->residual);
}

/* The bias is subtracted. With all signs flipped that is an addition. */
static void list_features(struct plan_builder *b, const struct vision_config *c,
                          const struct tower_tensors *t)
{
    uint32_t hidden = c->tower.hidden, text_hidden = c->vision.text_hidden;
    uint32_t square = c->vision.merge_side * c->vision.merge_side;
    float scale = sqrtf((float)hidden) / (float)square;
    plan_tensor_id pooled = plan_builder_tensor(b, PLAN_ROWS_FEATURES, hidden);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text_hidden);
    plan_ops_pool_rows(b, t->residual,
                       (struct pool_rows_params){square, c->standardized ? -scale : scale}, pooled);
    if (c->standardized) {
        plan_ops_bias_add(b, pooled, one(plan_builder_vector(b, hidden, "v.std_bias")));
        plan_ops_scale_columns(b, pooled, plan_builder_vector(b, hidden, "v.std_scale"));
        plan_ops_scale(b, pooled, -1.0f);
    }
    plan_ops_head_norm(b, pooled, (struct column_slice){0, 1, hidden}, PLAN_NONE);
    plan_ops_linear(b, pooled, one(plan_builder_matrix(b, text_hidden, hidden, "mm.weight")),
                    feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

void tower_gemma4_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    struct gemma4_tower tower = {.t = tower_blocks_add_tensors(b, c, &form)};
    if (c->clipped) {
        tower.clipped = plan_builder_tensor(b, PLAN_ROWS_PATCHES, c->tower.hidden);
        tower.head = plan_builder_tensor(b, PLAN_ROWS_PATCHES, c->tower.hidden);
        tower.half = plan_builder_tensor(b, PLAN_ROWS_PATCHES, c->tower.feed_forward);
    }
    /* Folders have a matrix whose columns end with the channel, projector files a kernel. */
    bool kernel = plan_builder_fastest(b, "v.patch_embd.weight") == c->vision.patch_side;
    tower_blocks_list_patches(
        b, c, &(const struct tower_patches){.channels_last = !kernel, .gain = 2.0f, .shift = -1.0f},
        &tower.t);
    tower_blocks_positions(b, c, POSITIONS_AXES, &tower.t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        list_attention(b, c, layer, &tower);
        plan_builder_end_stage(b);
        list_feed_forward(b, c, layer, &tower);
        plan_builder_end_stage(b);
    }
    list_features(b, c, &tower.t);
}
