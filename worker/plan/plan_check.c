/*
 * The shape rules of every op, one function per stem, run when the plan is built.
 *
 * Backends do not check shapes: after this check an op does not make them read or write outside its
 * tensors. A rule function returns NULL or the error text. Numbers of inputs and weights and the
 * rule of in-place ops come from the op list.
 *
 * Order is not checked here: plan_builder.c checks that a tensor is written before it is read.
 */
#include "worker/plan/plan_check.h"

#include <math.h>
#include <stddef.h>

#include "worker/plan/plan_check_rules.h"

static const char *check_embed_rows(const struct op_view *v)
{
    if (v->out->rows != PLAN_ROWS_STEP)
        return "the output is not of step rows";
    bool by_token = v->op->params.embed_rows.index == INDEX_TOKEN;
    if (v->w->columns != v->out->columns || (by_token && v->w->rows > v->plan->config.vocab_tokens))
        return "the weight is not [at most vocabulary, output columns]";
    if (!by_token && v->op->params.embed_rows.offset >= v->w->rows)
        return "the offset is beyond the weight";
    if (v->op->params.embed_rows.image_token >= v->plan->config.vocab_tokens)
        return "the image token is beyond the vocabulary";
    return positive(v->op->params.embed_rows.scale) ? NULL : "the scale is not positive";
}

static const char *check_rms_norm(const struct op_view *v)
{
    if (!same_shape(v->x, v->out))
        return "input and output differ in shape";
    return check_norm(v, v->x->columns, v->op->params.rms_norm.epsilon);
}

static const char *check_layer_norm(const struct op_view *v)
{
    if (!same_shape(v->x, v->out))
        return "input and output differ in shape";
    return check_norm(v, v->x->columns, v->op->params.layer_norm.epsilon);
}

static const char *check_rms_norm_add(const struct op_view *v)
{
    if (!same_shape(v->x, v->out) || !same_shape(v->y, v->out))
        return "inputs and output differ in shape";
    if (v->x == v->out)
        return "the output overwrites the normalized input";
    return check_norm(v, v->x->columns, v->op->params.rms_norm_add.epsilon);
}

static const char *check_head_norm(const struct op_view *v)
{
    const struct head_norm_params *params = &v->op->params.head_norm;
    if (!slice_fits(&params->slice, v->x))
        return "the slice lies outside the input";
    return check_norm(v, params->slice.head_dim, params->epsilon);
}

static const char *check_rope(const struct op_view *v)
{
    const struct rope_params *params = &v->op->params.rope;
    if (v->x->rows != PLAN_ROWS_STEP && v->x->rows != PLAN_ROWS_PATCHES)
        return "only step rows and patches have positions";
    if (!slice_fits(&params->slice, v->x))
        return "the slice lies outside the input";
    if (params->rope >= v->plan->config.rope_count)
        return "the config has no such rotary embedding";
    if (v->plan->config.ropes[params->rope].dims > params->slice.head_dim)
        return "more dimensions are rotated than a head has";
    if (v->plan->config.ropes[params->rope].divided &&
        v->plan->config.ropes[params->rope].pairing != ROPE_PAIRS_HALVES)
        return "only pairs of halves are divided";
    return NULL;
}

static const char *check_linear(const struct op_view *v)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < OP_WEIGHTS_MAX && v->op->weights[i] != PLAN_NONE; i++) {
        const struct plan_weight *weight = &v->plan->weights[v->op->weights[i]];
        if (weight->experts > 0)
            return "a weight is a stack of experts";
        if (weight->columns != v->x->columns)
            return "a weight's columns are not the input's";
        rows += weight->rows;
    }
    if (rows != v->out->columns)
        return "the weights' rows do not add up to the output's columns";
    if (v->x == v->out)
        return "the output overwrites the input";
    return v->x->rows == v->out->rows ? NULL : "input and output differ in rows";
}

static const char *check_linear_add(const struct op_view *v)
{
    if (v->x == v->y)
        return "both inputs are one tensor";
    if (!same_shape(v->y, v->out))
        return "second input and output differ in shape";
    return check_linear(v);
}

/* Columns of a head of a tensor of that many, or 0. */
static uint32_t head_columns(const struct plan_tensor *tensor, uint32_t heads)
{
    return heads > 0 && tensor->columns % heads == 0 ? tensor->columns / heads : 0;
}

