/*
 * The ops, one line each. The stem names the params struct, the CPU function (cpu_<stem>), the
 * shader and the op's test. The formulas and shapes stand here once; the CPU backend is the
 * specification, other backends agree within `tolerance` (relative to the largest magnitude of the
 * output row).
 *
 * Notation: R rows of the op's input kind; x, y, … inputs; W weights as [rows, columns] of
 * plan_weight; out the output. A column slice (offset, heads, head_dim) views a wide tensor as [R,
 * heads, head_dim] beginning at column `offset`.
 *
 *  embed_rows     out[r,:] = scale * W[token(r),:], row 0 for a token that W has no row for
 *                 (1e-3: a device may keep scales as f16); a row of an image is, with `features`,
 *                 the first part of its feature, unscaled, and otherwise the row of image_token
 *                 With another index than the token: the row position(r) + offset, or the segment of
 *                 r (0: its height among the batch's rope_positions) + offset; W's last row beyond it.
 *  rms_norm       out[r,:] = x[r,:] * rsqrt(mean(x[r,:]^2) + epsilon) * (W + weight_offset);
 *                 out may be x
 *  layer_norm     m = mean(x[r,:]);
 *                 out[r,:] = (x[r,:] - m) * rsqrt(mean((x[r,:] - m)^2) + epsilon) *
 *                 (W + weight_offset); out may be x
 *  rms_norm_add   out[r,:] = y[r,:] + rms_norm(x)[r,:]; out may be y
 *                 (post-norm into the residual)
 *  head_norm      rms_norm over each head of the slice, in place (out == x); W is [1, head_dim],
 *                 or 1 where there is none
 *  rope           rotates each head of the slice in place (out == x) by the row's position;
 *                 model_config.h has the formula. A patch has position (0, line, column)
 *  linear         out[r,:] = concat over i of x[r,:] . Wi^T   (1 to 3 weights sharing columns:
 *                 q|k|v, gate|up)
 *  linear_add     out[r,:] = y[r,:] + x[r,:] . W^T; out may be y
 *                 (projection into the residual)
 *  kv_write       stores the k and v slices of row r at position(r) of its sequence, in layer
 *                 `layer`'s cache; if the layer is latent, both are one slice, stored once
 *  attention      out[r,h,:] = sum_p softmax_p(s[p]) v[p, g] over the positions p of r's sequence
 *                 with p <= position(r) and, when window > 0, p > position(r) - window,
 *                 and, unless `causal`, those that the batch's visible_ends adds after it, of
 *                 which `near` takes those beyond position(r) + near away, where
 *                 g = h / (heads / kv_heads) and s[p] = scale * q[r,h] . k[p, g]; with
 *                 soft_cap > 0 that becomes soft_cap * tanh(s[p] / soft_cap).
 *                 Where there is a weight W [1, heads], a sink, exp(W[h]) joins the softmax's sum.
 *                 Rows of one step see each other's keys: kv_write of the layer comes first in
 *                 the plan. If the layer is latent, v[p, g] is k[p, g].
 *  gate           out[r,c] = activation(x[r,c]) * x[r, columns + c]   (x is [R, 2 * columns])
 *  gather_rows    out[l,:] = x[logit_row(l),:]   (step rows -> logit rows)
 *  bias_add       out[r,:] = x[r,:] + concat over i of Wi, in place (out == x); 1 to 3 vectors
 *  short_conv     a causal convolution of each channel by itself, W being [channels, taps]:
 *                 s[r, c] = sum_t W[c, t] * u[position(r) - taps + 1 + t, c]   over r's sequence,
 *                 u being 0 before position 0.
 *                 SILU: u = x's `channels` columns from `offset` on, out = silu(s + b), b being the
 *                 second weight [1, channels], or 0                            (qwen3.5, mamba2)
 *                 GATED: x is B | C | X, u = B * X, out = C * s                (lfm2)
 *                 The last taps - 1 columns of u are layer `layer`'s state of the sequence.
 *  gated_delta    Each value head of a sequence keeps a matrix S [key_dim, value_dim], zeros before
 *                 position 0, layer `layer`'s state. x is queries | keys | values (conv'd), y is
 *                 beta | alpha, one value per value head each; head h has key head g (op's params).
 *                 q = x's query g / (|q| * sqrt(key_dim)), k = x's key g / |k|, |z| being
 *                 sqrt(sum(z^2) + DELTA_NORM_EPSILON); rate = W0[h], or -exp(W0[h]);
 *                 S *= exp(rate * softplus(alpha[h] + W1[h]));
 *                 S += k x ((v - S^T . k) * sigmoid(beta[h])); out[r,h,:] = S^T . q
 *  ssm_scan       Each head of a sequence keeps a matrix S [head_dim, state], zeros before position 0,
 *                 layer `layer`'s state (Mamba 2). x is X, heads of head_dim | B | C, of each group
 *                 `state` columns (conv'd); y has a number for each head from `steps_offset` on; head h
 *                 has group h / (heads / groups). rate = W0[h], or -exp(W0[h]);
 *                 t = softplus(y[h] + W1[h]), bounded by least_step and most_step;
 *                 S = exp(rate * t) * S + t * X[h] x B[g];  out[r,h,:] = S . C[g] + W2[h] * X[h]
 *  group_norm_gate  z = x * silu(y), y being the slice's columns, whose heads are the groups; out is
 *                 z normed as by rms_norm in each group by itself, times W [1, columns]; with
 *                 `norm_first` out = rms_norm(x) * W * silu(y); without W out = z
 *  scale_parts    in place (out == x): the columns of part i, columns[i] of them, times scales[i]; the
 *                 parts are all columns in order
 *  head_norm_gate out[r,h,:] = rms_norm(x[r,h,:]) * W * silu(y[r,h,:]), h over the slice of y; W is
 *                 [1, head_dim]
 *  take_queries   x is heads of (query | gate), then other columns; out is the queries, then the
 *                 other columns
 *  gate_heads     out[r,h,:] = y[r,h,:] * sigmoid(gate h of x, as above); out may be y
 *  take_heads     x is `heads` equal heads; out[r, h, :] = x[r, h, first : first + n], n being the
 *                 output's columns for a head
 *  join_heads     likewise of x and y; out[r, h, :] = x[r, h, first:] | y[r, h, :]
 *  position_scale multiplies each head of the slice in place (out == x) by
 *                 1 + beta * log(1 + floor(position(r) / period_tokens))   (Llama 4, Ministral 3)
 *  soft_cap       out[r,c] = cap * tanh(scale * x[r,c] / cap), scale * x[r,c] when cap is 0;
 *                 out may be x   (logits: gemma2, cohere2)
 *  gate_with      out[r,c] = activation(x[r,c]) * y[r, offset + c]; out may be x
 *  add_rows       out[r,c] = scale * (x[r,c] + y[r,c]); out may be x or y
 *  scale_columns  out[r,c] = x[r,c] * W[c], or W[0] where W has one column; out may be x
 */

