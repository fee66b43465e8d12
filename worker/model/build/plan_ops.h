/*
 * One call per op stem, for family files. Epsilon, scales, windows and ropes are taken from the
 * config, so a family names tensors, weights and layers only. Formulas: op_list.h.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_PLAN_OPS_H
#define SHOAL_WORKER_MODEL_BUILD_PLAN_OPS_H

#include "worker/model/build/plan_builder.h"

/* Columns of a fused q|k|v tensor with the config's heads. */
struct qkv_slices {
    struct column_slice queries;
    struct column_slice keys;
    struct column_slice values;
    uint32_t columns;
};
struct qkv_slices plan_ops_qkv_slices(const struct model_config *config);
/* The same for one layer's own sizes; queries alone if the layer stores no keys. */
struct qkv_slices plan_ops_layer_slices(const struct model_config *config, uint32_t layer);

void plan_ops_embed_rows(struct plan_builder *b, plan_weight_id weight, plan_tensor_id out);
/* From another table than the config's embedding. */
void plan_ops_embed_rows_scaled(struct plan_builder *b, plan_weight_id weight, float scale,
                                plan_tensor_id out);
/* Rows by position or segment, unscaled. */
void plan_ops_embed_places(struct plan_builder *b, plan_weight_id weight, enum row_index index,
                           uint32_t offset, plan_tensor_id out);
void plan_ops_rms_norm(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                       plan_tensor_id out);
void plan_ops_layer_norm(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                         plan_tensor_id out);
void plan_ops_layer_norm_epsilon(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                                 float epsilon, plan_tensor_id out);
/* y += norm(x) */
void plan_ops_rms_norm_add(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                           plan_tensor_id y);
/* Norms scale * x: equal to norming x with another epsilon. */
void plan_ops_head_norm_scaled(struct plan_builder *b, plan_tensor_id x, struct column_slice slice,
                               plan_weight_id weight, float scale);
void plan_ops_head_norm_epsilon(struct plan_builder *b, plan_tensor_id x, struct column_slice slice,
                                plan_weight_id weight, float epsilon);
/* `weight` may be PLAN_NONE: a norm without weights. */
void plan_ops_head_norm(struct plan_builder *b, plan_tensor_id x, struct column_slice slice,
                        plan_weight_id weight);
void plan_ops_rope(struct plan_builder *b, plan_tensor_id x, struct column_slice slice,
                   uint32_t layer);
/* `second` and `third` may be PLAN_NONE. */
struct linear_weights {
    plan_weight_id first;
    plan_weight_id second;
    plan_weight_id third;
};
void plan_ops_linear(struct plan_builder *b, plan_tensor_id x, struct linear_weights weights,
                     plan_tensor_id out);
/* y += x . W^T */
void plan_ops_linear_add(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                         plan_tensor_id y);
void plan_ops_kv_write(struct plan_builder *b, plan_tensor_id qkv, struct qkv_slices slices,
                       uint32_t layer);
/* Attends over the keys that `layer` stored, or those of the layer that it shares keys with. */
void plan_ops_attention(struct plan_builder *b, plan_tensor_id qkv, struct qkv_slices slices,
                        uint32_t layer, plan_tensor_id out);
/* The same with sinks, one number per query head in its softmax, or PLAN_NONE. */
void plan_ops_attention_sinks(struct plan_builder *b, plan_tensor_id qkv, struct qkv_slices slices,
                              uint32_t layer, plan_weight_id sinks, plan_tensor_id out);
void plan_ops_gate(struct plan_builder *b, plan_tensor_id x, enum gate_activation activation,
                   plan_tensor_id out);
/* x += first | second | third, vectors of as many columns as x; the latter two may be PLAN_NONE. */
void plan_ops_bias_add(struct plan_builder *b, plan_tensor_id x, struct linear_weights biases);
void plan_ops_short_conv(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                         struct short_conv_params params, plan_tensor_id out);
/* SILU form; `bias` may be PLAN_NONE. */
void plan_ops_short_conv_bias(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                              plan_weight_id bias, struct short_conv_params params,
                              plan_tensor_id out);
/* The config's state space mixer in layer `layer`: x is its values and groups, `projected` the whole
 * projection, whose last columns are steps; rates, biases of steps, skips. */
void plan_ops_ssm_scan(struct plan_builder *b, plan_tensor_id x, plan_tensor_id projected,
                       struct linear_weights weights, uint32_t layer, plan_tensor_id out);
/* Its norm (PLAN_NONE: none) and gates, the first columns of `projected`. */
void plan_ops_group_norm_gate(struct plan_builder *b, plan_tensor_id x, plan_tensor_id projected,
                              plan_weight_id weight, plan_tensor_id out);
void plan_ops_scale_parts(struct plan_builder *b, plan_tensor_id x,
                          struct scale_parts_params params);
/* The config's delta net in layer `layer`: x and y as in op_list.h. */
void plan_ops_gated_delta(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y,
                          struct linear_weights rate_and_bias, uint32_t layer, plan_tensor_id out);
