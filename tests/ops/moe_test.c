/*
 * The ops of a mixture of experts against double precision, every tier: routes by both kinds of
 * softmax, scaled and not; stacks of every weight type, of x shared by the chosen experts and of a
 * part for each; gates with biases, interleaved and limited; sums with and without a bias, added to
 * the output and not; the shared expert, times the sigmoid of its score; weighed routes of both
 * kinds, biased and grouped, and of some rows only; and the route of heads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void moe_route_cases(const struct op_case_visitor *visitor)
{
    static const struct {
        uint32_t experts;
        struct moe_route_params params;
        bool scaled;
    } routes[] = {
        {128, {.chosen = 8, .normalized = true, .scale = 1.0f}, false},
        {8, {.chosen = 2, .scale = 2.5f}, false},
        {5, {.chosen = 5, .softmax_chosen = true, .scale = 1.0f}, true},
        {33, {.chosen = 1, .scale = 1.0f}, false},
        {1, {.chosen = 1, .softmax_chosen = true, .scale = 1.0f}, false},
        {512, {.chosen = 22, .softmax_chosen = true, .scale = 0.5f}, true},
        {256, {8, false, true, 2.5f, true, true, 8, 4, 2, 1e-20f, EXPERTS_OF_ALL, {0, 0}}, true},
        {160, {6, false, false, 16.0f, true, false, 8, 3, 1, 0.0f, EXPERTS_OF_ALL, {0, 0}}, false},
        {64, {6, false, true, 1.0f, true, false, 0, 0, 0, 1e-6f, EXPERTS_OF_ALL, {0, 0}}, true},
        {384, {8, false, true, 2.0f, true, true, 0, 0, 0, 1e-3f, EXPERTS_OF_ALL, {0, 0}}, false},
        {12, {4, false, true, 1.0f, true, true, 6, 2, 2, 0.0f, EXPERTS_OF_ALL, {0, 0}}, true},
        {64, {6, false, true, 1.0f, true, false, 0, 0, 0, 1e-6f, EXPERTS_OF_IMAGES, {3, 7}}, true},
        {16, {4, false, true, 1.0f, true, false, 0, 0, 0, 1e-6f, EXPERTS_OF_TEXT, {3, 7}}, false},
        {16, {2, .scale = 1.0f, .rows = EXPERTS_OF_TEXT, .edges = {0, 1}}, false},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(routes); i++) {
        struct op_case c =
            op_case_begin(OP_moe_route, routes[i].experts, 2 * routes[i].params.chosen);
        op_case_add_long_step(&c);
        c.input_scale = 6.0f;
        c.params.moe_route = routes[i].params;
        c.on_logit_rows = routes[i].params.rows != EXPERTS_OF_ALL && i % 2 == 0;
        if (routes[i].scaled)
            op_case_set_norm_weight(&c, routes[i].experts);
        op_case_visit(visitor, &c);
    }
}

void head_route_cases(const struct op_case_visitor *visitor)
{
    static const uint32_t heads[] = {1, 37, 128};
    for (uint32_t i = 0; i < ARRAY_COUNT(heads); i++) {
        struct op_case c = op_case_begin(OP_head_route, 0, 2 * heads[i]);
        op_case_add_long_step(&c);
        op_case_visit(visitor, &c);
    }
}

/* An op with a route: `columns` of x and of the output for one of `chosen` out of `experts`. */
static struct op_case begin_moe(enum op_stem stem, uint32_t columns, uint32_t outputs,
                                uint32_t chosen, uint32_t experts)
{
    bool parts = stem == OP_moe_linear || stem == OP_moe_gate;
    struct op_case c = op_case_begin(stem, chosen * columns, parts ? chosen * outputs : outputs);
    c.input_columns[1] = experts;
    c.route = (struct moe_route_params){.chosen = chosen, .normalized = true, .scale = 1.0f};
    return c;
}

static void add_stack(struct op_case *c, uint32_t slot, enum ggml_type type, uint32_t rows,
                      uint32_t columns)
{
    c->weights[slot] = (struct op_trial_weight){type, rows, columns};
}

