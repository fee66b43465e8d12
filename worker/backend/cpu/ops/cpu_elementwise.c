/*
 * gate_with, add_rows, scale_columns and clip_columns: each output value depends on the input
 * values at its place. Threads compute their own rows, as norms do, so no barrier is needed
 * between.
 */
#include "worker/backend/cpu/ops/cpu_ops.h"

static void multiply(const float *x, const float *y, uint32_t count, float *out)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = x[i] * y[i];
}

void cpu_gate_with(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct gate_with_params *params = &op->params.gate_with;
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    struct row_share share = cpu_step_share(step, out->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        const float *y = cpu_step_row(step, op->inputs[1], row) + params->offset;
        float *to = cpu_step_row(step, op->output, row);
        if (params->activation == GATE_PLAIN)
            multiply(x, y, out->columns, to);
        else
            step->program->kernels->gate(params->activation, x, y, out->columns, to);
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, out->columns);
    }
}

void cpu_add_rows(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *tensor = &step->program->tensors[op->output];
    float scale = op->params.add_rows.scale;
    struct row_share share = cpu_step_share(step, tensor->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        const float *y = cpu_step_row(step, op->inputs[1], row);
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t c = 0; c < tensor->columns; c++)
            out[c] = scale * (x[c] + y[c]);
    }
}

void cpu_scale_columns(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *tensor = &step->program->tensors[op->output];
    const float *weight = step->program->vectors[op->weights[0]];
    bool one = step->program->plan->weights[op->weights[0]].columns == 1;
    struct row_share share = cpu_step_share(step, tensor->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t c = 0; c < tensor->columns; c++)
            out[c] = x[c] * weight[one ? 0 : c];
    }
}

void cpu_clip_columns(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct clip_columns_params *params = &op->params.clip_columns;
    size_t stride = params->stride > 0 ? params->stride : 1;
    const struct cpu_tensor *tensor = &step->program->tensors[op->inputs[0]];
    struct row_share share = cpu_step_share(step, tensor->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        float *out = cpu_step_row(step, op->output, row) + params->offset;
        for (size_t c = 0; c < tensor->columns; c++) {
            float raised = x[c] < params->minimum ? params->minimum : x[c];
            out[c * stride] = raised > params->maximum ? params->maximum : raised;
        }
    }
}
