/*
 * near_attention: a row of a sound attends to itself and to some rows before it, by content and by distance.
 *
 * A piece is one row with all its heads. Only a few rows are seen, so scores fit the stack, and keys and
 * values are read where they are; the encoder computes all rows of the input first.
 */
#include <math.h>
#include <string.h>

#include "proto/limits.h"
#include "worker/backend/cpu/ops/cpu_ops.h"
#include "worker/plan/float_dot.h"

/* weights[count] of rows [first, first + count), the last of which is `row` itself. */
static void weigh(const struct cpu_step *step, const struct plan_op *op, uint32_t row,
                  uint32_t head, uint32_t count, float *weights)
{
    const struct near_attention_params *params = &op->params.near_attention;
    uint32_t head_dim = params->queries.head_dim, wide = params->queries.heads * head_dim;
    size_t column = (size_t)head * head_dim;
    const float *query = cpu_step_row(step, op->inputs[0], row) + params->queries.offset + column;
    const float *distances = step->program->vectors[op->weights[0]] +
                             (size_t)(params->before + 1 - count) * wide + column;
    float most = -INFINITY, sum = 0.0f;
    for (uint32_t j = 0; j < count; j++) {
        const float *key =
            cpu_step_row(step, op->inputs[0], row + 1 - count + j) + params->keys + column;
        float score = params->scale * float_dot(query, key, head_dim) +
                      float_dot(query, distances + (size_t)j * wide, head_dim);
        if (params->soft_cap > 0.0f)
            score = params->soft_cap * tanhf(score / params->soft_cap);
        weights[j] = score;
        most = fmaxf(most, score);
    }
    for (uint32_t j = 0; j < count; j++) {
        weights[j] = expf(weights[j] - most);
        sum += weights[j];
    }
    for (uint32_t j = 0; j < count; j++)
        weights[j] /= sum;
}

static void attend(const struct cpu_step *step, const struct plan_op *op, uint32_t row)
{
    const struct near_attention_params *params = &op->params.near_attention;
    uint32_t head_dim = params->queries.head_dim, y = step->patches->places[row].y;
    uint32_t count = (y < params->before ? y : params->before) + 1;
    float weights[LIMIT_AUDIO_NEAR + 1];
    float *out = cpu_step_row(step, op->output, row);
    for (uint32_t head = 0; head < params->queries.heads; head++, out += head_dim) {
        weigh(step, op, row, head, count, weights);
        memset(out, 0, head_dim * sizeof *out);
        for (uint32_t j = 0; j < count; j++) {
            const float *value = cpu_step_row(step, op->inputs[0], row + 1 - count + j) +
                                 params->values + (size_t)head * head_dim;
            for (uint32_t d = 0; d < head_dim; d++)
                out[d] += weights[j] * value[d];
        }
    }
}

void cpu_near_attention(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece >= cpu_step_rows(step, PLAN_ROWS_PATCHES))
            return;
        attend(step, op, cpu_step_first_row(step, PLAN_ROWS_PATCHES) + piece);
    }
}