static const char *check_take_heads(const struct op_view *v)
{
    const struct take_heads_params *params = &v->op->params.take_heads;
    uint64_t from = head_columns(v->x, params->heads), to = head_columns(v->out, params->heads);
    if (v->x->rows != v->out->rows || v->x == v->out)
        return "the output is not another tensor of as many rows";
    return to > 0 && params->first + to <= from ? NULL : "the heads have no such columns";
}

static const char *check_join_heads(const struct op_view *v)
{
    const struct join_heads_params *params = &v->op->params.join_heads;
    uint64_t x = head_columns(v->x, params->heads), y = head_columns(v->y, params->heads);
    if (v->x->rows != v->out->rows || v->y->rows != v->out->rows || v->x == v->out ||
        v->y == v->out)
        return "the output is not another tensor of as many rows";
    if (x <= params->first || y == 0)
        return "the heads have no such columns";
    bool both = head_columns(v->out, params->heads) == x - params->first + y;
    return both ? NULL : "the output's heads are not both parts";
}

static const char *check_layer_cache(const struct op_view *v, uint32_t layer,
                                     const struct column_slice *slice, uint32_t kv_heads)
{
    if (v->x->rows != PLAN_ROWS_STEP)
        return "only step rows have positions";
    if (layer >= v->plan->config.layers)
        return "the model has no such layer";
    if (v->plan->kv.layer_group[layer] == KV_GROUP_NONE)
        return "the layer keeps no keys";
    const struct kv_group *group = &v->plan->kv.groups[v->plan->kv.layer_group[layer]];
    if (kv_heads != group->kv_heads || slice->head_dim != group->head_dim)
        return "heads differ from the layer's cache";
    return slice_fits(slice, v->x) ? NULL : "a slice lies outside the input";
}

static const char *check_kv_write(const struct op_view *v)
{
    const struct kv_write_params *params = &v->op->params.kv_write;
    const char *wrong = check_layer_cache(v, params->layer, &params->keys, params->keys.heads);
    if (!wrong)
        wrong = check_layer_cache(v, params->layer, &params->values, params->values.heads);
    if (wrong)
        return wrong;
    bool latent = v->plan->kv.groups[v->plan->kv.layer_group[params->layer]].latent;
    return !latent || params->keys.offset == params->values.offset
               ? NULL
               : "the layer is latent, and its values are not its keys";
}

static const char *check_attention(const struct op_view *v)
{
    const struct attention_params *params = &v->op->params.attention;
    const char *wrong = check_layer_cache(v, params->layer, &params->queries, params->kv_heads);
    if (wrong)
        return wrong;
    if (params->queries.heads % params->kv_heads != 0)
        return "query heads do not share the key-value heads evenly";
    if (v->out->rows != PLAN_ROWS_STEP ||
        v->out->columns != params->queries.heads * params->queries.head_dim || v->out == v->x)
        return "the output is not another tensor of [step rows, query heads * head size]";
    uint32_t window = v->plan->kv.groups[v->plan->kv.layer_group[params->layer]].window;
    if (params->near == 0 && params->window != window)
        return "the window is not the layer's cache's";
    if (params->near > 0 &&
        (!v->plan->config.encoder || window > 0 || params->near > LIMIT_CONTEXT_TOKENS ||
         params->window != params->near + 1))
        return "rows see near positions in another window or of a decoder";
    if (params->soft_cap != 0.0f && !positive(params->soft_cap))
        return "the soft cap is neither positive nor 0";
    if (v->w && (v->w->rows != 1 || v->w->columns != params->queries.heads))
        return "the weight is not one row of the query heads";
    return positive(params->scale) ? NULL : "the scale is not positive";
}

static const char *check_gate(const struct op_view *v)
{
    if (v->x->rows != v->out->rows || v->x->columns != 2 * (uint64_t)v->out->columns)
        return "the input is not twice as wide as the output";
    return NULL;
}

static const char *check_gather_rows(const struct op_view *v)
{
    if (v->x->rows != PLAN_ROWS_STEP || v->out->rows != PLAN_ROWS_LOGITS)
        return "it goes from step rows to logit rows";
    return v->x->columns == v->out->columns ? NULL : "input and output differ in columns";
}

static const char *check_bias_add(const struct op_view *v)
{
    uint64_t columns = 0;
    for (size_t i = 0; i < OP_WEIGHTS_MAX && v->op->weights[i] != PLAN_NONE; i++) {
        const struct plan_weight *weight = &v->plan->weights[v->op->weights[i]];
        if (weight->rows != 1)
            return "a weight is not one row";
        columns += weight->columns;
    }
    return columns == v->x->columns ? NULL
                                    : "the weights' columns do not add up to the input's columns";
}