void plan_ops_head_norm_gate(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y,
                             struct column_slice gates, plan_weight_id weight, plan_tensor_id out);
/* Splits queries from their gates, with the config's heads. */
void plan_ops_take_queries(struct plan_builder *b, plan_tensor_id x, plan_tensor_id out);
/* y *= gates of x */
void plan_ops_gate_heads(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y);
void plan_ops_position_scale(struct plan_builder *b, plan_tensor_id x, struct column_slice slice);
/* The columns of each head from params.first on, as many as the output has. */
void plan_ops_take_heads(struct plan_builder *b, plan_tensor_id x, struct take_heads_params params,
                         plan_tensor_id out);
/* Each head's columns of x from params.first on, then those of y. */
void plan_ops_join_heads(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y,
                         struct join_heads_params params, plan_tensor_id out);
/* The route by which moe_linear multiplies each head of a row with a matrix of its own. */
void plan_ops_head_route(struct plan_builder *b, plan_tensor_id route);
/* Chooses every row's experts by its scores x; `scales`, one for each expert, may be PLAN_NONE; if
 * the config's experts are weighed, it is the bias of the choice. */
void plan_ops_moe_route(struct plan_builder *b, plan_tensor_id x, bool softmax_chosen,
                        plan_weight_id scales, plan_tensor_id route);
/* The same for experts of rows of text or of images, with the config's edges; `bias` of the choice. */
void plan_ops_moe_route_of(struct plan_builder *b, plan_tensor_id x, enum expert_rows rows,
                           plan_weight_id bias, plan_tensor_id route);
void plan_ops_moe_linear(struct plan_builder *b, plan_tensor_id x, plan_tensor_id route,
                         struct linear_weights stacks, plan_tensor_id out);
/* The biases may be PLAN_NONE; see struct moe_gate_params for the rest. */
void plan_ops_moe_gate(struct plan_builder *b, plan_tensor_id x, plan_tensor_id route,
                       struct linear_weights biases, struct moe_gate_params params,
                       plan_tensor_id out);
/* out = the weighted sum, or with `add` out += it; `bias` may be PLAN_NONE. */
void plan_ops_moe_combine(struct plan_builder *b, plan_tensor_id x, plan_tensor_id route,
                          plan_weight_id bias, bool add, plan_tensor_id out);
/* out += sigmoid(score) * x; score [rows, 1] */
void plan_ops_moe_shared(struct plan_builder *b, plan_tensor_id x, plan_tensor_id score,
                         plan_tensor_id out);
void plan_ops_gather_rows(struct plan_builder *b, plan_tensor_id x, plan_tensor_id out);
/* Scales and caps the logits in place; lists nothing if the config does neither. */
void plan_ops_soft_cap(struct plan_builder *b, plan_tensor_id logits);
/* out = activation(x) * y's columns from `offset` on */
void plan_ops_gate_with(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y, uint32_t offset,
                        enum gate_activation activation, plan_tensor_id out);
/* out = scale * (x + y) */
void plan_ops_add_rows(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y, float scale,
                       plan_tensor_id out);
/* x *= weight, one number or one a column */
void plan_ops_scale_columns(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight);

/* y += factor * (x . W^T + bias). May change x; `bias` may be PLAN_NONE. `branch`, of y's shape, is
 * scratch, used if there is a bias and a factor. */
void plan_ops_project(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                      plan_weight_id bias, float factor, plan_tensor_id branch, plan_tensor_id y);

/* x *= scale */
void plan_ops_scale(struct plan_builder *b, plan_tensor_id x, float scale);
/* tanh(scale * x) in place */
void plan_ops_tanh(struct plan_builder *b, plan_tensor_id x, float scale);
/* Norms scale * x. */
void plan_ops_rms_norm_scaled(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                              float scale, plan_tensor_id out);
/* Adds `offset` to the weights instead of the config's norm_weight_offset. */
void plan_ops_rms_norm_offset(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                              float offset, plan_tensor_id out);
/* Ops on several residual streams; see op_list.h. */
void plan_ops_stream_take(struct plan_builder *b, plan_tensor_id x, uint32_t stream,
                          plan_tensor_id out);
void plan_ops_stream_mix(struct plan_builder *b, plan_tensor_id x, plan_tensor_id coefficients,
                         uint32_t streams, plan_tensor_id out);
void plan_ops_stream_correct(struct plan_builder *b, plan_tensor_id x, plan_tensor_id coefficients,
                             struct stream_correct_params params, plan_tensor_id out);
void plan_ops_stream_add(struct plan_builder *b, plan_tensor_id x, uint32_t first,
                         plan_tensor_id out);
void plan_ops_stream_match(struct plan_builder *b, plan_tensor_id x, plan_tensor_id y,
                           struct stream_match_params params, plan_tensor_id out);
void plan_ops_stream_cut(struct plan_builder *b, plan_tensor_id x, uint32_t streams,
                         float deviations);

