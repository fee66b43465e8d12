/*
 * Mixtures of experts, except their products (cpu_moe_linear.c): routing, grouping of rows by
 * expert, gates, the weighted sum, and the shared expert.
 *
 * Routing selects the maximum repeatedly: few of a few hundred scores are chosen, and ties must be
 * decided by expert number alone. A NaN score compares below all others, so a route always consists
 * of existing, distinct experts.
 *
 * Grouping is a counting sort, so rows of an expert stay in order.
 */
#include "worker/backend/cpu/ops/cpu_moe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/cpu/ops/cpu_ops.h"

#define PIECE_COLUMNS 512u /* whole blocks of a quantized row, as in cpu_gate.c */

/* The route of one row (op_list.h). */
struct moe_row_route {
    uint32_t chosen;
    const float *experts; /* [chosen] expert numbers */
    const float *weights; /* [chosen] */
};

static struct moe_row_route route_of_row(const struct cpu_step *step, plan_tensor_id route,
                                         uint32_t row)
{
    const float *values = cpu_step_row(step, route, row);
    uint32_t chosen = step->program->tensors[route].columns / 2;
    return (struct moe_row_route){chosen, values, values + chosen};
}

/* Whether the row's expert number j is calculated at all. */
static bool is_used(const struct moe_row_route *route, uint32_t j)
{
    return route->weights[j] < 0.0f || !(route->weights[j] <= 0.0f);
}

/* --- moe_route --- */

static bool is_above(float score, float other)
{
    return score > other || (isnan(other) && !isnan(score));
}

/* Numbers of the `count` largest scores, the largest first. */
static void choose(const float *scores, uint32_t experts, uint32_t count, uint32_t *chosen)
{
    bool taken[LIMIT_EXPERTS] = {false};
    for (uint32_t j = 0; j < count; j++) {
        uint32_t best = experts;
        for (uint32_t e = 0; e < experts; e++)
            if (!taken[e] && (best == experts || is_above(scores[e], scores[best])))
                best = e;
        taken[best] = true;
        chosen[j] = best;
    }
}

/* Sum of exp(score - maximum) over all experts. */
static float sum_all(const float *scores, uint32_t experts, float maximum)
{
    float sum = 0.0f;
    for (uint32_t e = 0; e < experts; e++)
        sum += expf(scores[e] - maximum);
    return sum;
}

static void route_row(const struct moe_route_params *params, const float *scores, uint32_t experts,
                      const float *scales, float *route)
{
    uint32_t chosen[LIMIT_EXPERTS_CHOSEN] = {0};
    float *weights = route + params->chosen;
    float sum_chosen = 0.0f;
    choose(scores, experts, params->chosen, chosen);
    float maximum = scores[chosen[0]];
    for (uint32_t j = 0; j < params->chosen; j++) {
        weights[j] = expf(scores[chosen[j]] - maximum);
        sum_chosen += weights[j];
    }
    /* A softmax over all experts, normalized over the chosen, is the softmax over the chosen. */
    float sum = params->softmax_chosen || params->normalized ? sum_chosen
                                                             : sum_all(scores, experts, maximum);
    for (uint32_t j = 0; j < params->chosen; j++) {
        route[j] = (float)chosen[j];
        weights[j] = weights[j] / sum * params->scale * (scales ? scales[chosen[j]] : 1.0f);
    }
}

/* The sum of a group's largest values, one or two. */
static float group_score(const float *values, uint32_t count, uint32_t best)
{
    float first = -INFINITY, second = -INFINITY;
    for (uint32_t e = 0; e < count; e++) {
        if (is_above(values[e], first)) {
            second = first;
            first = values[e];
        } else if (is_above(values[e], second)) {
            second = values[e];
        }
    }
    return best > 1 ? first + second : first;
}