static const char *check_take_queries(const struct op_view *v)
{
    const struct take_queries_params *params = &v->op->params.take_queries;
    uint64_t queries = (uint64_t)params->heads * params->head_dim;
    if (v->x->rows != PLAN_ROWS_STEP || v->out->rows != PLAN_ROWS_STEP)
        return "it is for step rows";
    if (queries == 0 || v->x->columns < 2 * queries || v->out->columns + queries != v->x->columns)
        return "the output is not the input without the gates";
    return NULL;
}

static const char *check_gate_heads(const struct op_view *v)
{
    const struct gate_heads_params *params = &v->op->params.gate_heads;
    uint64_t columns = (uint64_t)params->heads * params->head_dim;
    if (v->x->rows != PLAN_ROWS_STEP || !same_shape(v->y, v->out) || v->y->rows != v->x->rows)
        return "inputs and output differ in shape";
    if (columns == 0 || v->y->columns != columns || v->x->columns < 2 * columns)
        return "the heads are not the inputs'";
    return v->x == v->out ? "the output overwrites the gates" : NULL;
}

static const char *check_position_scale(const struct op_view *v)
{
    const struct position_scale_params *params = &v->op->params.position_scale;
    if (v->x->rows != PLAN_ROWS_STEP)
        return "only step rows have positions";
    if (!slice_fits(&params->slice, v->x))
        return "the slice lies outside the input";
    if (params->period_tokens == 0 || !isfinite(params->beta))
        return "the period is 0 or beta is no number";
    return NULL;
}

static const char *check_soft_cap(const struct op_view *v)
{
    const struct soft_cap_params *params = &v->op->params.soft_cap;
    if (!same_shape(v->x, v->out))
        return "input and output differ in shape";
    if (params->cap != 0.0f && !positive(params->cap))
        return "the cap is neither positive nor 0";
    return check_factor(params->scale);
}

/* --- mixtures of experts --- */

/* Experts chosen for a row of the second input, a route. */
static uint32_t chosen_of(const struct op_view *v)
{
    return v->y->columns / 2;
}

static const char *check_route(const struct op_view *v)
{
    uint32_t chosen = chosen_of(v);
    if (v->y->columns % 2 != 0 || chosen == 0 || chosen > LIMIT_EXPERTS)
        return "the second input is no route";
    if (v->x->rows != v->out->rows || v->y->rows != v->out->rows)
        return "inputs and output differ in rows";
    return v->x == v->out || v->y == v->out ? "the output overwrites an input" : NULL;
}

/* Rows of floats for each expert. */
static const char *check_expert_vectors(const struct op_view *v, uint64_t columns)
{
    uint64_t wide = 0;
    for (size_t i = 0; i < OP_WEIGHTS_MAX && v->op->weights[i] != PLAN_NONE; i++) {
        const struct plan_weight *weight = &v->plan->weights[v->op->weights[i]];
        if (weight->rows != v->w->rows || weight->rows > LIMIT_EXPERTS || weight->experts > 0)
            return "the weights are not a row for each expert";
        if (weight->type != GGML_F32 && weight->type != GGML_F16 && weight->type != GGML_BF16)
            return "a weight is not F32, F16 or BF16";
        wide += weight->columns;
    }
    return wide == columns || !v->w ? NULL : "the weights' columns are not the input's";
}

static const char *check_head_route(const struct op_view *v)
{
    return v->out->columns > 0 && v->out->columns % 2 == 0 && v->out->columns <= 2 * LIMIT_EXPERTS
               ? NULL
               : "the output is no route of a possible number of heads";
}

static const char *check_groups(const struct op_view *v)
{
    const struct moe_route_params *params = &v->op->params.moe_route;
    if (!(params->epsilon >= 0.0f) || !isfinite(params->epsilon))
        return "epsilon is negative or no number";
    if (params->groups == 0)
        return NULL;
    uint32_t each = v->x->columns / params->groups;
    if (params->groups > v->x->columns || v->x->columns % params->groups != 0)
        return "the experts are not so many equal groups";
    if (params->group_best < 1 || params->group_best > 2 || params->group_best > each)
        return "a group has no score";
    if (params->groups_chosen < 1 || params->groups_chosen > params->groups ||
        (uint64_t)params->groups_chosen * each < params->chosen)
        return "that number of groups cannot be chosen";
    return NULL;
}

