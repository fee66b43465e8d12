/*
 * The ops over streams (op_list.h). Threads compute their own rows. Sums over a row are in
 * double: their cost is small compared with the products around them.
 */
#include <math.h>
#include <string.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

#define LEAST_MEAN_SQUARE 1e-5

static const struct plan_op *op_of(const struct cpu_step *step, uint32_t index)
{
    return &step->program->plan->ops[index];
}

static uint32_t columns_of(const struct cpu_step *step, plan_tensor_id tensor)
{
    return step->program->tensors[tensor].columns;
}

static struct row_share share_of(const struct cpu_step *step, const struct plan_op *op,
                                 uint32_t thread)
{
    return cpu_step_share(step, step->program->tensors[op->output].rows, thread);
}

void cpu_stream_take(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = op_of(step, index);
    uint32_t columns = columns_of(step, op->output);
    struct row_share share = share_of(step, op, thread);
    for (uint32_t row = share.begin; row < share.end; row++)
        memcpy(cpu_step_row(step, op->output, row),
               cpu_step_row(step, op->inputs[0], row) +
                   (size_t)op->params.stream_take.stream * columns,
               columns * sizeof(float));
}

void cpu_stream_mix(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = op_of(step, index);
    uint32_t streams = op->params.stream_mix.streams;
    uint32_t columns = columns_of(step, op->output) / streams;
    struct row_share share = share_of(step, op, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        const float *coefficients = cpu_step_row(step, op->inputs[1], row);
        float *out = cpu_step_row(step, op->output, row);
        memcpy(out, x, (size_t)streams * columns * sizeof(float));
        for (uint32_t j = 0; j < streams; j++)
            for (uint32_t i = 0; i < streams; i++)
                for (uint32_t c = 0; c < columns; c++)
                    out[(size_t)j * columns + c] +=
                        coefficients[j * streams + i] * x[(size_t)i * columns + c];
    }
}

void cpu_stream_correct(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = op_of(step, index);
    const struct stream_correct_params *params = &op->params.stream_correct;
    uint32_t streams = params->streams, columns = columns_of(step, op->inputs[0]);
    size_t active = (size_t)params->active * columns;
    struct row_share share = share_of(step, op, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        const float *coefficients = cpu_step_row(step, op->inputs[1], row);
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t c = 0; c < columns; c++) {
            float news = x[c] - out[active + c];
            for (uint32_t j = 0; j < streams; j++)
                out[(size_t)j * columns + c] += (1.0f + coefficients[j]) * news;
        }
    }
}

void cpu_stream_add(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = op_of(step, index);
    uint32_t columns = columns_of(step, op->inputs[0]);
    uint32_t streams = columns_of(step, op->output) / columns;
    struct row_share share = share_of(step, op, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t j = op->params.stream_add.first; j < streams; j++)
            for (uint32_t c = 0; c < columns; c++)
                out[(size_t)j * columns + c] += x[c];
    }
}

static double mean_square(const float *x, uint32_t columns)
{
    double sum = 0.0;
    for (uint32_t c = 0; c < columns; c++)
        sum += (double)x[c] * (double)x[c];
    return sum / columns;
}

void cpu_stream_match(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = op_of(step, index);
    const struct stream_match_params *params = &op->params.stream_match;
    uint32_t columns = columns_of(step, op->inputs[1]);
    struct row_share share = share_of(step, op, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row) + (size_t)params->stream * columns;
        float *out = cpu_step_row(step, op->output, row) + (size_t)params->out_stream * columns;
        double wanted = mean_square(cpu_step_row(step, op->inputs[1], row), columns);
        double have = fmax(mean_square(x, columns), LEAST_MEAN_SQUARE);
        float factor = (float)sqrt(wanted / have);
        for (uint32_t c = 0; c < columns; c++)
            out[c] = (params->add ? out[c] : 0.0f) + x[c] * factor;
    }
}

void cpu_stream_cut(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = op_of(step, index);
    const struct stream_cut_params *params = &op->params.stream_cut;
    uint32_t columns = columns_of(step, op->output) / params->streams;
    struct row_share share = share_of(step, op, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        float *x = cpu_step_row(step, op->output, row);
        double sum = 0.0, squares = 0.0;
        for (uint32_t c = 0; c < columns; c++)
            sum += (double)x[c];
        double mean = sum / columns;
        for (uint32_t c = 0; c < columns; c++)
            squares += ((double)x[c] - mean) * ((double)x[c] - mean);
        float cut = (float)(mean + (double)params->deviations * sqrt(squares / columns));
        for (uint32_t c = 0; c < columns; c++)
            x[c] = x[c] > cut ? x[c] - cut : 0.0f;
    }
}