/* Leaves only the values of the groups of the largest scores. */
static void choose_groups(const struct moe_route_params *params, uint32_t experts, float *values)
{
    uint32_t each = experts / params->groups, chosen[LIMIT_EXPERTS] = {0};
    float scores[LIMIT_EXPERTS];
    bool kept[LIMIT_EXPERTS] = {false};
    for (uint32_t g = 0; g < params->groups; g++)
        scores[g] = group_score(values + (size_t)g * each, each, params->group_best);
    choose(scores, params->groups, params->groups_chosen, chosen);
    for (uint32_t i = 0; i < params->groups_chosen; i++)
        kept[chosen[i]] = true;
    for (uint32_t e = 0; e < experts; e++)
        if (!kept[e / each])
            values[e] = -INFINITY;
}

/* The params' `weighed` form. */
static void weigh_row(const struct moe_route_params *params, const float *scores, uint32_t experts,
                      const float *bias, float *route)
{
    uint32_t chosen[LIMIT_EXPERTS_CHOSEN] = {0};
    float chances[LIMIT_EXPERTS], values[LIMIT_EXPERTS];
    float *weights = route + params->chosen;
    float maximum = scores[0], sum = 0.0f;
    for (uint32_t e = 1; e < experts; e++)
        maximum = is_above(scores[e], maximum) ? scores[e] : maximum;
    float total = params->sigmoid ? 1.0f : sum_all(scores, experts, maximum);
    for (uint32_t e = 0; e < experts; e++) {
        chances[e] =
            params->sigmoid ? 1.0f / (1.0f + expf(-scores[e])) : expf(scores[e] - maximum) / total;
        values[e] = bias ? chances[e] + bias[e] : chances[e];
    }
    if (params->groups > 0)
        choose_groups(params, experts, values);
    choose(values, experts, params->chosen, chosen);
    for (uint32_t j = 0; j < params->chosen; j++)
        sum += chances[chosen[j]];
    float factor = params->normalized ? params->scale / (sum + params->epsilon) : params->scale;
    for (uint32_t j = 0; j < params->chosen; j++) {
        route[j] = (float)chosen[j];
        weights[j] = chances[chosen[j]] * factor;
    }
}

/* Whether the experts are those of such rows as row `row` of that kind. */
static bool is_routed(const struct cpu_step *step, const struct moe_route_params *params,
                      enum plan_rows rows, uint32_t row)
{
    if (params->rows == EXPERTS_OF_ALL)
        return true;
    uint32_t at = rows == PLAN_ROWS_LOGITS ? step->batch->logit_rows[row] : row;
    const uint32_t *features = step->batch->feature_rows;
    uint32_t token = step->batch->token_ids[at];
    bool image = (features && features[at] != ROW_FEATURE_NONE) || token == params->edges[0] ||
                 token == params->edges[1];
    return image == (params->rows == EXPERTS_OF_IMAGES);
}

/* The route of a row that uses none of the experts. */
static void route_nowhere(const struct moe_route_params *params, float *route)
{
    for (uint32_t j = 0; j < params->chosen; j++) {
        route[j] = (float)j;
        route[params->chosen + j] = 0.0f;
    }
}

void cpu_moe_route(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct moe_route_params *params = &op->params.moe_route;
    const struct cpu_tensor *x = &step->program->tensors[op->inputs[0]];
    plan_weight_id scales = op->weights[0];
    struct row_share share = cpu_step_share(step, x->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        float *route = cpu_step_row(step, op->output, row);
        if (is_routed(step, params, x->rows, row))
            (params->weighed ? weigh_row : route_row)(
                params, cpu_step_row(step, op->inputs[0], row), x->columns,
                scales == PLAN_NONE ? NULL : step->program->vectors[scales], route);
        else
            route_nowhere(params, route);
    }
}

void cpu_head_route(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    struct row_share share = cpu_step_share(step, out->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        float *route = cpu_step_row(step, op->output, row);
        for (uint32_t h = 0; h < out->columns / 2; h++) {
            route[h] = (float)h;
            route[out->columns / 2 + h] = 1.0f;
        }
    }
}

/* --- grouping --- */