/*
 * Mixtures of experts: K experts are chosen for each row out of E.
 *
 * A route tensor is [R, 2 * K]: the numbers of a row's experts, e(r, j), by descending score
 * (ties by number), then their weights g(r, j). A weight of these ops is a stack of E
 * matrices (plan_weight.experts), or E rows of floats.
 *
 * moe_route: x are scores [R, E]. The K largest are chosen; g is the softmax over all E scores, or
 * over the chosen K; then, where `normalized`, divided by the sum of the K; then times `scale`,
 * then times W[e(r, j)] where there is a weight [1, E].
 * If the params are `weighed`: p are the scores' sigmoids, or their softmax over all E; c = p + W, or p
 * without a weight. With `groups`, the experts are so many equal runs, the score of a run is the sum
 * of its group_best largest c, and c of all but the groups_chosen runs of the largest scores is
 * minus infinity. The K largest c are chosen, and g is their p; then, where `normalized`, divided by
 * the sum of the K plus `epsilon`; then times `scale`.
 * If the experts are of rows of text, or of images alone, e(r, j) = j and g(r, j) = 0 in the other rows: rows of
 * images are those that have features, and tokens that are one of the two `edges`. Where g is 0, moe_linear and
 * moe_gate may leave their output as it is, and moe_combine does not read it.
 *
 * head_route: the route of rows that use all of K matrices in order: e(r, j) = j, g(r, j) = 1.
 *
 * moe_linear: x, route -> [R, K * n]. out[r, j, :] = concat over i of x(r, j) . Wi[e(r, j)]^T,
 * where x(r, j) is x[r, :], or for an x of K times the weights' columns its j-th part.
 *
 * moe_gate: x [R, K * 2 * n], route -> [R, K * n]. Of part j the first n columns are the gate's and
 * the second the up's; `interleaved`: they alternate. W, [E, 2 * n] or two of [E, n], is added in
 * the same order first. out = activation(gate) * up; with a `limit` above 0 gate is clamped to
 * limit, up to +-limit, and out = gate * sigmoid(alpha * gate) * (up + 1).
 *
 * moe_combine: x [R, K * n], route -> [R, n]. out[r, :] = sum_j g(r, j) * (x[r, j, :] +
 * W[e(r, j), :]); W, [E, n], may be missing; `add`: to what out holds.
 *
 * moe_shared: x [R, n] of an expert that every row uses, y [R, 1] its score.
 * out[r, :] += sigmoid(y[r, 0]) * x[r, :].
 */

/*
 * Streams: a tensor [R, n * C] viewed as n streams of C columns (gemma3n). Ops that change a part
 * of their output keep the rest.
 *
 * stream_take: out[r, :] = x[r, stream, :].
 *
 * stream_mix: out[r, j, :] = x[r, j, :] + sum_i y[r, j * n + i] * x[r, i, :].
 *
 * stream_correct: out[r, j, :] += (1 + y[r, j]) * (x[r, :] - out[r, active, :]), with out[r, active, :]
 * before the op.
 *
 * stream_add: out[r, j, :] += x[r, :] for every j >= `first`.
 *
 * stream_match: v = x[r, stream, :] * rms(y[r, :]) / max(rms(x[r, stream, :]), sqrt(1e-5));
 * out[r, out_stream, :] = v, or with `add` += v.
 *
 * stream_cut: in place (out == x) on stream 0 of `streams`: v = max(0, v - mean(v) - deviations *
 * std(v)), std dividing by C.
 */