static const char *check_moe_route(const struct op_view *v)
{
    const struct moe_route_params *params = &v->op->params.moe_route;
    if (params->chosen == 0 || params->chosen > LIMIT_EXPERTS_CHOSEN ||
        params->chosen > v->x->columns || v->x->columns > LIMIT_EXPERTS)
        return "that number of experts cannot be chosen";
    if (v->x->rows != v->out->rows || v->out->columns != 2 * params->chosen || v->x == v->out)
        return "the output is not another tensor of the chosen experts and their weights";
    if (v->w && v->w->rows != 1)
        return "the weight is not one row";
    if (params->rows > EXPERTS_OF_IMAGES ||
        (params->rows != EXPERTS_OF_ALL && v->x->rows != PLAN_ROWS_STEP &&
         v->x->rows != PLAN_ROWS_LOGITS))
        return "only rows of text and images have experts of their own";
    const char *wrong = check_expert_vectors(v, v->x->columns);
    if (!wrong && params->weighed)
        wrong = check_groups(v);
    return wrong || positive(params->scale) ? wrong : "the scale is not positive";
}

static const char *check_moe_linear(const struct op_view *v)
{
    const char *wrong = check_route(v);
    uint64_t rows = 0;
    for (size_t i = 0; i < OP_WEIGHTS_MAX && v->op->weights[i] != PLAN_NONE && !wrong; i++) {
        const struct plan_weight *weight = &v->plan->weights[v->op->weights[i]];
        if (weight->experts == 0 || weight->experts > LIMIT_EXPERTS ||
            weight->experts != v->w->experts)
            return "the weights are not stacks of as many experts";
        if (weight->columns != v->x->columns &&
            (uint64_t)weight->columns * chosen_of(v) != v->x->columns)
            return "a weight's columns are not the input's";
        if (weight->columns != v->w->columns)
            return "the weights differ in columns";
        rows += weight->rows;
    }
    if (wrong)
        return wrong;
    return rows * chosen_of(v) == v->out->columns
               ? NULL
               : "the weights' rows do not add up to the output's columns";
}

static const char *check_moe_gate(const struct op_view *v)
{
    const struct moe_gate_params *params = &v->op->params.moe_gate;
    const char *wrong = check_route(v);
    if (wrong)
        return wrong;
    if (v->x->columns != 2 * (uint64_t)v->out->columns || v->out->columns % chosen_of(v) != 0)
        return "the input is not twice as wide as the output";
    if (params->limit != 0.0f &&
        (!positive(params->limit) || !positive(params->alpha) || params->activation != GATE_SILU))
        return "the limit is not one of silu's";
    return check_expert_vectors(v, v->x->columns / chosen_of(v));
}

static const char *check_moe_combine(const struct op_view *v)
{
    const char *wrong = check_route(v);
    if (wrong)
        return wrong;
    if (v->x->columns != (uint64_t)v->out->columns * chosen_of(v))
        return "the input is not the output's columns for each expert";
    return check_expert_vectors(v, v->out->columns);
}

static const char *check_moe_shared(const struct op_view *v)
{
    if (!same_shape(v->x, v->out) || v->x == v->out)
        return "the output is not another tensor of the first input's shape";
    if (v->y->rows != v->out->rows || v->y->columns != 1 || v->y == v->out)
        return "the second input is not one value per row";
    return NULL;
}

static const char *check_gate_with(const struct op_view *v)
{
    const struct gate_with_params *params = &v->op->params.gate_with;
    if (!same_shape(v->x, v->out))
        return "first input and output differ in shape";
    if (v->y->rows != v->out->rows || v->y == v->out)
        return "the second input is not another tensor of the output's rows";
    if ((uint64_t)params->offset + v->out->columns > v->y->columns)
        return "the columns lie outside the second input";
    return NULL;
}

static const char *check_add_rows(const struct op_view *v)
{
    if (!same_shape(v->x, v->out) || !same_shape(v->y, v->out))
        return "inputs and output differ in shape";
    return positive(v->op->params.add_rows.scale) ? NULL : "the scale is not positive";
}

static const char *check_scale_columns(const struct op_view *v)
{
    if (!same_shape(v->x, v->out))
        return "input and output differ in shape";
    if (v->w->rows != 1 || (v->w->columns != 1 && v->w->columns != v->x->columns))
        return "the weight is neither one value nor one value per column";
    return NULL;
}

