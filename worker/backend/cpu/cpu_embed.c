/*
 * embed_rows and gather_rows: rows that come from elsewhere.
 *
 * Embedding rows are decoded straight from the mapped checkpoint, one per token: the table is far
 * larger than what a conversation touches, so no second form of it is kept for this.
 */
#include <string.h>

#include "worker/backend/cpu/cpu_ops.h"
#include "worker/backend/cpu/ggml_dequantize.h"

void cpu_embed_rows(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct plan_weight *weight = &step->program->plan->weights[op->weights[0]];
    uint64_t row_bytes = ggml_row_bytes(weight->type, weight->columns);
    float scale = op->params.embed_rows.scale;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_STEP, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const uint8_t *source =
            (const uint8_t *)weight->data + step->batch->token_ids[row] * row_bytes;
        float *out = cpu_step_row(step, op->output, row);
        ggml_dequantize_row(weight->type, source, weight->columns, out);
        for (uint32_t c = 0; c < weight->columns; c++)
            out[c] *= scale;
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, weight->columns);
    }
}

void cpu_gather_rows(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    uint32_t columns = step->program->tensors[op->output].columns;
    for (;;) {
        uint32_t row = cpu_step_claim(step, index, 1);
        if (row >= step->batch->logit_row_count)
            return;
        memcpy(cpu_step_row(step, op->output, row),
               cpu_step_row(step, op->inputs[0], step->batch->logit_rows[row]),
               columns * sizeof(float));
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, columns);
    }
}