/*
 * Vision towers, which have separate plans (plan.h): P rows are patches, F rows features. The
 * merge_side * merge_side patches of a feature are consecutive rows, as are the patches of a
 * window, if the tower has windows, and those of a tile.
 *
 * patch_rows: out[r, :] are the patch's pixels, each times the image's scale plus its bias,
 * then times gain plus shift, in the order channel, frame, line, column, or with channels_last
 * frame, line, column, channel; the frames of a video's patch from first_frame on, or all the same
 * image.
 *
 * sound_rows, the first op for sounds: out[r, 3 * m + i] is mel m of mel row 2 * y + tap + i - 2, y being the
 * number of r in its sound, and 0 beyond the sound.
 *
 * With `lines` n instead of a tap: out[r, i * mels + m] is mel m of mel row n * y + i, i < n.
 *
 * sound_taps: out[r, 3 * c + tap] = x[r, c], or 0 where mel row 2 * y + tap - 1 lies beyond the sound; out's
 * other columns are kept. So the two convolutions over three mel rows, of which the second goes on by two,
 * are products: a row has the three rows that the second one joins.
 *
 * Maps: a tensor of patch rows may hold a map that is finer than the rows. A row then has cells, [lines, columns,
 * channels] values of its patch; the map is that of the tile, in whose lines and columns the patch's follow those of
 * the patches before it. The patch of a sound has all frequencies, and its lines are a run of time: of `lines` for
 * each model_vision.sound_step mel rows the map has as many as the sound's mel rows begin. X(y, x, c) is 0
 * beyond the map.
 *
 * conv_2d: out(y, x, o) = sum over i < taps_y, j < taps_x and c of W[o, (i * taps_x + j) * channels + c] *
 * X(step_y * y + i - before_y, step_x * x + j - before_x, c); a step is the input's lines, or columns (rounded up), for one of out's.
 *
 * conv_depthwise: likewise of each channel by itself, out(y, x, c) = sum of W[c, i * taps_x + j] * X(…, c).
 *
 * part_norm: in place (out == x), each of `parts` equal parts of a row by itself as by layer_norm, W being [1, columns / parts].
 *
 * line_moments, of sounds: x has cells, out[r, 2 * l] is the mean of the values of line l of row r, out[r, 2 * l + 1] the mean of
 * their squared differences from it; the lines are the params' cells'.
 *
 * past_norm, of sounds: x has cells, y is their moments by line_moments. In place (out == x), line t of the sound is normed by all
 * lines up to it: with m(t) the mean of the means up to t, and v(t) the mean over u <= t of the line's second moment plus (its
 * mean - m(u))^2, out(t, c) = (x(t, c) - m(t)) * rsqrt(v(t) + epsilon) * W[channel of c].
 *
 * embed_over, of the text's plan: out[r,:] = W[token(r) - first, :] where W has that row and r no feature; other rows are kept.
 *
 * near_attention, of sounds: x has queries, keys and values, out[r,h,:] = sum_j softmax_j(s[j]) v[j,h] over the rows j of r's sound from
 * r - before to r, s[j] = scale * q[r,h] . k[j,h] + q[r,h] . W[j - r + before, h], W being [before + 1, heads * head_dim]; with
 * soft_cap > 0 that becomes soft_cap * tanh(s[j] / soft_cap).
 *
 * patch_positions: in place (out == x), x[r, :] += a row of W by the patch's line y and column x.
 * EXACT: row y * side + x. LINEAR: the tile's grid is scaled to W's side x side grid,
 * corners aligned, and the four rows around the patch are interpolated bilinearly. CUBIC: the
 * same with middles of patches over the table, and the 16 rows around by cubic convolution with a =
 * -0.75, those beyond the edge being the edge's. MIDDLES: middles too, and along each axis the rows
 * nearer than 1 to the patch's middle, weighted by 1 minus their distance, divided by the weights' sum.
 * AVERAGED: the same with distances divided by the table's rows for a patch, if these are more than 1.
 * CUBIC_AVERAGED: the same with Keys' cubic convolution, a = -0.5, of the distance divided likewise. AXES: W is [2 *
 * side], row x plus row side + y. LINE: W is [side], row y. With `lead`, of forms EXACT and CUBIC_AVERAGED: W has one more row,
 * the first one, and the row of a tile that is no patch (model_vision.lead_row) becomes that row plus the second weight.
 * An x of features has the line and column of their squares.
 *
 * patch_attention: out[r,h,:] = sum_j softmax_j(scale * q[r,h] . k[j,h]) v[j,h] over the patches j
 * of r's tile, or of its window if `windowed`.
 *
 * tile_attention: out[r,h,:] = sum_j softmax_j(scale * q[r,h] . k[j,h] + bias) v[j,h] over the rows j of r's tile, x being
 * patches with weights or features, a tile's lead row too, without; of r's window if `window` > 0, which are squares of so
 * many patches from the tile's corner on. Windows are whole: where they reach beyond the tile, q|k|v is W2, as of rows of
 * zeros. With n lines of the tile or window, bias = q[r,h] . T0[y(r) - y(j) + n - 1], plus the same of columns by T1; T0 is
 * W0 [any, head_dim] resized to 2 * n - 1 rows as by torch's interpolate(linear, align_corners=False). Rows of patches that are
 * a tile's lead row become 0.
 *
 * neighbour_rows: out[r, :] = the nine rows of x around r's patch, line by line, `step` lines and columns apart, zeros for
 * those beyond the tile. The patch of a feature is the first one of its square. Of rows that are no patch: zeros.
 *
 * patch_table: in place (out == x), x[r, :] += scale * W[i, :], for the rows r of tiles in canvases (model_vision.h)
 * that are class rows, patches or padding, as the params say. With T the row's aspect times the tiles of a canvas
 * plus its tile, and P its number in the tile, i is T * places + P, or with `places` 0 T; without `tiles`, T is 0.
 *
 * activate: out[r,c] = activation(x[r,c]); out may be x.
 *
 * clip_columns: out[r, offset + stride * c] = min(max(x[r, c], minimum), maximum) for every column of x;
 * out's other columns are kept; out may be x.
 *
 * join_rows: P -> F, out[f, :] = x[n * f, :] | ... | x[n * f + n - 1, :].
 *
 * join_padded: P -> F, where both have as many rows (model_vision.join_side n > 0) and a tile has side * side of them. Squares
 * of n x n patches are counted line by line, the last ones in a line or column with zeros for patches beyond the tile:
 * out[f, :], f the tile's row number i, = the patches of square i, line by line, or zeros if there are fewer squares.
 *
 * pool_rows: P -> F, out[f, :] = scale * the sum of those rows.
 *
 * feature_add, of the text's plan: in place (out == x), adds part `part` of its feature to each row
 * of an image; does nothing if the batch has no features.
 *
 * cross_attention, of the text's plan: out[r,h,:] = sum_j softmax_j(scale * q[r,h] . k[j,g]) v[j,g] over the rows j
 * of the feature pool in the ranges that the batch's `crossed` gives r, or 0 if it gives none; g = h / (heads / kv_heads).
 * With w = kv_heads * head_dim, a row of the pool has k in the w columns from 2 * layer * w on, and v in the
 * following ones.
 *
 * seeing_rows, of the text's plan: in place (out == x), rows to which the batch's `crossed` gives no ranges, or that it
 * says are blind, become 0.
 *
 * feature_place: x and W [1, text_hidden], for the mosaics and frames of the batch's images (model_vision.h):
 * each of their rows of the params' kind is a sum of up to four rows of x, times weights, or W. Frames have no W. W of
 * kind BETWEEN_VIEWS is the row between the first tile's lines and the mosaic's, of all others the row after a line.
 *
 * feature_write: x, [F, columns of a part], is part `part` of the batch's features: 0 replaces a
 * token's embedding, the others are for deepstack; or they are keys and values for cross_attention.
 */