static bool is_streams(const struct plan_tensor *wide, uint32_t streams)
{
    return streams > 0 && wide->columns % streams == 0;
}

static const char *check_stream_take(const struct op_view *v)
{
    if (v->x->rows != v->out->rows || v->x == v->out)
        return "the output is not another tensor of the input's rows";
    if (v->x->columns % v->out->columns != 0 ||
        v->op->params.stream_take.stream >= v->x->columns / v->out->columns)
        return "the input has no such stream";
    return NULL;
}

static const char *check_stream_mix(const struct op_view *v)
{
    uint32_t streams = v->op->params.stream_mix.streams;
    if (!same_shape(v->x, v->out) || v->x == v->out || v->y == v->out)
        return "the output is not another tensor of the first input's shape";
    if (!is_streams(v->x, streams) || streams > OP_STREAMS_MAX)
        return "the input is not that many streams";
    if (v->y->rows != v->x->rows || v->y->columns != streams * streams)
        return "the second input has not one value per pair of streams";
    return NULL;
}

static const char *check_stream_correct(const struct op_view *v)
{
    uint32_t streams = v->op->params.stream_correct.streams;
    if (v->x->rows != v->out->rows || v->y->rows != v->out->rows || v->x == v->out ||
        v->y == v->out)
        return "the output is not another tensor of the inputs' rows";
    if (!is_streams(v->out, streams) || streams > OP_STREAMS_MAX ||
        v->out->columns / streams != v->x->columns)
        return "the output is not that many streams of the first input's columns";
    if (v->op->params.stream_correct.active >= streams)
        return "the output has no such stream";
    return v->y->columns == streams ? NULL : "the second input has not one value per stream";
}

static const char *check_stream_add(const struct op_view *v)
{
    if (v->x->rows != v->out->rows || v->x == v->out)
        return "the output is not another tensor of the input's rows";
    if (v->out->columns % v->x->columns != 0 ||
        v->op->params.stream_add.first >= v->out->columns / v->x->columns)
        return "the output has no such stream";
    return NULL;
}

static const char *check_stream_match(const struct op_view *v)
{
    const struct stream_match_params *params = &v->op->params.stream_match;
    uint32_t columns = v->y->columns;
    if (v->x->rows != v->out->rows || v->y->rows != v->out->rows || v->x == v->out ||
        v->y == v->out)
        return "the output is not another tensor of the inputs' rows";
    if (v->x->columns % columns != 0 || params->stream >= v->x->columns / columns)
        return "the first input has no such stream";
    if (v->out->columns % columns != 0 || params->out_stream >= v->out->columns / columns)
        return "the output has no such stream";
    return NULL;
}

static const char *check_stream_cut(const struct op_view *v)
{
    if (!is_streams(v->x, v->op->params.stream_cut.streams))
        return "the input is not that many streams";
    return isfinite(v->op->params.stream_cut.deviations) ? NULL : "the deviations are not finite";
}

/* --- vision towers --- */

static uint64_t square(uint32_t side)
{
    return (uint64_t)side * side;
}

static const char *check_patch_rows(const struct op_view *v)
{
    const struct patch_rows_params *params = &v->op->params.patch_rows;
    if (v->out->rows != PLAN_ROWS_PATCHES ||
        v->out->columns != 3 * params->frames * square(v->plan->vision.patch_side))
        return "the output is not of patches, three values per pixel";
    if (params->first_frame > 0 && params->first_frame + params->frames > v->plan->vision.frames)
        return "a frame is not one of a patch";
    return positive(params->gain) && isfinite(params->shift) ? NULL
                                                             : "gain or shift are not finite";
}