/* The same x for all chosen experts and two stacks; then a part of x for each, one stack. */
void moe_linear_cases(const struct op_case_visitor *visitor)
{
    for (int t = 0; t < GGML_TYPE_END; t++) {
        enum ggml_type type = (enum ggml_type)t;
        if (ggml_type_block(type).elements == 0)
            continue;
        struct op_case c = begin_moe(OP_moe_linear, 256, 48 + 17, 2, 6);
        c.input_columns[0] = 256;
        add_stack(&c, 0, type, 48, 256);
        add_stack(&c, 1, type, 17, 256);
        op_case_visit(visitor, &c);
        c = begin_moe(OP_moe_linear, 256, 21, 3, 40);
        c.on_logit_rows = t % 2 == 0;
        add_stack(&c, 0, type, 21, 256);
        op_case_visit(visitor, &c);
    }
    struct op_case c = begin_moe(OP_moe_linear, 45, 19 + 3 + 7, 4, 5);
    add_stack(&c, 0, GGML_BF16, 19, 45);
    add_stack(&c, 1, GGML_F32, 3, 45);
    add_stack(&c, 2, GGML_F16, 7, 45);
    op_case_add_long_step(&c);
    op_case_visit(visitor, &c);
    c = begin_moe(OP_moe_linear, 64, 40, 1, 1);
    add_stack(&c, 0, GGML_Q8_0, 40, 64);
    op_case_add_long_step(&c);
    op_case_visit(visitor, &c);
}

void moe_gate_cases(const struct op_case_visitor *visitor)
{
    static const struct {
        uint32_t columns;
        uint32_t chosen;
        uint32_t biases; /* weights */
        struct moe_gate_params params;
    } gates[] = {
        {13, 2, 0, {GATE_SILU, false, 0, 0}},        {512, 1, 0, {GATE_GELU_TANH, false, 0, 0}},
        {33, 3, 2, {GATE_GELU_TANH, false, 0, 0}},   {600, 2, 1, {GATE_SILU, true, 0, 0}},
        {64, 4, 1, {GATE_SILU, true, 7.0f, 1.702f}}, {70, 4, 2, {GATE_SILU, false, 7.0f, 1.702f}},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(gates); i++) {
        uint32_t columns = gates[i].columns;
        struct op_case c = begin_moe(OP_moe_gate, 2 * columns, columns, gates[i].chosen, 9);
        for (uint32_t w = 0; w < gates[i].biases; w++)
            c.weights[w] =
                (struct op_trial_weight){GGML_F32, 9, gates[i].biases == 2 ? columns : 2 * columns};
        c.input_scale = 12.0f;
        c.params.moe_gate = gates[i].params;
        op_case_visit(visitor, &c);
    }
}

void moe_combine_cases(const struct op_case_visitor *visitor)
{
    static const uint32_t widths[] = {1, 37, 640};
    for (uint32_t i = 0; i < ARRAY_COUNT(widths); i++) {
        for (uint32_t variant = 0; variant < 4; variant++) {
            struct op_case c = begin_moe(OP_moe_combine, widths[i], widths[i], 1 + variant, 7);
            c.params.moe_combine.add = variant / 2 == 1;
            if (c.params.moe_combine.add)
                c.input_columns[OP_TRIAL_INPUTS - 1] = widths[i];
            if (variant % 2 == 1)
                c.weights[0] = (struct op_trial_weight){GGML_BF16, 7, widths[i]};
            op_case_visit(visitor, &c);
        }
    }
}

void moe_shared_cases(const struct op_case_visitor *visitor)
{
    static const uint32_t widths[] = {1, 37, 640};
    for (uint32_t i = 0; i < ARRAY_COUNT(widths); i++) {
        struct op_case c = op_case_begin(OP_moe_shared, widths[i], widths[i]);
        c.input_columns[1] = 1;
        c.input_columns[OP_TRIAL_INPUTS - 1] = widths[i];
        c.input_scale = i == 1 ? 100.0f : 3.0f; /* scores to where exp() ends */
        op_case_visit(visitor, &c);
    }
}

struct route {
    uint32_t experts[LIMIT_EXPERTS_CHOSEN];
    double weights[LIMIT_EXPERTS_CHOSEN];
};

/* Experts by descending score, with the weights that the parameters define. */
static struct route make_route(const struct moe_route_params *params, const float *scores,
                               uint32_t experts, const float *scales)
{
    struct route route;
    bool taken[LIMIT_EXPERTS] = {false};
    double all = 0.0, chosen = 0.0;
    for (uint32_t e = 0; e < experts; e++)
        all += exp((double)scores[e]);
    for (uint32_t j = 0; j < params->chosen; j++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t e = 0; e < experts; e++)
            if (!taken[e] && (best == UINT32_MAX || scores[e] > scores[best]))
                best = e;
        taken[best] = true;
        route.experts[j] = best;
        chosen += exp((double)scores[best]);
    }
    for (uint32_t j = 0; j < params->chosen; j++) {
        double weight = exp((double)scores[route.experts[j]]);
        weight /= params->softmax_chosen || params->normalized ? chosen : all;
        weight *= (double)params->scale;
        route.weights[j] = scales ? weight * (double)scales[route.experts[j]] : weight;
    }
    return route;
}

