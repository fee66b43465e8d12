/*
 * Keys of distances are the same for every sound, so they are computed here, once, with the weight's floats; so are the factors of
 * queries and keys, as one row of factors for the columns of q|k|v.
 */
#include "worker/model/build/conformer_blocks.h"

#include <math.h>
#include <stdlib.h>

#include "worker/model/build/clipped_blocks.h"
#include "worker/plan/float_dot.h"

#define KERNEL         3u /* taps of the convolutions over maps, along each axis */
#define WIDER          4u /* the feed-forward part than the residual */
#define LAYER_EPSILON  1e-6f
#define MOST_TIMESCALE 10000.0

struct conformer_tensors {
    plan_tensor_id residual; /* [patches, hidden], as are the next three */
    plan_tensor_id normed;
    plan_tensor_id clipped;
    plan_tensor_id row;
    plan_tensor_id wide; /* [patches, 4 * hidden] */
    plan_tensor_id pair; /* [patches, 2 * hidden] */
    plan_tensor_id qkv;  /* [patches, 3 * hidden] */
};

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

/* --- the map ------------------------------------------------------------------------------ */

/* Convolution `number`, from cells `in` to cells `out`, normed. */
static plan_tensor_id list_convolution(struct plan_builder *b, const struct vision_config *c,
                                       uint32_t number, plan_tensor_id x, struct row_cells in,
                                       struct row_cells out)
{
    const struct conformer_config *own = &c->conformer;
    uint32_t columns = out.lines * out.columns * out.channels;
    plan_tensor_id y = plan_builder_tensor(b, PLAN_ROWS_PATCHES, columns);
    plan_weight_id kernel =
        plan_builder_kernel(b, (struct kernel_shape){out.channels, KERNEL * KERNEL, in.channels},
                            "a.conv2d.%u.weight", number);
    plan_weight_id norm = plan_builder_vector(b, out.channels, "a.conv2d.%u.norm.weight", number);
    plan_ops_conv_2d(b, x, kernel,
                     (struct conv_2d_params){.in = in,
                                             .out = out,
                                             .taps_y = KERNEL,
                                             .taps_x = KERNEL,
                                             .before_y = own->lines_before,
                                             .before_x = 1},
                     y);
    if (own->past_norms)
        plan_ops_past_norm(b, y, plan_builder_tensor(b, PLAN_ROWS_PATCHES, 2 * out.lines), norm,
                           (struct past_norm_params){out, own->map_epsilon});
    else
        plan_ops_part_norm(b, y, norm,
                           (struct part_norm_params){out.lines * out.columns, own->map_epsilon});
    plan_ops_clip_columns(b, y, (struct clip_columns_params){.maximum = INFINITY}, y);
    plan_builder_end_stage(b);
    return y;
}

static uint32_t half_of(uint32_t columns)
{
    return (columns + 1) / 2;
}

static void list_map(struct plan_builder *b, const struct vision_config *c, plan_tensor_id residual)
{
    const struct conformer_config *own = &c->conformer;
    uint32_t mels = c->vision.mels, columns = half_of(half_of(mels));
    const struct row_cells cells[] = {{CONFORMER_STEP, mels, 1},
                                      {2, half_of(mels), own->channels[0]},
                                      {1, columns, own->channels[1]}};
    plan_tensor_id pixels = plan_builder_tensor(b, PLAN_ROWS_PATCHES, CONFORMER_STEP * mels);
    plan_ops_sound_lines(b, CONFORMER_STEP, pixels);
    plan_builder_end_stage(b);
    plan_tensor_id y = list_convolution(b, c, 0, pixels, cells[0], cells[1]);
    y = list_convolution(b, c, 1, y, cells[1], cells[2]);
    plan_ops_linear(b, y,
                    one(plan_builder_matrix(b, c->tower.hidden, columns * own->channels[1],
                                            "a.input_projection.weight")),
                    residual);
    plan_builder_end_stage(b);
}

/* --- layers ----------------------------------------------------------------------------------- */

/* Lists nothing if values of floats cannot exceed the bound. */
static plan_tensor_id list_bound(struct plan_builder *b, const struct vision_config *c,
                                 plan_tensor_id x, plan_tensor_id out)
{
    float bound = c->conformer.clipping;
    if (bound == 0.0f)
        return x;
    plan_ops_clip_columns(b, x, (struct clip_columns_params){.minimum = -bound, .maximum = bound},
                          out);
    return out;
}

static plan_weight_id norm_of(struct plan_builder *b, const struct vision_config *c,
                              const char *name, uint32_t layer)
{
    return plan_builder_vector(b, c->tower.hidden, "v.blk.%u.%s.weight", layer, name);
}

static void list_norm(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                      float epsilon, plan_tensor_id out)
{
    plan_builder_append(b, (struct plan_op){.stem = OP_rms_norm,
                                            .inputs = {x, PLAN_NONE},
                                            .weights = {weight, PLAN_NONE, PLAN_NONE},
                                            .output = out,
                                            .params.rms_norm = {.epsilon = epsilon}});
}