struct cpu_moe_scratch *cpu_moe_scratch_create(const struct cpu_program *program, bool *enough)
{
    const struct plan *plan = program->plan;
    uint64_t pairs = 0, columns = 0;
    *enough = true;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct plan_op *op = &plan->ops[i];
        if (op->stem != OP_moe_linear)
            continue;
        uint64_t wide = plan->weights[op->weights[0]].columns;
        uint64_t chosen = plan->tensors[op->inputs[1]].columns / 2;
        columns = wide > columns ? wide : columns;
        pairs = chosen > pairs ? chosen : pairs;
    }
    if (pairs == 0)
        return NULL;
    pairs *= program->max_step_rows > program->max_logit_rows ? program->max_step_rows
                                                              : program->max_logit_rows;
    struct cpu_moe_scratch *scratch = must_alloc(1, sizeof *scratch);
    scratch->first_pair = must_alloc(LIMIT_EXPERTS + 1, sizeof *scratch->first_pair);
    scratch->pairs = calloc(pairs, sizeof *scratch->pairs);
    scratch->tiles = calloc(pairs, sizeof *scratch->tiles);
    scratch->gathered = aligned_alloc(64, (MOE_TILE_ROWS * columns * sizeof(float) + 63) / 64 * 64);
    *enough = scratch->pairs && scratch->tiles && scratch->gathered;
    return scratch;
}

void cpu_moe_scratch_destroy(struct cpu_moe_scratch *scratch)
{
    if (!scratch)
        return;
    free(scratch->first_pair);
    free(scratch->pairs);
    free(scratch->tiles);
    free(scratch->gathered);
    free(scratch);
}

void cpu_moe_group(const struct cpu_step *step, plan_tensor_id route, uint32_t rows,
                   uint32_t experts, struct cpu_moe_scratch *scratch)
{
    uint32_t *first = scratch->first_pair;
    memset(first, 0, (experts + 1) * sizeof *first);
    for (uint32_t row = 0; row < rows; row++) {
        struct moe_row_route own = route_of_row(step, route, row);
        for (uint32_t j = 0; j < own.chosen; j++) {
            must(own.experts[j] >= 0.0f && own.experts[j] < (float)experts);
            first[(uint32_t)own.experts[j] + 1] += is_used(&own, j);
        }
    }
    scratch->tile_count = 0;
    for (uint32_t e = 0; e < experts; e++) {
        uint32_t count = first[e + 1];
        first[e + 1] += first[e];
        for (uint32_t done = 0; done < count; done += MOE_TILE_ROWS)
            scratch->tiles[scratch->tile_count++] = (struct moe_tile){
                e, first[e] + done, count - done < MOE_TILE_ROWS ? count - done : MOE_TILE_ROWS};
    }
    for (uint32_t row = rows; row-- > 0;) { /* turns ends of groups into beginnings */
        struct moe_row_route own = route_of_row(step, route, row);
        for (uint32_t j = own.chosen; j-- > 0;)
            if (is_used(&own, j))
                scratch->pairs[--first[(uint32_t)own.experts[j] + 1]] = row * own.chosen + j;
    }
}

/* --- moe_gate --- */

/* The bias of columns [first, first + count) of an expert, from one weight or two. */
static float bias_at(const struct cpu_step *step, const struct plan_op *op, uint32_t expert,
                     uint32_t column)
{
    const struct plan *plan = step->program->plan;
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && op->weights[w] != PLAN_NONE; w++) {
        uint32_t columns = plan->weights[op->weights[w]].columns;
        if (column < columns)
            return step->program->vectors[op->weights[w]][(size_t)expert * columns + column];
        column -= columns;
    }
    return 0.0f;
}

/* Columns [first, first + count) of one expert's part. */
static void gate_piece(const struct cpu_step *step, const struct plan_op *op, uint32_t expert,
                       const float *x, uint32_t columns, uint32_t first, uint32_t count, float *out)
{
    const struct moe_gate_params *params = &op->params.moe_gate;
    float gate[PIECE_COLUMNS], up[PIECE_COLUMNS];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t gate_at = params->interleaved ? 2 * (first + i) : first + i;
        uint32_t up_at = params->interleaved ? gate_at + 1 : columns + first + i;
        gate[i] = x[gate_at];
        up[i] = x[up_at];
        if (op->weights[0] != PLAN_NONE) {
            gate[i] += bias_at(step, op, expert, gate_at);
            up[i] += bias_at(step, op, expert, up_at);
        }
    }
    /* gate * sigmoid(alpha * gate) * (up + 1) is silu(alpha * gate) * (up + 1) / alpha */
    for (uint32_t i = 0; i < count && params->limit > 0.0f; i++) {
        float held = up[i] < params->limit ? up[i] : params->limit;
        held = held > -params->limit ? held : -params->limit;
        gate[i] = params->alpha * (gate[i] < params->limit ? gate[i] : params->limit);
        up[i] = (held + 1.0f) / params->alpha;
    }
    step->program->kernels->gate(params->activation, gate, up, count, out);
}