#ifndef SHOAL_WORKER_PLAN_OP_LIST_H
#define SHOAL_WORKER_PLAN_OP_LIST_H

#include <stdbool.h>
#include <stdint.h>

#define OP_INPUTS_MAX  2
#define OP_WEIGHTS_MAX 3
#define OP_STREAMS_MAX 8

/*
 * One row per op, one column per fact that other files would otherwise list by stem:
 *
 *  inputs, min, max  the number of input tensors, and of weights
 *  tolerance         of a backend against the formula, relative to the row's largest magnitude
 *  weights           PRODUCT: matrices multiplied with the rows of x; TABLE: rows read by index;
 *                    VECTORS: few values, which backends keep as f32
 *  work (CPU)        ROWS: a thread computes the same rows in each of these ops;
 *                    PIECES: threads claim pieces, so any thread may compute any of them
 *  output            WHOLE: every value is replaced; IN_PLACE: out is x; KEPT: a part is changed or
 *                    added to and the rest stays; BY_PARAMS: KEPT where the op adds, else WHOLE;
 *                    NO_TENSOR: the KV cache or the features are written
 *  q8 (CPU)          BLOCKS: the op can quantize its output for a product that follows;
 *                    HEADS: if its heads are whole blocks; NONE: it cannot
 *  forms (Vulkan)    forms that the op's kernel writes (vulkan_program.h). ALL: every one;
 *                    F32: only f32; CHOSEN: vulkan_forms_<stem>() decides
 *  span (Vulkan)     of a workgroup of kernels over one row. ROW: the whole row, which the formula
 *                    sums over; TILE: some of its columns
 *  pad (Vulkan)      values that the op leaves in columns beyond the plan's. ZEROS; ANY;
 *                    NONE: its tensors have no such columns
 */
