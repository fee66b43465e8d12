/*
 * gated_delta: each value head of a sequence updates a matrix row by row, so rows run in order and
 * heads are independent. A piece is one head of one sequence: it updates the matrix in the
 * sequence's slot for each row.
 *
 * The matrix is stored as [key_dim, value_dim]: both products with it then add whole rows, which
 * compilers vectorize without changing the order of any sum. Two passes per row: decay and recall,
 * then correction and output. Results do not depend on where a chunk ends.
 *
 * Late rows (struct step_sequence) run like the others, from their kept inputs, and their outputs
 * are dropped. Deferred rows run on a copy of the head's matrix. The piece of a sequence's first
 * head keeps their inputs.
 *
 * The chunked form, which turns a prompt's rows into matrix products, is not used: its sums depend
 * on where chunks end.
 */
#include <math.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/cpu/ops/cpu_ops.h"
#include "worker/backend/cpu/program/cpu_state.h"

#define SOFTPLUS_LINEAR 20.0f /* above this softplus(x) is x, as in torch */

struct delta_head {
    const struct gated_delta_params *params;
    float rate; /* of decay, < 0 */
    float time_bias;
    uint32_t head;
    uint32_t key_head; /* the head of its query and key */
    float *matrix;     /* [key_dim, value_dim] */
    size_t floats;     /* of it */
};

