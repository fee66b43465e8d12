/*
 * embed_rows, embed_over, gather_rows and patch_table: rows read by index: of tokens, positions, segments, or tiles.
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

struct column_run {
    uint32_t first; /* a multiple of PIECE */
    uint32_t count; /* at most PIECE */
};

static void fetch_columns(const struct plan_weight *weight, uint32_t row, struct column_run run,
                          float *out)
{
    if (weight->source.layout == WEIGHT_IN_PLACE) {
        uint64_t row_bytes = ggml_row_bytes(weight->type, weight->columns);
        uint64_t before = ggml_row_bytes(weight->type, run.first);
        ggml_dequantize_row(weight->type, (const uint8_t *)weight->data + row * row_bytes + before,
                            run.count, out);
        return;
    }
    uint8_t piece[PIECE * sizeof(float)];
    struct weight_span span = {row, run.first, run.count};
    weight_source_read(&weight->source, weight->columns, span, piece);
    ggml_dequantize_row(weight->type, piece, run.count, out);
}

static void fetch_row(const struct plan_weight *weight, uint32_t row, float *out)
{
    for (uint32_t c = 0; c < weight->columns; c += PIECE) {
        uint32_t left = weight->columns - c;
        fetch_columns(weight, row, (struct column_run){c, left < PIECE ? left : PIECE}, out + c);
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

void cpu_embed_over(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct plan_weight *weight = &step->program->plan->weights[op->weights[0]];
    const uint32_t *features = step->batch->feature_rows;
    uint32_t first = op->params.embed_over.first;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_STEP, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        uint32_t token = step->batch->token_ids[row];
        bool other = token < first || token - first >= weight->rows;
        if (other || (features && features[row] != ROW_FEATURE_NONE))
            continue;
        memcpy(cpu_step_row(step, op->output, row),
               step->program->vectors[op->weights[0]] + (size_t)(token - first) * weight->columns,
               weight->columns * sizeof(float));
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

static bool takes_part(const struct patch_table_params *params, const struct patch_place *place)
{
    if (place->place == CANVAS_PADDING)
        return params->pads;
    return place->place == 0 ? params->leads : params->patches;
}

void cpu_patch_table(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct patch_table_params *params = &op->params.patch_table;
    const struct plan_weight *weight = &step->program->plan->weights[op->weights[0]];
    struct row_share share = cpu_step_share(step, PLAN_ROWS_PATCHES, thread);
    float values[PIECE];
    for (uint32_t row = share.begin; row < share.end; row++) {
        const struct patch_place *place = &step->patches->places[row];
        uint32_t at = params->tiles ? place->square : 0;
        float *out = cpu_step_row(step, op->output, row);
        if (!takes_part(params, place))
            continue;
        if (params->places > 0)
            at = at * params->places + place->place;
        for (uint32_t c = 0; c < weight->columns; c += PIECE) {
            uint32_t left = weight->columns - c, count = left < PIECE ? left : PIECE;
            fetch_columns(weight, at, (struct column_run){c, count}, values);
            for (uint32_t i = 0; i < count; i++)
                out[c + i] += params->scale * values[i];
        }
    }
}
