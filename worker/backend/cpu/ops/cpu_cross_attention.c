/*
 * cross_attention and seeing_rows: a row attends to the features of an image or sound, whose keys and values the tower
 * wrote into the feature pool.
 *
 * A piece is one head of one row. Its scores are computed for a run of features at a time, and the sum so
 * far is scaled down when a run has a larger score, so any number of features needs the same room. A row's
 * numbers depend on that row and its features alone.
 */
#include <math.h>
#include <string.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

#define RUN 64u /* features whose scores are computed together */

struct cross_head {
    const float *query;
    const struct cpu_feature_pool *pool;
    size_t keys; /* columns of a feature */
    size_t values;
    uint32_t head_dim;
    float scale;
    float most; /* largest score so far, */
    float sum;  /* and the sum of exponentials relative to it */
    float *out; /* [head_dim] their sum times values */
};

static float dot(const float *a, const float *b, uint32_t count)
{
    float parts[8] = {0};
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (uint32_t lane = 0; lane < 8; lane++)
            parts[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        parts[0] += a[i] * b[i];
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
           ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

static void attend_run(struct cross_head *head, uint32_t first, uint32_t count)
{
    float scores[RUN], most = head->most;
    for (uint32_t i = 0; i < count; i++) {
        const float *feature = cpu_feature_pool_row(head->pool, first + i);
        scores[i] = head->scale * dot(head->query, feature + head->keys, head->head_dim);
        most = fmaxf(most, scores[i]);
    }
    float kept = expf(head->most - most); /* 0 for the first run */
    head->sum *= kept;
    for (uint32_t d = 0; d < head->head_dim; d++)
        head->out[d] *= kept;
    for (uint32_t i = 0; i < count; i++) {
        const float *value = cpu_feature_pool_row(head->pool, first + i) + head->values;
        float weight = expf(scores[i] - most);
        head->sum += weight;
        for (uint32_t d = 0; d < head->head_dim; d++)
            head->out[d] += weight * value[d];
    }
    head->most = most;
}

/* The batch's ranges lie within the pool (cpu_walk.c). */
static void attend(struct cross_head *head, const struct feature_range *ranges, uint32_t count)
{
    memset(head->out, 0, head->head_dim * sizeof *head->out);
    head->most = -INFINITY;
    head->sum = 0.0f;
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t at = 0; at < ranges[r].row_count; at += RUN) {
            uint32_t left = ranges[r].row_count - at;
            attend_run(head, ranges[r].first_row + at, left < RUN ? left : RUN);
        }
    }
    for (uint32_t d = 0; head->sum > 0.0f && d < head->head_dim; d++)
        head->out[d] /= head->sum;
}

static struct row_crossing crossing_of(const struct cpu_step *step, uint32_t row)
{
    return step->batch->crossed ? step->batch->crossed[row] : (struct row_crossing){0};
}

void cpu_cross_attention(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cross_attention_params *params = &op->params.cross_attention;
    uint32_t heads = params->queries.heads, head_dim = params->queries.head_dim;
    uint32_t rows = cpu_step_rows(step, PLAN_ROWS_STEP);
    size_t wide = (size_t)params->kv_heads * head_dim;
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece >= rows * heads)
            return;
        uint32_t row = piece / heads, number = piece % heads;
        size_t shared = (size_t)(number / (heads / params->kv_heads)) * head_dim;
        const float *x = cpu_step_row(step, op->inputs[0], row);
        struct cross_head head = {
            .query = x + params->queries.offset + (size_t)number * head_dim,
            .pool = step->features,
            .keys = 2 * params->layer * wide + shared,
            .values = (2 * params->layer + 1) * wide + shared,
            .head_dim = head_dim,
            .scale = params->scale,
            .out = cpu_step_row(step, op->output, row) + (size_t)number * head_dim,
        };
        struct row_crossing crossing = crossing_of(step, row);
        attend(&head, crossing.range_count > 0 ? step->batch->ranges + crossing.first_range : NULL,
               crossing.range_count);
    }
}

void cpu_seeing_rows(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    uint32_t columns = step->program->tensors[op->output].columns;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_STEP, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        struct row_crossing crossing = crossing_of(step, row);
        if (crossing.range_count == 0 || crossing.blind)
            memset(cpu_step_row(step, op->output, row), 0, columns * sizeof(float));
    }
}