void cpu_moe_gate(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    uint32_t chosen = step->program->tensors[op->inputs[1]].columns / 2;
    uint32_t columns = out->columns / chosen; /* of a part */
    uint32_t pieces = (columns + PIECE_COLUMNS - 1) / PIECE_COLUMNS;
    uint32_t total = pieces * chosen * cpu_step_rows(step, out->rows);
    uint32_t batch = 1 + total / (step->threads * 16);
    for (;;) {
        uint32_t first = cpu_step_claim(step, index, batch);
        if (first >= total)
            return;
        for (uint32_t piece = first; piece < total && piece < first + batch; piece++) {
            uint32_t row = piece / (pieces * chosen), j = piece / pieces % chosen;
            uint32_t column = piece % pieces * PIECE_COLUMNS;
            uint32_t left = columns - column;
            uint32_t count = left < PIECE_COLUMNS ? left : PIECE_COLUMNS;
            struct moe_row_route route = route_of_row(step, op->inputs[1], row);
            if (!is_used(&route, j))
                continue;
            gate_piece(step, op, (uint32_t)route.experts[j],
                       cpu_step_row(step, op->inputs[0], row) + (size_t)2 * columns * j, columns,
                       column, count, cpu_step_row(step, op->output, row) + j * columns + column);
            if (step->program->notes[index].quantize_output)
                cpu_step_quantize(step, op->output, row, j * columns + column, count);
        }
    }
}

/* --- moe_combine --- */

static void combine_piece(const struct cpu_step *step, const struct plan_op *op, uint32_t row,
                          uint32_t first, uint32_t count)
{
    uint32_t columns = step->program->tensors[op->output].columns;
    const float *bias = op->weights[0] == PLAN_NONE ? NULL : step->program->vectors[op->weights[0]];
    struct moe_row_route route = route_of_row(step, op->inputs[1], row);
    float *out = cpu_step_row(step, op->output, row) + first;
    float sums[PIECE_COLUMNS] = {0};
    for (uint32_t j = 0; j < route.chosen; j++) {
        if (!is_used(&route, j))
            continue;
        const float *x = cpu_step_row(step, op->inputs[0], row) + (size_t)columns * j + first;
        const float *b = bias ? bias + (size_t)columns * (uint32_t)route.experts[j] + first : NULL;
        for (uint32_t i = 0; i < count; i++)
            sums[i] += route.weights[j] * (b ? x[i] + b[i] : x[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        out[i] = op->params.moe_combine.add ? out[i] + sums[i] : sums[i];
}

void cpu_moe_combine(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    uint32_t pieces = (out->columns + PIECE_COLUMNS - 1) / PIECE_COLUMNS; /* per row */
    uint32_t total = pieces * cpu_step_rows(step, out->rows);
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece >= total)
            return;
        uint32_t column = piece % pieces * PIECE_COLUMNS;
        uint32_t left = out->columns - column;
        combine_piece(step, op, piece / pieces, column,
                      left < PIECE_COLUMNS ? left : PIECE_COLUMNS);
    }
}

/* --- moe_shared --- */

void cpu_moe_shared(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *tensor = &step->program->tensors[op->output];
    struct row_share share = cpu_step_share(step, tensor->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const float *x = cpu_step_row(step, op->inputs[0], row);
        float score = cpu_step_row(step, op->inputs[1], row)[0];
        float gate = 1.0f / (1.0f + expf(-score));
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t c = 0; c < tensor->columns; c++)
            out[c] += gate * x[c];
    }
}
