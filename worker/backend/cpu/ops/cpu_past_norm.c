/*
 * line_moments and past_norm: a norm of each line of a sound by all lines up to it.
 *
 * Lines have equally many values, so means of lines are averaged. Squares are of differences from a line's own mean
 * first, so that lines far from 0 lose no digits. Every row goes through the moments of the rows before it, which are
 * few numbers; so rows can be computed in any order.
 */
#include <math.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

/* The mean of x[count], and of the squared differences from it. */
static void moments_of(const float *x, uint32_t count, float *out)
{
    double sum = 0.0, squares = 0.0;
    for (uint32_t c = 0; c < count; c++)
        sum += (double)x[c];
    double mean = sum / count;
    for (uint32_t c = 0; c < count; c++)
        squares += ((double)x[c] - mean) * ((double)x[c] - mean);
    out[0] = (float)mean;
    out[1] = (float)(squares / count);
}

void cpu_line_moments(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct row_cells *cells = &op->params.line_moments.cells;
    uint32_t values = cells->columns * cells->channels;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_PATCHES, thread);
    for (uint32_t row = share.begin; row < share.end; row++)
        for (uint32_t line = 0; line < cells->lines; line++)
            moments_of(cpu_step_row(step, op->inputs[0], row) + (size_t)line * values, values,
                       cpu_step_row(step, op->output, row) + 2 * (size_t)line);
}

/* What the lines so far are normed by. */
struct past {
    double lines;
    double mean;
    double variance;
};

static void past_add(struct past *past, const float *moments)
{
    past->mean += ((double)moments[0] - past->mean) / (past->lines + 1.0);
    double away = (double)moments[0] - past->mean;
    past->variance += ((double)moments[1] + away * away - past->variance) / (past->lines + 1.0);
    past->lines += 1.0;
}

static void norm_row(const struct cpu_step *step, const struct plan_op *op, uint32_t row)
{
    const struct past_norm_params *params = &op->params.past_norm;
    const struct row_cells *cells = &params->cells;
    const float *weight = step->program->vectors[op->weights[0]];
    struct past past = {0};
    for (uint32_t before = row - step->patches->places[row].y; before < row; before++)
        for (uint32_t line = 0; line < cells->lines; line++)
            past_add(&past, cpu_step_row(step, op->inputs[1], before) + 2 * (size_t)line);
    float *x = cpu_step_row(step, op->output, row);
    for (uint32_t line = 0; line < cells->lines; line++) {
        past_add(&past, cpu_step_row(step, op->inputs[1], row) + 2 * (size_t)line);
        float factor = (float)(1.0 / sqrt(past.variance + (double)params->epsilon));
        for (uint32_t column = 0; column < cells->columns; column++, x += cells->channels)
            for (uint32_t c = 0; c < cells->channels; c++)
                x[c] = (x[c] - (float)past.mean) * factor * weight[c];
    }
}

void cpu_past_norm(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece >= cpu_step_rows(step, PLAN_ROWS_PATCHES))
            return;
        norm_row(step, op, cpu_step_first_row(step, PLAN_ROWS_PATCHES) + piece);
    }
}