static const char *check_patch_positions(const struct op_view *v)
{
    const struct patch_positions_params *params = &v->op->params.patch_positions;
    const struct model_vision *vision = &v->plan->vision;
    bool features = v->x->rows == PLAN_ROWS_FEATURES;
    if (v->x->rows != PLAN_ROWS_PATCHES && !features)
        return "it is for patches or their features";
    uint64_t rows = params->form == POSITIONS_LINE ? params->side : square(params->side);
    rows = params->form == POSITIONS_AXES ? 2 * (uint64_t)params->side : rows;
    rows += params->lead ? 1 : 0;
    bool resized = params->form == POSITIONS_CUBIC_AVERAGED;
    bool led = (features || !resized) && vision->lead_row;
    if (params->lead != led || (led && ((params->form != POSITIONS_EXACT && !resized) ||
                                        (vision->fixed_side == 0 && !resized) ||
                                        vision->window_side > 0 || v->plan->config.rope_count > 0)))
        return "the tower has no such lead row";
    if (features && (!resized || vision->mels > 0 || vision->window_side > 0))
        return "positions of features are not resized";
    if (params->lead != (v->op->weights[1] != PLAN_NONE) ||
        (params->lead && (v->plan->weights[v->op->weights[1]].rows != 1 ||
                          v->plan->weights[v->op->weights[1]].columns != v->x->columns)))
        return "the second weight is not the lead row";
    if (v->w->rows != rows || v->w->columns != v->x->columns)
        return "the weight is not the side's rows of the input's columns";
    uint32_t max_side = vision->fixed_side > 0 ? vision->fixed_side : vision->max_side;
    max_side = vision->mels > 0 ? (vision->sound_rows + 1) / 2 * 2 : max_side;
    bool places = params->form == POSITIONS_EXACT || params->form == POSITIONS_AXES ||
                  params->form == POSITIONS_LINE;
    if (places && (max_side == 0 || max_side > params->side))
        return "images may be larger than the table";
    return params->side > 0 ? NULL : "the table is empty";
}

static const char *check_patch_attention(const struct op_view *v)
{
    const struct patch_attention_params *params = &v->op->params.patch_attention;
    struct column_slice keys = params->queries, values = params->queries;
    keys.offset = params->keys;
    values.offset = params->values;
    if (v->x->rows != PLAN_ROWS_PATCHES || v->out->rows != PLAN_ROWS_PATCHES || v->x == v->out)
        return "the output is not another tensor of patches";
    if (!slice_fits(&params->queries, v->x) || !slice_fits(&keys, v->x) ||
        !slice_fits(&values, v->x) || params->queries.head_dim > LIMIT_HEAD_DIM)
        return "a slice lies outside the input";
    if (v->out->columns != (uint64_t)params->queries.heads * params->queries.head_dim)
        return "the output is not as wide as the heads";
    if (params->windowed && v->plan->vision.window_side == 0)
        return "the tower has no windows";
    return positive(params->scale) ? NULL : "the scale is not positive";
}

/* The weights of relative positions, and q|k|v of rows of zeros. */
static const char *check_tile_tables(const struct op_view *v)
{
    const struct tile_attention_params *params = &v->op->params.tile_attention;
    for (uint32_t i = 0; i < OP_WEIGHTS_MAX; i++) {
        if (v->op->weights[i] == PLAN_NONE)
            return "a patch has no relative positions";
        const struct plan_weight *w = &v->plan->weights[v->op->weights[i]];
        bool last = i + 1 == OP_WEIGHTS_MAX;
        if (w->rows == 0 || (last && w->rows != 1) ||
            w->columns != (last ? v->x->columns : params->queries.head_dim))
            return "a weight is not a table for the heads";
    }
    return NULL;
}

static const char *check_tile_attention(const struct op_view *v)
{
    const struct tile_attention_params *params = &v->op->params.tile_attention;
    const struct model_vision *vision = &v->plan->vision;
    struct column_slice keys = params->queries, values = params->queries;
    keys.offset = params->keys;
    values.offset = params->values;
    bool features = v->x->rows == PLAN_ROWS_FEATURES;
    if ((!features && v->x->rows != PLAN_ROWS_PATCHES) || v->x == v->out ||
        v->out->rows != v->x->rows)
        return "the output is not another tensor of patches or features";
    if (!slice_fits(&params->queries, v->x) || !slice_fits(&keys, v->x) ||
        !slice_fits(&values, v->x) || params->queries.head_dim > LIMIT_HEAD_DIM)
        return "a slice lies outside the input";
    if (v->out->columns != (uint64_t)params->queries.heads * params->queries.head_dim)
        return "the output is not as wide as the heads";
    if (vision->window_side > 0 || vision->mels > 0 ||
        (vision->max_side == 0 && vision->fixed_side == 0))
        return "the tower's tiles have windows of their own or any size";
    if (params->window > LIMIT_PATCH_ROWS || (features && params->window > 0))
        return "the window is too large";
    if (!positive(params->scale))
        return "the scale is not positive";
    if (features)
        return v->op->weights[0] == PLAN_NONE ? NULL : "features have no relative positions";
    return check_tile_tables(v);
}

