/*
 * The shape rules of ops for sounds and for canvases, and of the ops by which a decoder attends to features.
 */
#include "worker/plan/plan_check_rules.h"

static const char *check_tap(const struct op_view *v, uint32_t tap, uint64_t columns)
{
    if (v->out->rows != PLAN_ROWS_PATCHES || v->plan->vision.mels == 0)
        return "it is not for rows of sounds";
    if (tap >= SOUND_TAPS)
        return "the tap does not exist";
    return v->out->columns == SOUND_TAPS * columns ? NULL : "the output is not three times as wide";
}

const char *check_sound_rows(const struct op_view *v)
{
    const struct model_vision *vision = &v->plan->vision;
    uint64_t lines = v->op->params.sound_rows.lines;
    if (lines == 0)
        return check_tap(v, v->op->params.sound_rows.tap, vision->mels);
    if (v->out->rows != PLAN_ROWS_PATCHES || vision->mels == 0)
        return "it is not for rows of sounds";
    if (lines != vision->sound_step)
        return "the lines are not those that a row stands for";
    return v->out->columns == lines * vision->mels ? NULL
                                                   : "the output is not as wide as the lines";
}

const char *check_sound_taps(const struct op_view *v)
{
    if (v->x->rows != v->out->rows || v->x == v->out)
        return "the output is not another tensor of as many rows";
    return check_tap(v, v->op->params.sound_taps.tap, v->x->columns);
}

const char *check_near_attention(const struct op_view *v)
{
    const struct near_attention_params *params = &v->op->params.near_attention;
    uint64_t columns = (uint64_t)params->queries.heads * params->queries.head_dim;
    struct column_slice keys = params->queries, values = params->queries;
    keys.offset = params->keys;
    values.offset = params->values;
    if (v->x->rows != PLAN_ROWS_PATCHES || v->out->rows != PLAN_ROWS_PATCHES || v->x == v->out ||
        v->plan->vision.mels == 0)
        return "it is for rows of sounds, and another output";
    if (!slice_fits(&params->queries, v->x) || !slice_fits(&keys, v->x) ||
        !slice_fits(&values, v->x) || params->queries.head_dim > LIMIT_HEAD_DIM)
        return "a slice lies outside the input";
    if (v->out->columns != columns)
        return "the output is not as wide as the heads";
    if (params->before > LIMIT_AUDIO_NEAR)
        return "a row sees too many others";
    if (v->w->rows != params->before + 1 || v->w->columns != columns)
        return "the weight is not a row of the heads for each row that is seen";
    if (!isfinite(params->soft_cap) || params->soft_cap < 0.0f)
        return "the cap is negative or not finite";
    return positive(params->scale) ? NULL : "the scale is not positive";
}

const char *check_cross_attention(const struct op_view *v)
{
    const struct cross_attention_params *params = &v->op->params.cross_attention;
    uint64_t columns = (uint64_t)params->queries.heads * params->queries.head_dim;
    if (v->x->rows != PLAN_ROWS_STEP || v->out->rows != PLAN_ROWS_STEP || v->x == v->out)
        return "it is for step rows, and another output";
    if (!slice_fits(&params->queries, v->x) || v->out->columns != columns)
        return "the queries lie outside the input, or are not as wide as the output";
    if (params->queries.head_dim > LIMIT_HEAD_DIM || params->kv_heads == 0 ||
        params->queries.heads % params->kv_heads != 0)
        return "the heads do not share keys evenly";
    if (params->layer >= v->plan->config.crossed_layers)
        return "the layer attends to no features";
    return check_factor(params->scale);
}

const char *check_seeing_rows(const struct op_view *v)
{
    if (v->x->rows != PLAN_ROWS_STEP)
        return "it is for step rows";
    return v->plan->config.crossed_layers > 0 ? NULL : "no layer attends to features";
}

const char *check_patch_table(const struct op_view *v)
{
    const struct patch_table_params *params = &v->op->params.patch_table;
    const struct model_vision *vision = &v->plan->vision;
    uint64_t places = (uint64_t)vision->canvas_side * vision->canvas_side + 1, rows = 1;
    if (v->x->rows != PLAN_ROWS_PATCHES || vision->canvas_tiles == 0)
        return "it is for rows of canvases";
    if (params->tiles)
        rows =
            (1 + (uint64_t)model_vision_canvas_count(vision->canvas_tiles)) * vision->canvas_tiles;
    if (params->places > 0 && (params->places != places || params->pads))
        return "padding has no places, and tiles have others";
    rows *= params->places > 0 ? places : 1;
    if (v->w->rows != rows || v->w->columns != v->x->columns)
        return "the weight is not a row of the input's columns for each tile and place";
    if (!params->leads && !params->patches && !params->pads)
        return "no row takes part";
    return isfinite(params->scale) ? NULL : "the scale is not finite";
}
