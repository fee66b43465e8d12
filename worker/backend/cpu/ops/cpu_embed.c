/*
 * embed_rows and gather_rows: rows read by index: of tokens, positions or segments.
 *
 * Embedding rows are decoded from the mapped checkpoint, one per token: the table is far larger
 * than the part that a conversation touches, so no packed copy is made. Rows in other formats than
 * their type are converted 256 columns at a time. A row of an image gets its feature, or the row of
 * one token that stands for all image rows.
 */
#include <string.h>

#include "worker/backend/cpu/ops/cpu_ops.h"
#include "worker/backend/host/ggml_dequantize.h"

enum { PIECE = 256 }; /* columns that are converted at a time */

static void fetch_row(const struct plan_weight *weight, uint32_t row, float *out)
{
    if (weight->source.layout == WEIGHT_IN_PLACE) {
        uint64_t row_bytes = ggml_row_bytes(weight->type, weight->columns);
        ggml_dequantize_row(weight->type, (const uint8_t *)weight->data + row * row_bytes,
                            weight->columns, out);
        return;
    }
    for (uint32_t c = 0; c < weight->columns; c += PIECE) {
        uint8_t piece[PIECE * sizeof(float)];
        uint32_t left = weight->columns - c;
        struct weight_span span = {row, c, left < PIECE ? left : PIECE};
        weight_source_read(&weight->source, weight->columns, span, piece);
        ggml_dequantize_row(weight->type, piece, span.count, out + c);
    }
}

/* The row that `params` names for row `row` of the step, by position or segment. */
static uint32_t place_of(const struct cpu_step *step, const struct embed_rows_params *params,
                         uint32_t row, uint32_t rows)
{
    const struct rope_position *places = step->batch->rope_positions;
    uint64_t at = params->offset;
    if (params->index == INDEX_POSITION)
        at += cpu_step_position(step, row);
    else
        at += places ? places[row].height : 0;
    return at < rows ? (uint32_t)at : rows - 1;
}

void cpu_embed_rows(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct plan_weight *weight = &step->program->plan->weights[op->weights[0]];
    float scale = op->params.embed_rows.scale;
    const uint32_t *features = step->batch->feature_rows;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_STEP, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        float *out = cpu_step_row(step, op->output, row);
        uint32_t token = step->batch->token_ids[row];
        bool image = features && features[row] != ROW_FEATURE_NONE;
        if (image && op->params.embed_rows.features) {
            memcpy(out, cpu_feature_pool_row(step->features, features[row]),
                   weight->columns * sizeof(float));
        } else {
            if (op->params.embed_rows.index != INDEX_TOKEN)
                token = place_of(step, &op->params.embed_rows, row, weight->rows);
            token = image ? op->params.embed_rows.image_token : token;
            fetch_row(weight, token < weight->rows ? token : 0, out);
            for (uint32_t c = 0; c < weight->columns; c++)
                out[c] *= scale;
        }
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