static const char *check_neighbour_rows(const struct op_view *v)
{
    const struct model_vision *vision = &v->plan->vision;
    bool features = v->out->rows == PLAN_ROWS_FEATURES;
    uint32_t step = v->op->params.neighbour_rows.step;
    if (v->x->rows != PLAN_ROWS_PATCHES || (!features && v->out->rows != PLAN_ROWS_PATCHES))
        return "it goes from patches to patches or features";
    if (vision->window_side > 0 || vision->mels > 0 || step == 0 || step > LIMIT_PATCH_ROWS)
        return "the tower's tiles have no such neighbours";
    uint64_t joined = (uint64_t)v->x->columns * NEIGHBOURS;
    return v->out->columns == joined ? NULL : "the output is not as wide as the rows together";
}

static const char *check_activate(const struct op_view *v)
{
    const struct activate_params *params = &v->op->params.activate;
    const struct xielu_params *xielu = &params->xielu;
    if (!same_shape(v->x, v->out))
        return "input and output differ in shape";
    if (params->activation == ACTIVATION_XIELU &&
        (!isfinite(xielu->positive) || !isfinite(xielu->negative) || !isfinite(xielu->linear) ||
         !isfinite(xielu->least)))
        return "a factor of the activation is not finite";
    return NULL;
}

static const char *check_clip_columns(const struct op_view *v)
{
    const struct clip_columns_params *params = &v->op->params.clip_columns;
    if (v->x->rows != v->out->rows)
        return "input and output differ in rows";
    uint64_t stride = params->stride > 0 ? params->stride : 1;
    if (v->x->columns == 0 ||
        params->offset + stride * (v->x->columns - 1) >= (uint64_t)v->out->columns)
        return "the columns lie outside the output";
    if (stride > 1 && v->x == v->out)
        return "columns that go apart overwrite the input";
    return params->minimum <= params->maximum ? NULL : "the minimum is above the maximum";
}

static const char *check_merged(const struct op_view *v, uint32_t count)
{
    if (v->x->rows != PLAN_ROWS_PATCHES || v->out->rows != PLAN_ROWS_FEATURES)
        return "it goes from patches to features";
    bool merged = count == model_vision_square(&v->plan->vision);
    return merged ? NULL : "the count is not a merged square's";
}

static const char *check_join_rows(const struct op_view *v)
{
    const char *wrong = check_merged(v, v->op->params.join_rows.count);
    if (wrong)
        return wrong;
    uint64_t joined = (uint64_t)v->x->columns * v->op->params.join_rows.count;
    return v->out->columns == joined ? NULL : "the output is not as wide as the rows together";
}

static const char *check_join_padded(const struct op_view *v)
{
    const struct model_vision *vision = &v->plan->vision;
    const struct join_padded_params *params = &v->op->params.join_padded;
    if (v->x->rows != PLAN_ROWS_PATCHES || v->out->rows != PLAN_ROWS_FEATURES)
        return "it goes from patches to features";
    if (params->join == 0 || params->join != vision->join_side || params->side == 0 ||
        params->side != vision->fixed_side || vision->merge_side != 1 || vision->lead_row)
        return "the tower's tiles have no such squares";
    uint64_t joined = (uint64_t)v->x->columns * params->join * params->join;
    return v->out->columns == joined ? NULL : "the output is not as wide as the rows together";
}

static const char *check_pool_rows(const struct op_view *v)
{
    const char *wrong = check_merged(v, v->op->params.pool_rows.count);
    if (wrong)
        return wrong;
    if (v->x->columns != v->out->columns)
        return "input and output differ in columns";
    return check_factor(v->op->params.pool_rows.scale);
}

static const char *check_feature_write(const struct op_view *v)
{
    const struct model_vision *vision = &v->plan->vision;
    if (v->x->rows != PLAN_ROWS_FEATURES || v->x->columns != model_vision_part_columns(vision))
        return "the input is not of features, as wide as the text model";
    uint32_t parts =
        vision->crossed_layers > 0 ? 2 * vision->crossed_layers : 1 + vision->deepstack_layers;
    bool exists = v->op->params.feature_write.part < parts;
    return exists ? NULL : "the part does not exist";
}

