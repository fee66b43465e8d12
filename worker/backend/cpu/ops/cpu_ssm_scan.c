/*
 * ssm_scan: each head of a sequence moves a matrix row by row, so rows run in order and heads are
 * independent. A piece is one head of one sequence.
 *
 * The matrix is stored as [state, head_dim]: a row of it is one state of all the head's columns, so
 * compilers vectorize its update and its share of the output without changing the order of any sum.
 * Results do not depend on where a chunk ends. The chunked form, which turns a prompt's rows into
 * matrix products, is not used: its sums depend on where chunks end.
 */
#include <math.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/cpu/ops/cpu_state_rows.h"

#define SOFTPLUS_LINEAR 20.0f /* above this softplus(x) is x, as in torch */

struct ssm_head {
    const struct ssm_scan_params *params;
    float rate; /* of decay, < 0 */
    float step_bias;
    float skip;
    uint32_t number;
    uint32_t group;
};

static float step_size(const struct ssm_head *head, float stated)
{
    float x = stated + head->step_bias;
    float step = x > SOFTPLUS_LINEAR ? x : log1pf(expf(x));
    return fminf(fmaxf(step, head->params->least_step), head->params->most_step);
}

/* x: values of all heads | B of all groups | C of all groups; y: a step of each head. */
static void move_row(const void *context, float *matrix, const struct cpu_state_row *row)
{
    const struct ssm_head *head = context;
    const struct ssm_scan_params *p = head->params;
    uint32_t dim = p->head_dim, state = p->state;
    const float *value = row->x + (size_t)head->number * dim;
    const float *b = row->x + (size_t)p->heads * dim + (size_t)head->group * state;
    const float *c = b + (size_t)p->groups * state;
    float step = step_size(head, row->y[head->number]);
    float decay = expf(head->rate * step);
    float scaled[LIMIT_HEAD_DIM], sums[LIMIT_HEAD_DIM] = {0};
    for (uint32_t d = 0; d < dim; d++)
        scaled[d] = value[d] * step;
    for (uint32_t s = 0; s < state; s++) {
        float *moved = matrix + (size_t)s * dim;
        for (uint32_t d = 0; d < dim; d++) {
            moved[d] = moved[d] * decay + b[s] * scaled[d];
            sums[d] += moved[d] * c[s];
        }
    }
    if (!row->out)
        return;
    float *out = row->out + (size_t)head->number * dim;
    for (uint32_t d = 0; d < dim; d++)
        out[d] = sums[d] + head->skip * value[d];
}

static struct ssm_head make_head(const struct cpu_step *step, const struct plan_op *op,
                                 uint32_t number)
{
    const struct ssm_scan_params *p = &op->params.ssm_scan;
    float rate = step->program->vectors[op->weights[0]][number];
    return (struct ssm_head){
        .params = p,
        .rate = p->rate_is_log ? -expf(rate) : rate,
        .step_bias = step->program->vectors[op->weights[1]][number],
        .skip = step->program->vectors[op->weights[2]][number],
        .number = number,
        .group = number / (p->heads / p->groups),
    };
}

void cpu_ssm_scan(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct ssm_scan_params *p = &op->params.ssm_scan;
    const struct cpu_state_op moved = {step, op, p->layer, p->steps_offset, p->heads};
    uint32_t total = p->heads * step->batch->sequence_count;
    must(p->head_dim <= LIMIT_HEAD_DIM && p->state <= LIMIT_HEAD_DIM);
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece >= total)
            return;
        const struct step_sequence *sequence = &step->batch->sequences[piece / p->heads];
        const struct ssm_head head = make_head(step, op, piece % p->heads);
        if (head.number == 0)
            cpu_state_rows_keep(&moved, sequence);
        cpu_state_rows_move(&moved, sequence, head.number, (size_t)p->state * p->head_dim,
                            step->scratch[thread], move_row, &head);
    }
}