/* c of the weighed form, with those of groups that are not chosen taken out. */
static void find_values(const struct moe_route_params *params, const double *chances,
                        uint32_t experts, const float *bias, double *values)
{
    uint32_t each = params->groups > 0 ? experts / params->groups : experts;
    double scores[LIMIT_EXPERTS];
    for (uint32_t e = 0; e < experts; e++)
        values[e] = chances[e] + (bias ? (double)bias[e] : 0.0);
    for (uint32_t g = 0; g < params->groups; g++) {
        double first = -INFINITY, second = -INFINITY;
        for (uint32_t e = g * each; e < (g + 1) * each; e++) {
            second = values[e] > first ? first : fmax(second, values[e]);
            first = fmax(first, values[e]);
        }
        scores[g] = params->group_best == 2 ? first + second : first;
    }
    for (uint32_t g = 0; g < params->groups; g++) {
        uint32_t better = 0;
        for (uint32_t other = 0; other < params->groups; other++)
            better += scores[other] > scores[g];
        for (uint32_t e = g * each; e < (g + 1) * each && better >= params->groups_chosen; e++)
            values[e] = -INFINITY;
    }
}

static struct route make_weighed(const struct moe_route_params *params, const float *scores,
                                 uint32_t experts, const float *bias)
{
    struct route route;
    bool taken[LIMIT_EXPERTS] = {false};
    double chances[LIMIT_EXPERTS], values[LIMIT_EXPERTS], all = 0.0, chosen = 0.0;
    for (uint32_t e = 0; e < experts; e++)
        all += exp((double)scores[e]);
    for (uint32_t e = 0; e < experts; e++)
        chances[e] =
            params->sigmoid ? 1.0 / (1.0 + exp(-(double)scores[e])) : exp((double)scores[e]) / all;
    find_values(params, chances, experts, bias, values);
    for (uint32_t j = 0; j < params->chosen; j++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t e = 0; e < experts; e++)
            if (!taken[e] && (best == UINT32_MAX || values[e] > values[best]))
                best = e;
        taken[best] = true;
        route.experts[j] = best;
        chosen += chances[best];
    }
    for (uint32_t j = 0; j < params->chosen; j++)
        route.weights[j] = (double)params->scale * chances[route.experts[j]] /
                           (params->normalized ? chosen + (double)params->epsilon : 1.0);
    return route;
}

/* Whether the row, of text, has the experts of the params. */
static bool is_routed(const struct moe_route_params *params, uint32_t token)
{
    bool edge = token == params->edges[0] || token == params->edges[1];
    return params->rows == EXPERTS_OF_ALL || edge == (params->rows == EXPERTS_OF_IMAGES);
}

static void moe_route(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const bool weighed = c->params.moe_route.weighed;
    if (!is_routed(&c->params.moe_route, op_trial_row(trial, output).token)) {
        for (uint32_t j = 0; j < c->params.moe_route.chosen; j++) {
            expected[j] = j;
            expected[c->params.moe_route.chosen + j] = 0;
        }
        return;
    }
    struct route route = (weighed ? make_weighed : make_route)(
        &c->params.moe_route, op_trial_input(trial, 0, output), c->input_columns[0],
        c->weights[0].rows > 0 ? op_trial_weight(trial, 0) : NULL);
    for (uint32_t j = 0; j < c->params.moe_route.chosen; j++) {
        expected[j] = route.experts[j];
        expected[c->params.moe_route.chosen + j] = route.weights[j];
    }
}

static void head_route(const struct op_trial *trial, uint32_t output, double *expected)
{
    uint32_t heads = op_trial_case(trial)->output_columns / 2;
    (void)output;
    for (uint32_t h = 0; h < heads; h++) {
        expected[h] = h;
        expected[heads + h] = 1.0;
    }
}

static struct route route_of(const struct op_trial *trial, uint32_t output)
{
    const struct op_case *c = op_trial_case(trial);
    return make_route(&c->route, op_trial_input(trial, 1, output), c->input_columns[1], NULL);
}

