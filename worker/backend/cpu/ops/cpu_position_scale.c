/*
 * position_scale: scales queries at large positions, so that attention over many keys stays as
 * sharp as over few. One factor per row.
 */
#include <math.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

void cpu_position_scale(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct position_scale_params *params = &op->params.position_scale;
    uint32_t columns = params->slice.heads * params->slice.head_dim;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_STEP, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        uint32_t periods = cpu_step_position(step, row) / params->period_tokens;
        float factor = 1.0f + params->beta * logf(1.0f + (float)periods);
        float *x = cpu_step_row(step, op->output, row) + params->slice.offset;
        for (uint32_t c = 0; c < columns; c++)
            x[c] *= factor;
    }
}