/* The rows of a sequence: late ones, then those of the step. */
struct delta_rows {
    const struct step_sequence *sequence;
    uint32_t advancing; /* the first so many advance the slot */
    uint32_t total;
    uint32_t copied_after; /* so many the slot is copied */
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
static void recall(const struct delta_head *head, const float *key, float decay, float *recalled)
{
    uint32_t values = head->params->value_dim;
    memset(recalled, 0, values * sizeof(float));
    for (uint32_t k = 0; k < head->params->key_dim; k++) {
        float *row = head->matrix + (size_t)k * values;
        for (uint32_t v = 0; v < values; v++) {
            row[v] *= decay;
            recalled[v] += row[v] * key[k];
        }
    }
}

/* matrix += key x correction; out = matrix^T . query */
static void answer(const struct delta_head *head, const float *key, const float *correction,
                   const float *query, float *out)
{
    uint32_t values = head->params->value_dim;
    memset(out, 0, values * sizeof(float));
    for (uint32_t k = 0; k < head->params->key_dim; k++) {
        float *row = head->matrix + (size_t)k * values;
        for (uint32_t v = 0; v < values; v++) {
            row[v] += key[k] * correction[v];
            out[v] += row[v] * query[k];
        }
    }
}

/* A row: queries | keys | values of all heads; beta | alpha of all value heads; and the output of one
 * head [value_dim]. */
struct delta_row {
    const float *x;
    const float *y;
    float *out;
};

static void move_row(const struct delta_head *head, const struct delta_row *row)
{
    const struct gated_delta_params *p = head->params;
    const float *x = row->x, *y = row->y;
    float query[LIMIT_HEAD_DIM], key[LIMIT_HEAD_DIM], correction[LIMIT_HEAD_DIM];
    const float *queries = x, *keys = x + (size_t)p->key_heads * p->key_dim;
    const float *value = keys + (size_t)p->key_heads * p->key_dim + head->head * p->value_dim;
    float beta = 1.0f / (1.0f + expf(-y[head->head]));
    float alpha = y[p->value_heads + head->head];
    float decay = expf(head->rate * softplus(alpha + head->time_bias));
    normalize(queries + head->key_head * p->key_dim, p->key_dim, 1.0f / sqrtf((float)p->key_dim),
              query);
    normalize(keys + head->key_head * p->key_dim, p->key_dim, 1.0f, key);
    recall(head, key, decay, correction);
    for (uint32_t v = 0; v < p->value_dim; v++)
        correction[v] = (value[v] - correction[v]) * beta;
    answer(head, key, correction, query, row->out);
}

static struct delta_head make_head(const struct cpu_step *step, const struct plan_op *op,
                                   uint32_t number, uint32_t slot)
{
    const struct gated_delta_params *p = &op->params.gated_delta;
    float rate = step->program->vectors[op->weights[0]][number];
    size_t floats = (size_t)p->key_dim * p->value_dim;
    return (struct delta_head){
        .params = p,
        .rate = p->rate_is_log ? -expf(rate) : rate,
        .time_bias = step->program->vectors[op->weights[1]][number],
        .head = number,
        .key_head =
            p->heads_alternate ? number % p->key_heads : number / (p->value_heads / p->key_heads),
        .matrix = cpu_state_delta(step->program, p->layer, slot) + number * floats,
        .floats = floats,
    };
}

static struct delta_rows list_rows(const struct step_sequence *sequence)
{
    uint32_t total = sequence->late_rows + sequence->row_count;
    return (struct delta_rows){.sequence = sequence,
                               .advancing = total - sequence->deferred_rows,
                               .total = total,
                               .copied_after = cpu_state_copied_after(sequence)};
}

/* unused: [value_dim], the output of late rows. */
static struct delta_row find_row(const struct cpu_step *step, const struct plan_op *op,
                                 const struct step_sequence *sequence,
                                 const struct delta_head *head, uint32_t at, float *unused)
{
    if (at < sequence->late_rows) {
        const float *kept =
            cpu_state_delta_row(step->program, head->params->layer, sequence->late_place + at);
        return (struct delta_row){kept, kept + step->program->tensors[op->inputs[0]].columns,
                                  unused};
    }
    uint32_t row = sequence->first_row + at - sequence->late_rows;
    float *out = cpu_step_row(step, op->output, row);
    return (struct delta_row){cpu_step_row(step, op->inputs[0], row),
                              cpu_step_row(step, op->inputs[1], row),
                              out + head->head * head->params->value_dim};
}

static void keep_deferred(const struct cpu_step *step, const struct plan_op *op,
                          const struct step_sequence *sequence)
{
    uint32_t x_columns = step->program->tensors[op->inputs[0]].columns;
    uint32_t y_columns = step->program->tensors[op->inputs[1]].columns;
    uint32_t first = sequence->first_row + sequence->row_count - sequence->deferred_rows;
    must(x_columns + y_columns == step->program->plan->state.delta_row_floats);
    for (uint32_t i = 0; i < sequence->deferred_rows; i++) {
        float *kept = cpu_state_delta_row(step->program, op->params.gated_delta.layer,
                                          sequence->deferred_place + i);
        memcpy(kept, cpu_step_row(step, op->inputs[0], first + i), x_columns * sizeof(float));
        memcpy(kept + x_columns, cpu_step_row(step, op->inputs[1], first + i),
               y_columns * sizeof(float));
    }
}

/* Moves a head through all rows of a sequence. tried: [head->floats] scratch. */
static void move_head(const struct cpu_step *step, const struct plan_op *op,
                      struct delta_head *head, const struct delta_rows *rows, float *tried)
{
    const struct step_sequence *sequence = rows->sequence;
    float unused[LIMIT_HEAD_DIM];
    for (uint32_t at = 0; at < rows->total; at++) {
        if (at == rows->advancing) {
            memcpy(tried, head->matrix, head->floats * sizeof(float));
            head->matrix = tried;
        }
        const struct delta_row row = find_row(step, op, sequence, head, at, unused);
        move_row(head, &row);
        if (at + 1 == rows->copied_after)
            memcpy(cpu_state_delta(step->program, head->params->layer, sequence->state_copy) +
                       head->head * head->floats,
                   head->matrix, head->floats * sizeof(float));
    }
}

void cpu_gated_delta(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct gated_delta_params *p = &op->params.gated_delta;
    uint32_t total = p->value_heads * step->batch->sequence_count;
    must(p->key_dim <= LIMIT_HEAD_DIM && p->value_dim <= LIMIT_HEAD_DIM);
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece >= total)
            return;
        const struct step_sequence *sequence = &step->batch->sequences[piece / p->value_heads];
        struct delta_head head = make_head(step, op, piece % p->value_heads, sequence->state_slot);
        if (sequence->first_position == 0)
            memset(head.matrix, 0, (size_t)p->key_dim * p->value_dim * sizeof(float));
        if (piece % p->value_heads == 0)
            keep_deferred(step, op, sequence);
        const struct delta_rows rows = list_rows(sequence);
        move_head(step, op, &head, &rows, step->scratch[thread]);
    }
}
