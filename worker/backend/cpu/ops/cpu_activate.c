/*
 * activate: an activation function alone. SiLU and the tanh and quick forms of GELU use the gate
 * kernel with a constant as the other half. GELU by the error function and xIELU call the C library;
 * towers use the former only for merged rows.
 */
#include <math.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

#define QUICK_SLOPE 1.702f
#define CHUNK       64u

/* x [count]; out may be x */
static void xielu(const struct xielu_params *params, const float *x, uint32_t count, float *out)
{
    for (uint32_t c = 0; c < count; c++) {
        float v = x[c];
        float curve = v > 0.0f ? params->positive * v * v
                               : params->negative * (expm1f(fminf(v, params->least)) - v);
        out[c] = curve + params->linear * v;
    }
}

/* x [count], at most CHUNK; out may be x */
static void activate_chunk(const struct cpu_kernels *kernels, const struct activate_params *params,
                           const float *x, uint32_t count, float *out)
{
    enum activation activation = params->activation;
    float other[CHUNK], steep[CHUNK];
    float constant = activation == ACTIVATION_GELU_QUICK ? 1.0f / QUICK_SLOPE : 1.0f;
    for (uint32_t c = 0; c < count; c++) {
        other[c] = constant;
        steep[c] = x[c] * QUICK_SLOPE;
    }
    switch (activation) {
    case ACTIVATION_SILU: kernels->gate(GATE_SILU, x, other, count, out); return;
    case ACTIVATION_GELU_TANH: kernels->gate(GATE_GELU_TANH, x, other, count, out); return;
    case ACTIVATION_GELU_QUICK: kernels->gate(GATE_SILU, steep, other, count, out); return;
    case ACTIVATION_RELU2:
        for (uint32_t c = 0; c < count; c++)
            out[c] = x[c] > 0.0f ? x[c] * x[c] : 0.0f;
        return;
    case ACTIVATION_XIELU: xielu(&params->xielu, x, count, out); return;
    case ACTIVATION_GELU_ERF: break;
    }
    for (uint32_t c = 0; c < count; c++)
        out[c] = 0.5f * x[c] * (1.0f + erff(x[c] * 0.70710678f));
}

void cpu_activate(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *tensor = &step->program->tensors[op->output];
    struct row_share share = cpu_step_share(step, tensor->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t c = 0; c < tensor->columns; c += CHUNK) {
            uint32_t left = tensor->columns - c;
            activate_chunk(step->program->kernels, &op->params.activate, x + c,
                           left < CHUNK ? left : CHUNK, out + c);
        }
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, tensor->columns);
    }
}
