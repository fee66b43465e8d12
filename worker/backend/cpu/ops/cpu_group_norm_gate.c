/*
 * group_norm_gate: gates the output of a state space mixer by columns of another projection and norms
 * each group of its columns. Each thread computes its own rows and quantizes them if a product reads
 * them next.
 */
#include "worker/backend/cpu/ops/cpu_ops.h"

void cpu_group_norm_gate(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct group_norm_gate_params *params = &op->params.group_norm_gate;
    const struct cpu_kernels *kernels = step->program->kernels;
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    bool norms = op->weights[0] != PLAN_NONE;
    const float *weight = norms ? step->program->vectors[op->weights[0]] : NULL;
    uint32_t wide = params->gates.head_dim;
    struct row_share share = cpu_step_share(step, out->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        const float *gate = cpu_step_row(step, op->inputs[1], row) + params->gates.offset;
        float *gated = cpu_step_row(step, op->output, row);
        if (!norms || !params->norm_first) {
            kernels->gate(GATE_SILU, gate, x, out->columns, gated);
            x = gated;
        }
        for (uint32_t group = 0; norms && group < params->gates.heads; group++)
            kernels->rms_norm(x + group * wide, weight + group * wide, 0.0f, params->epsilon, NULL,
                              wide, gated + group * wide);
        if (norms && params->norm_first)
            kernels->gate(GATE_SILU, gate, gated, out->columns, gated);
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, out->columns);
    }
}