/* y += factor * norm(x); x may be overwritten. */
static void list_norm_add(struct plan_builder *b, plan_tensor_id x, plan_weight_id weight,
                          float factor, plan_tensor_id y)
{
    if (factor != 1.0f) {
        list_norm(b, x, weight, LAYER_EPSILON, x);
        plan_ops_scale(b, x, factor);
        plan_ops_add_rows(b, x, y, 1.0f, y);
        return;
    }
    plan_builder_append(b, (struct plan_op){.stem = OP_rms_norm_add,
                                            .inputs = {x, y},
                                            .weights = {weight, PLAN_NONE, PLAN_NONE},
                                            .output = y,
                                            .params.rms_norm_add = {.epsilon = LAYER_EPSILON}});
}

static void list_feed_forward(struct plan_builder *b, const struct vision_config *c, uint32_t layer,
                              const char *const stems[4], const struct conformer_tensors *t)
{
    uint32_t hidden = c->tower.hidden, wide = WIDER * hidden;
    const struct clipped_matrix up = {stems[1],  layer,   wide,    hidden, t->normed,
                                      t->normed, t->wide, t->wide, 0};
    const struct clipped_matrix down = {stems[2], layer,  hidden, wide, t->wide,
                                        t->wide,  t->row, t->row, 0};
    plan_tensor_id x = list_bound(b, c, t->residual, t->row);
    list_norm(b, x, norm_of(b, c, stems[0], layer), LAYER_EPSILON, t->normed);
    clipped_blocks_list(b, c->clipped, &up, 1);
    plan_builder_end_stage(b);
    plan_ops_activate(b, t->wide, ACTIVATION_SILU);
    clipped_blocks_list(b, c->clipped, &down, 1);
    (void)list_bound(b, c, t->row, t->row);
    list_norm_add(b, t->row, norm_of(b, c, stems[3], layer), c->conformer.residual_weight,
                  t->residual);
}

/* Of q|k|v: queries by the scales of a head's columns, keys by one factor. */
static plan_weight_id add_factors(struct plan_builder *b, const struct vision_config *c,
                                  uint32_t layer)
{
    const struct conformer_config *own = &c->conformer;
    uint32_t hidden = c->tower.hidden, head_dim = c->tower.head_dim;
    float *factors, scales[LIMIT_HEAD_DIM] = {0};
    bool read = plan_builder_floats(b, 1, head_dim, scales, "v.blk.%u.attn_scales", layer);
    plan_weight_id id = plan_builder_computed(b, 1, 3 * hidden, "factors of heads", &factors);
    for (uint32_t i = 0; read && factors && i < 3 * hidden; i++) {
        double scale = (double)scales[i % head_dim];
        double softplus = scale > 20.0 ? scale : log1p(exp(scale));
        factors[i] = i < hidden       ? (float)((double)own->query_scale * softplus)
                     : i < 2 * hidden ? own->key_scale
                                      : 1.0f;
    }
    return id;
}

/* signal[hidden]: sines of a distance over each timescale, then cosines. Zeros for a distance that the publisher's table
 * does not have. */
static void fill_signal(int64_t distance, uint32_t hidden, float *signal)
{
    uint32_t half = hidden / 2;
    double step = log(MOST_TIMESCALE) / (half > 1 ? half - 1 : 1);
    for (uint32_t i = 0; distance >= 0 && i < half; i++) {
        double angle = (double)distance * exp(-step * i);
        signal[i] = (float)sin(angle);
        signal[half + i] = (float)cos(angle);
    }
}

/* Row j is the key of distance before - j. */
static plan_weight_id add_distances(struct plan_builder *b, const struct vision_config *c,
                                    uint32_t layer)
{
    const struct conformer_config *own = &c->conformer;
    uint32_t hidden = c->tower.hidden, seen = own->before + 1;
    float *keys, *matrix = calloc((size_t)hidden * hidden, sizeof *matrix);
    float *signals = calloc((size_t)seen * hidden, sizeof *signals);
    plan_weight_id id = plan_builder_computed(b, seen, hidden, "distances", &keys);
    bool read =
        keys && matrix && signals &&
        plan_builder_floats(b, hidden, hidden, matrix, "v.blk.%u.attn_distance.weight", layer);
    for (uint32_t j = 0; read && j < seen; j++)
        fill_signal((int64_t)own->before - j + own->distance_offset, hidden,
                    signals + (size_t)j * hidden);
    for (uint32_t row = 0; read && row < hidden; row++)
        for (uint32_t j = 0; j < seen; j++)
            keys[(size_t)j * hidden + row] =
                float_dot(matrix + (size_t)row * hidden, signals + (size_t)j * hidden, hidden);
    if (keys && (!matrix || !signals))
        plan_builder_refuse(b, "no memory for keys of distances");
    free(matrix);
    free(signals);
    return id;
}

