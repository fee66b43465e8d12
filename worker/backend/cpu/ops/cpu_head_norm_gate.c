/*
 * head_norm_gate: norms the output heads of a gated delta net and gates them by columns of another
 * projection. Each thread computes its own rows and quantizes them if a product reads them next.
 */
#include "worker/backend/cpu/ops/cpu_ops.h"

void cpu_head_norm_gate(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct head_norm_gate_params *params = &op->params.head_norm_gate;
    const struct cpu_kernels *kernels = step->program->kernels;
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    const float *weight = step->program->vectors[op->weights[0]];
    uint32_t head_dim = params->gates.head_dim;
    struct row_share share = cpu_step_share(step, out->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        const float *gate = cpu_step_row(step, op->inputs[1], row) + params->gates.offset;
        float *normed = cpu_step_row(step, op->output, row);
        for (uint32_t head = 0; head < params->gates.heads; head++) {
            uint32_t at = head * head_dim;
            kernels->rms_norm(x + at, weight, 0.0f, params->epsilon, NULL, head_dim, normed + at);
            kernels->gate(GATE_SILU, gate + at, normed + at, head_dim, normed + at);
        }
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, out->columns);
    }
}
