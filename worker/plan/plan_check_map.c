/*
 * The shape rules of ops over maps that are finer than the rows of a tower.
 */
#include "worker/plan/plan_check_rules.h"

static uint64_t cell_values(const struct row_cells *cells)
{
    return (uint64_t)cells->lines * cells->columns * cells->channels;
}

/* Whether a row of so many values is these cells; no product overflows. */
static bool are_cells(const struct row_cells *cells, uint32_t columns)
{
    return cells->lines > 0 && cells->columns > 0 && cells->channels > 0 &&
           cells->lines <= columns && cells->columns <= columns && cells->channels <= columns &&
           (uint64_t)cells->lines * cells->columns <= columns && cell_values(cells) == columns;
}

static const char *check_convolution(const struct op_view *v, const struct conv_2d_params *params,
                                     uint32_t channels)
{
    const struct model_vision *vision = &v->plan->vision;
    if (v->x->rows != PLAN_ROWS_PATCHES || v->out->rows != PLAN_ROWS_PATCHES || v->x == v->out)
        return "the output is not another tensor of patches";
    if (vision->window_side > 0 || vision->lead_row)
        return "the rows of a tile are no map";
    if (!are_cells(&params->in, v->x->columns) || !are_cells(&params->out, v->out->columns))
        return "rows are not of these cells";
    uint32_t step = (params->in.columns + params->out.columns - 1) / params->out.columns;
    bool whole =
        params->in.columns % params->out.columns == 0 ||
        (vision->mels > 0 && (params->in.columns + step - 1) / step == params->out.columns);
    if (params->in.lines % params->out.lines != 0 || !whole)
        return "the output's cells do not divide the input's";
    if (vision->mels > 0 && (vision->sound_step == 0 || vision->sound_step % params->in.lines != 0))
        return "the lines are none of a sound's row";
    if (params->taps_y == 0 || params->taps_x == 0 || params->taps_y > LIMIT_CONVOLUTION_TAPS ||
        params->taps_x > LIMIT_CONVOLUTION_TAPS)
        return "there are too many taps, or none";
    if (params->before_y >= params->taps_y || params->before_x >= params->taps_x)
        return "taps begin too early";
    uint64_t taps = (uint64_t)params->taps_y * params->taps_x;
    if (v->w->rows != params->out.channels || v->w->columns != taps * channels)
        return "the weight is no kernel of these channels";
    return NULL;
}

const char *check_conv_2d(const struct op_view *v)
{
    const struct conv_2d_params *params = &v->op->params.conv_2d;
    return check_convolution(v, params, params->in.channels);
}

const char *check_conv_depthwise(const struct op_view *v)
{
    const struct conv_2d_params *params = &v->op->params.conv_depthwise.shape;
    if (params->in.channels != params->out.channels)
        return "input and output differ in channels";
    return check_convolution(v, params, 1);
}

const char *check_part_norm(const struct op_view *v)
{
    const struct part_norm_params *params = &v->op->params.part_norm;
    if (params->parts == 0 || v->x->columns % params->parts != 0)
        return "the row has no such parts";
    return check_norm(v, v->x->columns / params->parts, params->epsilon);
}

static const char *check_lines(const struct op_view *v, const struct row_cells *cells,
                               const struct plan_tensor *moments)
{
    const struct model_vision *vision = &v->plan->vision;
    if (v->x->rows != PLAN_ROWS_PATCHES || vision->mels == 0 || vision->sound_step == 0)
        return "it is not for rows of sounds";
    if (!are_cells(cells, v->x->columns) || vision->sound_step % cells->lines != 0)
        return "rows are not of these cells";
    bool fits = moments->rows == v->x->rows && moments->columns == 2 * (uint64_t)cells->lines;
    return fits ? NULL : "there are not two moments for each line";
}

const char *check_line_moments(const struct op_view *v)
{
    return check_lines(v, &v->op->params.line_moments.cells, v->out);
}

const char *check_past_norm(const struct op_view *v)
{
    const struct past_norm_params *params = &v->op->params.past_norm;
    const char *wrong = check_lines(v, &params->cells, v->y);
    return wrong ? wrong : check_norm(v, params->cells.channels, params->epsilon);
}

const char *check_embed_over(const struct op_view *v)
{
    if (v->out->rows != PLAN_ROWS_STEP)
        return "it is for step rows";
    bool fits = v->w->rows > 0 && v->w->columns == v->out->columns;
    return fits ? NULL : "the weight's rows are not as wide as the output";
}