/* clang-format off */
/*    stem, inputs, min, max, tolerance, weights, work, output, q8, forms, span, pad */
#define OP_LIST(X)                                                                             \
    X(embed_rows,      0, 1, 1, 1e-3, TABLE,   ROWS,   WHOLE,     BLOCKS, ALL,    TILE, NONE)  \
    X(rms_norm,        1, 1, 1, 1e-5, VECTORS, ROWS,   WHOLE,     BLOCKS, ALL,    ROW,  NONE)  \
    X(layer_norm,      1, 1, 1, 1e-5, VECTORS, ROWS,   WHOLE,     BLOCKS, ALL,    ROW,  NONE)  \
    X(rms_norm_add,    2, 1, 1, 1e-5, VECTORS, ROWS,   KEPT,      BLOCKS, F32,    ROW,  NONE)  \
    X(head_norm,       1, 0, 1, 1e-5, VECTORS, ROWS,   IN_PLACE,  NONE,   F32,    TILE, NONE)  \
    X(rope,            1, 0, 0, 1e-5, NONE,    ROWS,   IN_PLACE,  NONE,   F32,    TILE, NONE)  \
    X(linear,          1, 1, 3, 2e-2, PRODUCT, PIECES, WHOLE,     NONE,   F32,    TILE, ANY)   \
    X(linear_add,      2, 1, 1, 2e-2, PRODUCT, PIECES, KEPT,      NONE,   F32,    TILE, NONE)  \
    X(kv_write,        1, 0, 0, 1e-3, NONE,    ROWS,   NO_TENSOR, NONE,   F32,    TILE, NONE)  \
    X(attention,       1, 0, 1, 2e-3, VECTORS, PIECES, WHOLE,     HEADS,  CHOSEN, TILE, NONE)  \
    X(gate,            1, 0, 0, 1e-4, NONE,    PIECES, WHOLE,     BLOCKS, CHOSEN, TILE, ZEROS) \
    X(gather_rows,     1, 0, 0, 0.0,  NONE,    PIECES, WHOLE,     BLOCKS, ALL,    TILE, NONE)  \
    X(bias_add,        1, 1, 3, 1e-6, VECTORS, ROWS,   IN_PLACE,  BLOCKS, ALL,    TILE, ANY)   \
    X(short_conv,      1, 1, 2, 1e-5, VECTORS, PIECES, WHOLE,     BLOCKS, ALL,    TILE, NONE)  \
    X(gated_delta,     2, 2, 2, 1e-4, VECTORS, PIECES, WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(ssm_scan,        2, 3, 3, 1e-4, VECTORS, PIECES, WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(group_norm_gate, 2, 0, 1, 1e-4, VECTORS, ROWS,   WHOLE,     BLOCKS, F32,    ROW,  NONE)  \
    X(scale_parts,     1, 0, 0, 1e-6, NONE,    ROWS,   IN_PLACE,  NONE,   F32,    TILE, NONE)  \
    X(head_norm_gate,  2, 1, 1, 1e-4, VECTORS, ROWS,   WHOLE,     BLOCKS, ALL,    TILE, NONE)  \
    X(take_queries,    1, 0, 0, 0.0,  NONE,    ROWS,   WHOLE,     NONE,   ALL,    TILE, NONE)  \
    X(gate_heads,      2, 0, 0, 1e-5, NONE,    ROWS,   WHOLE,     BLOCKS, ALL,    TILE, NONE)  \
    X(take_heads,      1, 0, 0, 0.0,  NONE,    ROWS,   WHOLE,     NONE,   ALL,    TILE, NONE)  \
    X(join_heads,      2, 0, 0, 0.0,  NONE,    ROWS,   WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(position_scale,  1, 0, 0, 1e-5, NONE,    ROWS,   IN_PLACE,  NONE,   F32,    TILE, NONE)  \
    X(soft_cap,        1, 0, 0, 1e-5, NONE,    PIECES, WHOLE,     NONE,   ALL,    TILE, NONE)  \
    X(gate_with,       2, 0, 0, 1e-4, NONE,    ROWS,   WHOLE,     BLOCKS, ALL,    TILE, NONE)  \
    X(add_rows,        2, 0, 0, 1e-6, NONE,    ROWS,   WHOLE,     NONE,   ALL,    TILE, NONE)  \
    X(scale_columns,   1, 1, 1, 1e-6, VECTORS, ROWS,   WHOLE,     NONE,   ALL,    TILE, NONE)  \
    X(moe_route,       1, 0, 1, 1e-6, VECTORS, ROWS,   WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(head_route,      0, 0, 0, 0.0,  NONE,    ROWS,   WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(moe_linear,      2, 1, 3, 2e-2, PRODUCT, PIECES, WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(moe_gate,        2, 0, 2, 1e-4, VECTORS, PIECES, WHOLE,     BLOCKS, CHOSEN, TILE, NONE)  \
    X(moe_combine,     2, 0, 1, 1e-5, VECTORS, PIECES, BY_PARAMS, NONE,   F32,    TILE, NONE)  \
    X(moe_shared,      2, 0, 0, 1e-5, NONE,    ROWS,   KEPT,      NONE,   F32,    TILE, NONE)  \
    X(stream_take,     1, 0, 0, 0.0,  NONE,    ROWS,   WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(stream_mix,      2, 0, 0, 1e-5, NONE,    ROWS,   WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(stream_correct,  2, 0, 0, 1e-5, NONE,    ROWS,   KEPT,      NONE,   F32,    TILE, NONE)  \
    X(stream_add,      1, 0, 0, 1e-6, NONE,    ROWS,   KEPT,      NONE,   F32,    TILE, NONE)  \
    X(stream_match,    2, 0, 0, 1e-5, NONE,    ROWS,   KEPT,      NONE,   F32,    ROW,  NONE)  \
    X(stream_cut,      1, 0, 0, 1e-4, NONE,    ROWS,   IN_PLACE,  NONE,   F32,    ROW,  NONE)

/* Ops of vision plans, and embed_over, feature_add, cross_attention and seeing_rows of text plans. */
#define VISION_OP_LIST(X)                                                                      \
    X(patch_rows,      0, 0, 0, 1e-6, NONE,    ROWS,   WHOLE,     NONE,   ALL,    TILE, ZEROS) \
    X(sound_rows,      0, 0, 0, 0.0,  NONE,    ROWS,   WHOLE,     NONE,   ALL,    TILE, ZEROS) \
    X(sound_taps,      1, 0, 0, 0.0,  NONE,    ROWS,   KEPT,      NONE,   F32,    TILE, NONE)  \
    X(conv_2d,         1, 1, 1, 1e-5, VECTORS, PIECES, WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(conv_depthwise,  1, 1, 1, 1e-5, VECTORS, PIECES, WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(part_norm,       1, 1, 1, 1e-5, VECTORS, ROWS,   IN_PLACE,  NONE,   F32,    TILE, NONE)  \
    X(line_moments,    1, 0, 0, 1e-5, NONE,    ROWS,   WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(past_norm,       2, 1, 1, 1e-5, VECTORS, PIECES, IN_PLACE,  NONE,   F32,    TILE, NONE)  \
    X(embed_over,      0, 1, 1, 1e-6, VECTORS, ROWS,   KEPT,      NONE,   F32,    TILE, NONE)  \
    X(near_attention,  1, 1, 1, 1e-4, VECTORS, PIECES, WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(patch_positions, 1, 1, 2, 1e-5, VECTORS, ROWS,   IN_PLACE,  NONE,   F32,    TILE, NONE)  \
    X(patch_table,     1, 1, 1, 1e-5, TABLE,   ROWS,   IN_PLACE,  NONE,   F32,    TILE, NONE)  \
    X(patch_attention, 1, 0, 0, 2e-3, NONE,    PIECES, WHOLE,     HEADS,  CHOSEN, TILE, NONE)  \
    X(tile_attention,  1, 0, 3, 2e-3, VECTORS, PIECES, WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(neighbour_rows,  1, 0, 0, 0.0,  NONE,    PIECES, WHOLE,     BLOCKS, ALL,    TILE, NONE)  \
    X(activate,        1, 0, 0, 1e-4, NONE,    ROWS,   WHOLE,     BLOCKS, ALL,    TILE, ZEROS) \
    X(clip_columns,    1, 0, 0, 0.0,  NONE,    ROWS,   KEPT,      NONE,   F32,    TILE, NONE)  \
    X(join_rows,       1, 0, 0, 0.0,  NONE,    PIECES, WHOLE,     BLOCKS, ALL,    TILE, NONE)  \
    X(join_padded,     1, 0, 0, 0.0,  NONE,    PIECES, WHOLE,     BLOCKS, ALL,    TILE, NONE)  \
    X(pool_rows,       1, 0, 0, 1e-6, NONE,    PIECES, WHOLE,     NONE,   ALL,    TILE, NONE)  \
    X(feature_write,   1, 0, 0, 0.0,  NONE,    ROWS,   NO_TENSOR, NONE,   F32,    TILE, NONE)  \
    X(feature_place,   1, 0, 1, 1e-6, VECTORS, ROWS,   NO_TENSOR, NONE,   F32,    TILE, NONE)  \
    X(feature_add,     1, 0, 0, 1e-6, NONE,    ROWS,   IN_PLACE,  NONE,   F32,    TILE, NONE)  \
    X(cross_attention, 1, 0, 0, 2e-3, NONE,    PIECES, WHOLE,     NONE,   F32,    TILE, NONE)  \
    X(seeing_rows,     1, 0, 0, 0.0,  NONE,    ROWS,   IN_PLACE,  NONE,   F32,    TILE, NONE)
/* clang-format on */

#define EVERY_OP_LIST(X) OP_LIST(X) VISION_OP_LIST(X)

enum op_stem {
#define OP_ENUM(stem, ...) OP_##stem,
    EVERY_OP_LIST(OP_ENUM)
#undef OP_ENUM
        OP_STEM_COUNT
};

struct column_slice {
    uint32_t offset; /* first column */
    uint32_t heads;
    uint32_t head_dim;
};

/* PLAIN, no activation, is gate_with's only. SIGMOID is 1 / (1 + exp(-x)), the others x times one. */
enum gate_activation { GATE_SILU, GATE_GELU_TANH, GATE_PLAIN, GATE_SIGMOID };

enum row_index { INDEX_TOKEN, INDEX_POSITION, INDEX_SEGMENT };
struct embed_rows_params {
    float scale;
    enum row_index index;
    uint32_t offset; /* added to a position or segment */
    bool features;   /* rows of images are features */
    uint32_t image_token;
};
struct rms_norm_params {
    float epsilon;
    float weight_offset;
};
struct layer_norm_params {
    float epsilon;
    float weight_offset;
};
struct rms_norm_add_params {
    float epsilon;
    float weight_offset;
};
struct head_norm_params {
    struct column_slice slice;
    float epsilon;
    float weight_offset;
};
struct rope_params {
    struct column_slice slice;
    uint32_t rope; /* index into model_config.ropes */
};
struct linear_params {
    uint32_t unused;
};
struct linear_add_params {
    uint32_t unused;
};
struct kv_write_params {
    struct column_slice keys;
    struct column_slice values;
    uint32_t layer;
};
struct attention_params {
    struct column_slice queries;
    uint32_t kv_heads;
    uint32_t layer;
    uint32_t window;
    float scale;
    float soft_cap; /* 0: none */
    bool causal;    /* ignores visible_ends */
    uint32_t near;  /* above 0: p <= position(r) + near; the window is near + 1 */
};
struct gate_params {
    enum gate_activation activation;
};
struct gather_rows_params {
    uint32_t unused;
};
struct bias_add_params {
    uint32_t unused;
};
enum short_conv_form { SHORT_CONV_SILU, SHORT_CONV_GATED };
struct short_conv_params {
    enum short_conv_form form;
    uint32_t layer;
    uint32_t offset; /* SILU: first column of x */
};
#define DELTA_NORM_EPSILON 1e-6f
struct gated_delta_params {
    uint32_t key_heads;
    uint32_t value_heads;
    uint32_t key_dim;
    uint32_t value_dim;
    uint32_t layer;
    bool heads_alternate; /* value head h has key head h % key_heads, otherwise that of its group */
    bool rate_is_log;     /* the rate is -exp(W0) */
};
struct ssm_scan_params {
    uint32_t heads;
    uint32_t head_dim;
    uint32_t groups; /* divides heads */
    uint32_t state;
    uint32_t layer;
    uint32_t steps_offset;
    bool rate_is_log;
    float least_step;
    float most_step; /* may be infinite */
};
struct group_norm_gate_params {
    struct column_slice gates; /* of the second input; its heads are the groups */
    bool norm_first;
    float epsilon; /* used if there is a weight */
};
#define SCALE_PARTS_MAX 5u
struct scale_parts_params {
    uint32_t count;
    uint32_t columns[SCALE_PARTS_MAX];
    float scales[SCALE_PARTS_MAX];
};
struct head_norm_gate_params {
    struct column_slice gates; /* of the second input */
    float epsilon;
};
struct take_queries_params {
    uint32_t heads;
    uint32_t head_dim;
};
struct gate_heads_params {
    uint32_t heads;
    uint32_t head_dim;
};
struct take_heads_params {
    uint32_t heads;
    uint32_t first; /* column of a head */
};
struct join_heads_params {
    uint32_t heads;
    uint32_t first; /* column of a head of x */
};
struct position_scale_params {
    struct column_slice slice;
    uint32_t period_tokens;
    float beta;
};
struct soft_cap_params {
    float scale;
    float cap; /* 0: none */
};
enum expert_rows { EXPERTS_OF_ALL, EXPERTS_OF_TEXT, EXPERTS_OF_IMAGES };
struct moe_route_params {
    uint32_t chosen;     /* K */
    bool softmax_chosen; /* over the chosen scores only */
    bool normalized;
    float scale;
    bool weighed; /* the fields below count; the weight is W of c */
    bool sigmoid;
    uint32_t groups; /* 0: none */
    uint32_t groups_chosen;
    uint32_t group_best; /* 1 or 2 */
    float epsilon;
    enum expert_rows rows;
    uint32_t edges[2]; /* with rows of text or images: tokens around images */
};
struct head_route_params {
    uint32_t unused; /* no parameters */
};
struct moe_linear_params {
    uint32_t unused;
};
struct moe_gate_params {
    enum gate_activation activation; /* GATE_SILU if there is a limit */
    bool interleaved;
    float limit; /* 0: none */
    float alpha; /* with a limit */
};
struct moe_combine_params {
    bool add;
};
struct moe_shared_params {
    uint32_t unused;
};
struct gate_with_params {
    enum gate_activation activation;
    uint32_t offset; /* first column of y */
};
struct add_rows_params {
    float scale;
};
struct scale_columns_params {
    uint32_t unused;
};
struct stream_take_params {
    uint32_t stream;
};
struct stream_mix_params {
    uint32_t streams;
};
struct stream_correct_params {
    uint32_t streams;
    uint32_t active;
};
struct stream_add_params {
    uint32_t first;
};
struct stream_match_params {
    uint32_t stream;
    uint32_t out_stream;
    bool add;
};
struct stream_cut_params {
    uint32_t streams;
    float deviations;
};

struct patch_rows_params {
    uint32_t frames;
    uint32_t first_frame;
    bool channels_last;
    float gain;
    float shift;
};
#define SOUND_TAPS 3u
struct sound_rows_params {
    uint32_t tap;   /* below SOUND_TAPS */
    uint32_t lines; /* 0: the form with a tap */
};
struct row_cells {
    uint32_t lines;
    uint32_t columns;
    uint32_t channels;
};
struct conv_2d_params {
    struct row_cells in;
    struct row_cells out; /* lines, and of images columns, divide those of `in` */
    uint32_t taps_y;
    uint32_t taps_x;
    uint32_t before_y; /* below the taps */
    uint32_t before_x;
};
struct conv_depthwise_params {
    struct conv_2d_params shape; /* of as many channels */
};
struct part_norm_params {
    uint32_t parts;
    float epsilon;
};
struct line_moments_params {
    struct row_cells cells;
};
struct past_norm_params {
    struct row_cells cells;
    float epsilon;
};
struct embed_over_params {
    uint32_t first;
};
struct near_attention_params {
    struct column_slice queries;
    uint32_t keys; /* first column; as many heads of that size */
    uint32_t values;
    uint32_t before;
    float scale;
    float soft_cap; /* 0: none */
};
struct sound_taps_params {
    uint32_t tap;
};
enum position_form {
    POSITIONS_EXACT,
    POSITIONS_LINEAR,
    POSITIONS_AXES,
    POSITIONS_CUBIC,
    POSITIONS_MIDDLES,
    POSITIONS_AVERAGED,
    POSITIONS_LINE,
    POSITIONS_CUBIC_AVERAGED
};
struct patch_positions_params {
    enum position_form form;
    uint32_t side;
    bool lead;
};
struct patch_table_params {
    float scale;
    bool tiles;      /* the row depends on the canvas and the tile */
    uint32_t places; /* class row and patches of a tile, if it depends on these; else 0 */
    bool leads;      /* the rows that take part */
    bool patches;
    bool pads;
};
struct patch_attention_params {
    struct column_slice queries;
    uint32_t keys; /* first column; as many heads of that size */
    uint32_t values;
    bool windowed;
    float scale;
};
struct tile_attention_params {
    struct column_slice queries;
    uint32_t keys; /* first column; as many heads of that size */
    uint32_t values;
    uint32_t window; /* patches; 0: the whole tile */
    float scale;
};
#define NEIGHBOURS 9u
struct neighbour_rows_params {
    uint32_t step; /* patches */
};
/* QUICK is x * sigmoid(1.702 x); ERF is exact; RELU2 is max(x, 0)^2. XIELU is positive * x^2 +
 * linear * x for x > 0, else negative * (expm1(min(x, least)) - x) + linear * x. */
enum activation {
    ACTIVATION_SILU,
    ACTIVATION_GELU_TANH,
    ACTIVATION_GELU_ERF,
    ACTIVATION_GELU_QUICK,
    ACTIVATION_RELU2,
    ACTIVATION_XIELU
};
struct xielu_params {
    float positive;
    float negative;
    float linear;
    float least;
};
struct activate_params {
    enum activation activation;
    struct xielu_params xielu; /* of XIELU */
};
struct clip_columns_params {
    uint32_t offset; /* first column of out */
    float minimum;   /* both may be infinite */
    float maximum;
    uint32_t stride; /* column c goes to offset + stride * c; 0: 1 */
};
struct join_rows_params {
    uint32_t count; /* n */
};
struct join_padded_params {
    uint32_t side; /* of a tile, patches */
    uint32_t join; /* n */
};
struct pool_rows_params {
    uint32_t count; /* n */
    float scale;
};
struct feature_write_params {
    uint32_t part;
};
/* Rows of an image's features in the pool. */
enum feature_kind {
    FEATURE_OF_SQUARE, /* and every row of a mosaic */
    FEATURE_AFTER_LINE,
    FEATURE_BEFORE_IMAGE,
    FEATURE_AFTER_IMAGE,
    FEATURE_FRAME_KINDS,
    FEATURE_BETWEEN_VIEWS = FEATURE_FRAME_KINDS
};
struct feature_place_params {
    uint32_t kind; /* enum feature_kind */
};
struct feature_add_params {
    uint32_t part;
};
struct cross_attention_params {
    struct column_slice queries;
    uint32_t kv_heads;
    uint32_t layer; /* of those that attend so */
    float scale;
};
struct seeing_rows_params {
    uint32_t unused;
};

union op_params {
#define OP_PARAMS(stem, ...) struct stem##_params stem;
    EVERY_OP_LIST(OP_PARAMS)
#undef OP_PARAMS
};

enum op_weights { OP_WEIGHTS_NONE, OP_WEIGHTS_VECTORS, OP_WEIGHTS_PRODUCT, OP_WEIGHTS_TABLE };
enum op_work { OP_WORK_ROWS, OP_WORK_PIECES };
enum op_output {
    OP_OUTPUT_WHOLE,
    OP_OUTPUT_IN_PLACE,
    OP_OUTPUT_KEPT,
    OP_OUTPUT_BY_PARAMS,
    OP_OUTPUT_NO_TENSOR
};
enum op_q8 { OP_Q8_NONE, OP_Q8_BLOCKS, OP_Q8_HEADS };
enum op_span { OP_SPAN_TILE, OP_SPAN_ROW };
enum op_pad { OP_PAD_NONE, OP_PAD_ZEROS, OP_PAD_ANY };

/* A row of the table. */
struct op_facts {
    const char *name;
    uint32_t inputs;
    uint32_t weights_min;
    uint32_t weights_max;
    float tolerance;
    enum op_weights weights;
    enum op_work work;
    enum op_output output;
    enum op_q8 q8;
    enum op_span span;
    enum op_pad pad;
};

const struct op_facts *op_facts(enum op_stem stem);
const char *op_stem_name(enum op_stem stem);

#endif