static const char *check_feature_place(const struct op_view *v)
{
    const struct model_vision *vision = &v->plan->vision;
    uint32_t kind = v->op->params.feature_place.kind;
    bool views = vision->lined || vision->split_views;
    bool exists = vision->framed
                      ? kind < FEATURE_FRAME_KINDS
                      : kind == FEATURE_OF_SQUARE || (views && kind == FEATURE_BETWEEN_VIEWS);
    if (vision->sound_tokens > 0 && kind == FEATURE_AFTER_IMAGE && v->w && v->w->rows == 1 &&
        v->w->columns == vision->text_hidden && v->x->rows == PLAN_ROWS_FEATURES &&
        v->x->columns == vision->text_hidden)
        return NULL;
    if (vision->mosaic == vision->framed || vision->window_side > 0 ||
        (vision->framed && vision->lead_row) || vision->deepstack_layers > 0)
        return "the tower's features form no mosaics or frames";
    if (v->x->rows != PLAN_ROWS_FEATURES || v->x->columns != vision->text_hidden)
        return "the input is not of features, as wide as the text model";
    if (!exists)
        return "there are no features of this kind";
    if (vision->framed != (v->op->weights[0] == PLAN_NONE))
        return "mosaics have a learned row, frames none";
    return vision->framed || (v->w->rows == 1 && v->w->columns == vision->text_hidden)
               ? NULL
               : "the weight is not one feature";
}

static const char *check_feature_add(const struct op_view *v)
{
    const struct model_config *config = &v->plan->config;
    uint32_t part = v->op->params.feature_add.part;
    if (v->x->rows != PLAN_ROWS_STEP || v->x->columns != config->hidden)
        return "it is for the residual of step rows";
    return part > 0 && part <= config->deepstack_layers ? NULL : "the part does not exist";
}

static const char *(*const shape_checks[OP_STEM_COUNT])(const struct op_view *view) = {
#define SHAPE_CHECK(stem, ...) [OP_##stem] = check_##stem,
    EVERY_OP_LIST(SHAPE_CHECK)
#undef SHAPE_CHECK
};

/* Whether min to max ids below `bound` come first and all others are PLAN_NONE. */
static bool ids_are(const uint16_t *ids, uint32_t id_count, uint32_t min, uint32_t max,
                    uint32_t bound)
{
    uint32_t used = 0;
    while (used < id_count && ids[used] != PLAN_NONE && ids[used] < bound)
        used++;
    for (uint32_t i = used; i < id_count; i++)
        if (ids[i] != PLAN_NONE)
            return false;
    return used >= min && used <= max;
}

static const char *check_ids(const struct plan *plan, const struct plan_op *op)
{
    const struct op_facts *facts = op_facts(op->stem);
    if (!ids_are(op->inputs, OP_INPUTS_MAX, facts->inputs, facts->inputs, plan->tensor_count))
        return "its inputs are not as many existing tensors as the op has";
    if (!ids_are(op->weights, OP_WEIGHTS_MAX, facts->weights_min, facts->weights_max,
                 plan->weight_count))
        return "its weights are not as many existing weights as the op has";
    if (facts->output == OP_OUTPUT_NO_TENSOR ? op->output != PLAN_NONE
                                             : op->output >= plan->tensor_count)
        return "its output is not an existing tensor";
    if (facts->output == OP_OUTPUT_IN_PLACE && op->inputs[0] != op->output)
        return "it works in place, but output and input differ";
    return NULL;
}

enum result plan_op_check(const struct plan *plan, const struct plan_op *op, uint32_t number,
                          struct error_text *error)
{
    if ((unsigned)op->stem >= OP_STEM_COUNT)
        return error_set(error, RESULT_INVALID, "op %u: no such stem", number);
    const char *wrong = check_ids(plan, op);
    struct op_view view = {.plan = plan, .op = op};
    if (!wrong) {
        view.x = op->inputs[0] != PLAN_NONE ? &plan->tensors[op->inputs[0]] : NULL;
        view.y = op->inputs[1] != PLAN_NONE ? &plan->tensors[op->inputs[1]] : NULL;
        view.w = op->weights[0] != PLAN_NONE ? &plan->weights[op->weights[0]] : NULL;
        view.out = op->output != PLAN_NONE ? &plan->tensors[op->output] : NULL;
        wrong = shape_checks[op->stem](&view);
    }
    if (!wrong)
        return RESULT_OK;
    return error_set(error, RESULT_INVALID, "op %u %s (%s): %s", number, op_stem_name(op->stem),
                     view.w ? view.w->name : "no weight", wrong);
}