static void list_attention(struct plan_builder *b, const struct vision_config *c, uint32_t layer,
                           const struct conformer_tensors *t)
{
    static const char *const stems[] = {"attn_q", "attn_k", "attn_v"};
    struct qkv_slices slices = plan_ops_qkv_slices(&c->tower);
    uint32_t hidden = c->tower.hidden;
    struct clipped_matrix qkv[3];
    for (uint32_t i = 0; i < 3; i++)
        qkv[i] = (struct clipped_matrix){stems[i],   layer,  hidden, hidden,    t->normed,
                                         t->clipped, t->row, t->qkv, i * hidden};
    const struct clipped_matrix out = {"attn_out", layer,  hidden, hidden, t->normed,
                                       t->normed,  t->row, t->row, 0};
    plan_tensor_id x = list_bound(b, c, t->residual, t->row);
    list_norm(b, x, norm_of(b, c, "ln1", layer), LAYER_EPSILON, t->normed);
    clipped_blocks_list(b, c->clipped, qkv, 3);
    plan_ops_scale_columns(b, t->qkv, add_factors(b, c, layer));
    plan_builder_end_stage(b);
    plan_ops_near_attention(b, t->qkv, add_distances(b, c, layer),
                            (struct near_attention_params){.queries = slices.queries,
                                                           .keys = slices.keys.offset,
                                                           .values = slices.values.offset,
                                                           .before = c->conformer.before,
                                                           .scale = 1.0f,
                                                           .soft_cap = c->conformer.soft_cap},
                            t->normed);
    clipped_blocks_list(b, c->clipped, &out, 1);
    (void)list_bound(b, c, t->row, t->row);
    list_norm_add(b, t->row, norm_of(b, c, "attn_post_norm", layer), 1.0f, t->residual);
}

/* The convolution over time. */
static void list_time(struct plan_builder *b, const struct vision_config *c, uint32_t layer,
                      const struct conformer_tensors *t)
{
    uint32_t hidden = c->tower.hidden, taps = c->conformer.taps;
    float epsilon = c->tower.norm_epsilon;
    const struct row_cells cells = {1, 1, hidden};
    const struct clipped_matrix start = {"conv_start", layer,   2 * hidden, hidden, t->normed,
                                         t->normed,    t->pair, t->pair,    0};
    const struct clipped_matrix end = {"conv_end", layer,      hidden,     hidden, t->normed,
                                       t->normed,  t->clipped, t->clipped, 0};
    plan_weight_id kernel = plan_builder_kernel(b, (struct kernel_shape){hidden, taps, 1},
                                                "v.blk.%u.conv.weight", layer);
    list_norm(b, t->residual, norm_of(b, c, "ln_conv", layer), epsilon, t->normed);
    clipped_blocks_list_swapped(b, c->clipped, &start);
    plan_ops_gate(b, t->pair, GATE_SIGMOID, t->row);
    plan_ops_conv_depthwise(
        b, t->row, kernel,
        (struct conv_2d_params){
            .in = cells, .out = cells, .taps_y = taps, .taps_x = 1, .before_y = taps - 1},
        t->normed);
    (void)list_bound(b, c, t->normed, t->normed);
    list_norm(b, t->normed, norm_of(b, c, "conv_norm", layer), epsilon, t->normed);
    plan_ops_activate(b, t->normed, ACTIVATION_SILU);
    clipped_blocks_list(b, c->clipped, &end, 1);
    plan_ops_add_rows(b, t->clipped, t->residual, 1.0f, t->residual);
}

plan_tensor_id conformer_blocks_list(struct plan_builder *b, const struct vision_config *c)
{
    static const char *const first[] = {"ln_ffn1", "ffn1_up", "ffn1_down", "ffn1_post_norm"};
    static const char *const second[] = {"ln_ffn2", "ffn2_up", "ffn2_down", "ffn2_post_norm"};
    uint32_t hidden = c->tower.hidden;
    const struct conformer_tensors t = {
        .residual = plan_builder_tensor(b, PLAN_ROWS_PATCHES, hidden),
        .normed = plan_builder_tensor(b, PLAN_ROWS_PATCHES, hidden),
        .clipped = plan_builder_tensor(b, PLAN_ROWS_PATCHES, hidden),
        .row = plan_builder_tensor(b, PLAN_ROWS_PATCHES, hidden),
        .wide = plan_builder_tensor(b, PLAN_ROWS_PATCHES, WIDER * hidden),
        .pair = plan_builder_tensor(b, PLAN_ROWS_PATCHES, 2 * hidden),
        .qkv = plan_builder_tensor(b, PLAN_ROWS_PATCHES, 3 * hidden),
    };
    list_map(b, c, t.residual);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        list_feed_forward(b, c, layer, first, &t);
        list_attention(b, c, layer, &t);
        list_time(b, c, layer, &t);
        list_feed_forward(b, c, layer, second, &t);
        plan_tensor_id x = list_bound(b, c, t.residual, t.residual);
        list_norm(b, x, norm_of(b, c, "ln_out", layer), LAYER_EPSILON, t.residual);
        plan_builder_end_stage(b);
    }
    return t.residual;
}
