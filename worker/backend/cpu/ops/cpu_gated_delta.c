/*
 * gated_delta: each value head of a sequence updates a matrix row by row, so rows run in order and
 * heads are independent. A piece is one head of one sequence: it updates the matrix in the
 * sequence's slot for each row.
 *
 * The matrix is stored as [key_dim, value_dim]: both products with it then add whole rows, which
 * compilers vectorize without changing the order of any sum. Two passes per row: decay and recall,
 * then correction and output. Results do not depend on where a chunk ends.
 *
 * The piece of a sequence's first head keeps the inputs of deferred rows (cpu_state_rows.h).
 *
 * The chunked form, which turns a prompt's rows into matrix products, is not used: its sums depend
 * on where chunks end.
 */
#include <math.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/cpu/ops/cpu_state_rows.h"

#define SOFTPLUS_LINEAR 20.0f /* above this softplus(x) is x, as in torch */

struct delta_head {
    const struct gated_delta_params *params;
    float rate; /* of decay, < 0 */
    float time_bias;
    uint32_t head;
    uint32_t key_head; /* the head of its query and key */
};

static float softplus(float x)
{
    return x > SOFTPLUS_LINEAR ? x : log1pf(expf(x));
}

/* out = factor * x / |x|. */
static void normalize(const float *x, uint32_t count, float factor, float *out)
{
    float squares = 0;
    for (uint32_t i = 0; i < count; i++)
        squares += x[i] * x[i];
    factor /= sqrtf(squares + DELTA_NORM_EPSILON);
    for (uint32_t i = 0; i < count; i++)
        out[i] = x[i] * factor;
}

/* Decays the matrix; recalled = matrix^T . key. */
static void recall(const struct delta_head *head, float *matrix, const float *key, float decay,
                   float *recalled)
{
    uint32_t values = head->params->value_dim;
    memset(recalled, 0, values * sizeof(float));
    for (uint32_t k = 0; k < head->params->key_dim; k++) {
        float *row = matrix + (size_t)k * values;
        for (uint32_t v = 0; v < values; v++) {
            row[v] *= decay;
            recalled[v] += row[v] * key[k];
        }
    }
}

/* matrix += key x correction; out = matrix^T . query */
static void answer(const struct delta_head *head, float *matrix, const float *key,
                   const float *correction, const float *query, float *out)
{
    uint32_t values = head->params->value_dim;
    memset(out, 0, values * sizeof(float));
    for (uint32_t k = 0; k < head->params->key_dim; k++) {
        float *row = matrix + (size_t)k * values;
        for (uint32_t v = 0; v < values; v++) {
            row[v] += key[k] * correction[v];
            out[v] += row[v] * query[k];
        }
    }
}

/* x: queries | keys | values of all heads; y: beta | alpha of all value heads. */
static void move_row(const void *context, float *matrix, const struct cpu_state_row *row)
{
    const struct delta_head *head = context;
    const struct gated_delta_params *p = head->params;
    const float *x = row->x, *y = row->y;
    float query[LIMIT_HEAD_DIM], key[LIMIT_HEAD_DIM], correction[LIMIT_HEAD_DIM];
    float unused[LIMIT_HEAD_DIM];
    const float *queries = x, *keys = x + (size_t)p->key_heads * p->key_dim;
    const float *value = keys + (size_t)p->key_heads * p->key_dim + head->head * p->value_dim;
    float beta = 1.0f / (1.0f + expf(-y[head->head]));
    float alpha = y[p->value_heads + head->head];
    float decay = expf(head->rate * softplus(alpha + head->time_bias));
    normalize(queries + head->key_head * p->key_dim, p->key_dim, 1.0f / sqrtf((float)p->key_dim),
              query);
    normalize(keys + head->key_head * p->key_dim, p->key_dim, 1.0f, key);
    recall(head, matrix, key, decay, correction);
    for (uint32_t v = 0; v < p->value_dim; v++)
        correction[v] = (value[v] - correction[v]) * beta;
    answer(head, matrix, key, correction, query,
           row->out ? row->out + (size_t)head->head * p->value_dim : unused);
}

static struct delta_head make_head(const struct cpu_step *step, const struct plan_op *op,
                                   uint32_t number)
{
    const struct gated_delta_params *p = &op->params.gated_delta;
    float rate = step->program->vectors[op->weights[0]][number];
    return (struct delta_head){
        .params = p,
        .rate = p->rate_is_log ? -expf(rate) : rate,
        .time_bias = step->program->vectors[op->weights[1]][number],
        .head = number,
        .key_head =
            p->heads_alternate ? number % p->key_heads : number / (p->value_heads / p->key_heads),
    };
}

void cpu_gated_delta(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct gated_delta_params *p = &op->params.gated_delta;
    const struct cpu_state_op moved = {step, op, p->layer, 0, 2 * p->value_heads};
    uint32_t total = p->value_heads * step->batch->sequence_count;
    must(p->key_dim <= LIMIT_HEAD_DIM && p->value_dim <= LIMIT_HEAD_DIM);
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece >= total)
            return;
        const struct step_sequence *sequence = &step->batch->sequences[piece / p->value_heads];
        const struct delta_head head = make_head(step, op, piece % p->value_heads);
        if (head.head == 0)
            cpu_state_rows_keep(&moved, sequence);
        cpu_state_rows_move(&moved, sequence, head.head, (size_t)p->key_dim * p->value_dim,
                            step->scratch[thread], move_row, &head);
    }
}