/* Vision plans. Heads, hidden size and rope come from the tower's config. */
void plan_ops_patch_rows(struct plan_builder *b, struct patch_rows_params params,
                         plan_tensor_id out);
/* `lead` is PLAN_NONE unless params.lead. */
void plan_ops_patch_positions(struct plan_builder *b, plan_tensor_id x, plan_weight_id table,
                              plan_weight_id lead, struct patch_positions_params params);
/* x += scale * the table's row, in towers with canvases. */
void plan_ops_patch_table(struct plan_builder *b, plan_tensor_id x, plan_weight_id table,
                          struct patch_table_params params);
/* Rotates queries and keys by the patches' positions: the first dimensions of a head by rope 0, the
 * following ones by the next rope. */
void plan_ops_patch_rope(struct plan_builder *b, plan_tensor_id qkv, struct qkv_slices slices);
void plan_ops_patch_attention(struct plan_builder *b, plan_tensor_id qkv, struct qkv_slices slices,
                              bool windowed, plan_tensor_id out);
/* Of all tiles alike, `window` being as in tile_attention; weights: two tables of relative positions and the bias of qkv, or
 * none of features. */
void plan_ops_tile_attention(struct plan_builder *b, plan_tensor_id qkv,
                             struct tile_attention_params params, struct linear_weights weights,
                             plan_tensor_id out);
/* In a stage after that of x. */
void plan_ops_neighbour_rows(struct plan_builder *b, plan_tensor_id x, uint32_t step,
                             plan_tensor_id out);
void plan_ops_activate(struct plan_builder *b, plan_tensor_id x, enum activation activation);
void plan_ops_xielu(struct plan_builder *b, plan_tensor_id x, struct xielu_params params);
/* Writes the columns of `out` from the offset on. */
void plan_ops_sound_rows(struct plan_builder *b, uint32_t tap, plan_tensor_id out);
void plan_ops_sound_taps(struct plan_builder *b, plan_tensor_id x, uint32_t tap,
                         plan_tensor_id out);
/* All mels of so many mel rows, which are those that a row of the tower stands for. */
void plan_ops_sound_lines(struct plan_builder *b, uint32_t lines, plan_tensor_id out);
/* Convolutions over maps (op_list.h); `x` and `out` have rows of the params' cells. */
void plan_ops_conv_2d(struct plan_builder *b, plan_tensor_id x, plan_weight_id kernel,
                      struct conv_2d_params params, plan_tensor_id out);
void plan_ops_conv_depthwise(struct plan_builder *b, plan_tensor_id x, plan_weight_id kernel,
                             struct conv_2d_params params, plan_tensor_id out);
/* In place, each part by itself. */
void plan_ops_part_norm(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                        struct part_norm_params params);
/* moments of x's lines, and x normed by them */
void plan_ops_past_norm(struct plan_builder *b, plan_tensor_id x, plan_tensor_id moments,
                        plan_weight_id weight, struct past_norm_params params);
/* Text plans: rows of tokens from `first` on become the table's, as far as it has them. */
void plan_ops_embed_over(struct plan_builder *b, plan_weight_id table, uint32_t first,
                         plan_tensor_id out);
/* `distances`: a row of keys for each row that is seen, the farthest first. */
void plan_ops_near_attention(struct plan_builder *b, plan_tensor_id qkv, plan_weight_id distances,
                             struct near_attention_params params, plan_tensor_id out);
void plan_ops_clip_columns(struct plan_builder *b, plan_tensor_id x,
                           struct clip_columns_params params, plan_tensor_id out);
void plan_ops_join_rows(struct plan_builder *b, plan_tensor_id x, uint32_t count,
                        plan_tensor_id out);
/* Squares of patches of tiles that their side does not divide (join_padded). In a stage after that of x. */
void plan_ops_join_padded(struct plan_builder *b, plan_tensor_id x,
                          struct join_padded_params params, plan_tensor_id out);
void plan_ops_pool_rows(struct plan_builder *b, plan_tensor_id x, struct pool_rows_params params,
                        plan_tensor_id out);
void plan_ops_feature_write(struct plan_builder *b, plan_tensor_id x, uint32_t part);
/* Places the features of mosaics, with `newline` after each line or between two views, or the rows of a kind of frames, without
 * (PLAN_NONE). In a stage of its own, because it reads features of other tiles. */
void plan_ops_feature_place(struct plan_builder *b, plan_tensor_id x, plan_weight_id newline,
                            enum feature_kind kind);
/* Text plans: adds the feature part that belongs after layer `layer` to the residual; lists nothing
 * if the config has no more parts. */
void plan_ops_feature_add(struct plan_builder *b, plan_tensor_id residual, uint32_t layer);
/* Text plans: attends with all of x, queries of the config's heads, to the keys and values of features that are
 * for the `number`-th layer of those that do so. */
void plan_ops_cross_attention(struct plan_builder *b, plan_tensor_id x, uint32_t number,
                              plan_tensor_id out);
/* Text plans: rows that see no features become 0. */
void plan_ops_seeing_rows(struct plan_builder *b, plan_tensor_id x);

#endif
