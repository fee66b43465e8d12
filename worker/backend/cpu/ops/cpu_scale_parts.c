/*
 * scale_parts: multiplies runs of columns by constants, in place.
 */
#include "worker/backend/cpu/ops/cpu_ops.h"

void cpu_scale_parts(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct scale_parts_params *params = &op->params.scale_parts;
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    struct row_share share = cpu_step_share(step, out->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        float *x = cpu_step_row(step, op->output, row);
        uint32_t column = 0;
        for (uint32_t part = 0; part < params->count; part++)
            for (uint32_t c = 0; c < params->columns[part]; c++)
                x[column++] *= params->scales[part];
    }
}