static void moe_linear(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    struct route route = route_of(trial, output);
    for (uint32_t j = 0; j < c->route.chosen; j++) {
        const float *x = op_trial_input(trial, 0, output);
        if (c->input_columns[0] != c->weights[0].columns)
            x += j * c->weights[0].columns;
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++) {
            uint32_t rows = c->weights[w].rows, columns = c->weights[w].columns;
            const float *matrix =
                op_trial_weight(trial, w) + (size_t)route.experts[j] * rows * columns;
            for (uint32_t n = 0; n < rows; n++, expected++)
                for (uint32_t i = 0; i < columns; i++)
                    *expected += (double)matrix[(size_t)n * columns + i] * (double)x[i];
        }
    }
}

/* Column `column` of the concatenated biases; 0 if there are none. */
static double bias_of(const struct op_trial *trial, uint32_t expert, uint32_t column)
{
    const struct op_case *c = op_trial_case(trial);
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++) {
        uint32_t columns = c->weights[w].columns;
        if (column < columns)
            return (double)op_trial_weight(trial, w)[expert * columns + column];
        column -= columns;
    }
    return 0.0;
}

static double activate(enum gate_activation activation, double v)
{
    if (activation == GATE_SILU)
        return v / (1.0 + exp(-v));
    return 0.5 * v * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
}

static void moe_gate(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const struct moe_gate_params *params = &c->params.moe_gate;
    struct route route = route_of(trial, output);
    uint32_t columns = c->output_columns / c->route.chosen;
    for (uint32_t j = 0; j < c->route.chosen; j++) {
        const float *x = op_trial_input(trial, 0, output) + j * 2 * columns;
        for (uint32_t i = 0; i < columns; i++, expected++) {
            uint32_t gate_at = params->interleaved ? 2 * i : i;
            uint32_t up_at = params->interleaved ? 2 * i + 1 : columns + i;
            double gate = (double)x[gate_at] + bias_of(trial, route.experts[j], gate_at);
            double up = (double)x[up_at] + bias_of(trial, route.experts[j], up_at);
            double limit = (double)params->limit;
            if (limit > 0.0) {
                gate = fmin(gate, limit);
                up = fmax(fmin(up, limit), -limit);
                *expected = gate / (1.0 + exp(-(double)params->alpha * gate)) * (up + 1.0);
            } else {
                *expected = activate(params->activation, gate) * up;
            }
        }
    }
}

static void moe_combine(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    struct route route = route_of(trial, output);
    for (uint32_t i = 0; i < c->output_columns; i++) {
        if (c->params.moe_combine.add)
            expected[i] = (double)op_trial_input(trial, OP_TRIAL_INPUTS - 1, output)[i];
        for (uint32_t j = 0; j < c->route.chosen; j++)
            expected[i] += route.weights[j] *
                           ((double)op_trial_input(trial, 0, output)[j * c->output_columns + i] +
                            bias_of(trial, route.experts[j], i));
    }
}

static void moe_shared(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    const float *held = op_trial_input(trial, OP_TRIAL_INPUTS - 1, output);
    double gate = 1.0 / (1.0 + exp(-(double)op_trial_input(trial, 1, output)[0]));
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)held[i] + gate * (double)x[i];
}

/* Float weights and float activations: only sums are rounded. */
static double linear_tolerance(const struct op_case *c)
{
    enum ggml_type type = c->weights[0].type;
    bool floats = type == GGML_F32 || type == GGML_F16 || type == GGML_BF16;
    return floats ? 1e-5 : op_check_tolerance(c);
}

static void test_moe_route_against_double(void **state)
{
    (void)state;
    op_check_formula(moe_route_cases, moe_route, op_check_tolerance);
}

static void test_head_route_exact(void **state)
{
    (void)state;
    op_check_formula(head_route_cases, head_route, op_check_tolerance);
}

static void test_moe_linear_against_double(void **state)
{
    (void)state;
    op_check_formula(moe_linear_cases, moe_linear, linear_tolerance);
}

static void test_moe_gate_against_double(void **state)
{
    (void)state;
    op_check_formula(moe_gate_cases, moe_gate, op_check_tolerance);
}

static void test_moe_combine_against_double(void **state)
{
    (void)state;
    op_check_formula(moe_combine_cases, moe_combine, op_check_tolerance);
}

static void test_moe_shared_against_double(void **state)
{
    (void)state;
    op_check_formula(moe_shared_cases, moe_shared, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moe_route_against_double),
                                       cmocka_unit_test(test_head_route_exact),
                                       cmocka_unit_test(test_moe_linear_against_double),
                                       cmocka_unit_test(test_moe_gate_against_double),
                                       cmocka_unit_test(test_moe_combine_against_double),
                                       cmocka_unit_test(test_moe_shared_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
