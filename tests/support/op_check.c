/*
 * Each case is one trial and is loaded into each backend separately, so cases are independent.
 */
#include "tests/support/op_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "tests/support/op_fixture.h"
#include "tests/support/row_expect.h"

double op_check_tolerance(const struct op_case *c)
{
    /* A whole mixture rounds once more, on its way to the second product. */
    return (double)op_facts(c->stem)->tolerance * (c->experts.wide > 0 ? 2.0 : 1.0);
}

static float *make_outputs(const struct op_trial *trial)
{
    return must_alloc((size_t)op_trial_row_count(trial) * op_trial_case(trial)->output_columns,
                      sizeof(float));
}

static void expect_row(const struct op_trial *trial, const char *backend, uint32_t output,
                       const float *actual, const double *expected, double tolerance)
{
    char what[256];
    struct op_trial_row row = op_trial_row(trial, output);
    snprintf(what, sizeof what, "%s on %s, output %u (sequence %u, position %u)",
             op_trial_name(trial), backend, output, row.sequence, row.position);
    row_expect_close(what, actual, expected, op_trial_case(trial)->output_columns, tolerance);
}

/* --- against a formula --- */

struct formula_check {
    op_formula_fn *formula;
    op_tolerance_fn *tolerance;
};

static void check_tier(struct op_trial *trial, const struct formula_check *check,
                       enum cpu_tier tier)
{
    const struct op_case *c = op_trial_case(trial);
    struct backend_options options = {.threads = 2, .cpu_tier = tier};
    struct error_text error = {""};
    struct backend *backend = cpu_backend_create();
    float *outputs = make_outputs(trial);
    double *expected = must_alloc(c->output_columns, sizeof *expected);
    if (op_trial_run(trial, backend, &options, outputs, &error)) {
        for (uint32_t o = 0; o < op_trial_row_count(trial); o++) {
            memset(expected, 0, c->output_columns * sizeof *expected);
            check->formula(trial, o, expected);
            expect_row(trial, cpu_tier_name(tier), o, outputs + (size_t)o * c->output_columns,
                       expected, check->tolerance(c));
        }
    }
    free(expected);
    free(outputs);
    backend->interface->destroy(backend);
}

static void check_case(const struct op_case *c, void *context)
{
    struct op_trial *trial = op_trial_create(c);
    for (uint32_t tier = OP_FIXTURE_FAST_TIER; tier < OP_FIXTURE_TIERS; tier++)
        check_tier(trial, context, op_fixture_tier(tier));
    op_trial_destroy(trial);
}

void op_check_formula(op_case_list_fn *cases, op_formula_fn *formula, op_tolerance_fn *tolerance)
{
    struct formula_check check = {formula, tolerance};
    cases(&(struct op_case_visitor){check_case, &check});
}

/* --- against the CPU --- */

struct backend_check {
    const struct op_check_backend *judged;
    struct error_text *error;
    uint32_t number; /* of the case */
    bool refused;
};

/*
 * For a linear op, the largest root of the sum of squared products of any output: the usual size of
 * such a sum. Backends round activations, some to 8 bits, so errors grow with the products. If the
 * products cancel, the outputs are much smaller than their errors, so the tolerance is relative to
 * this size and not to the outputs. 0 for other ops.
 */
static double products_of(const struct op_trial *trial, uint32_t output)
{
    const struct op_case *c = op_trial_case(trial);
    double most = 0.0;
    if (c->stem != OP_linear && c->stem != OP_linear_add)
        return most;
    const float *x = op_trial_input(trial, 0, output);
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++) {
        const float *weight = op_trial_weight(trial, w);
        for (uint32_t n = 0; n < c->weights[w].rows; n++) {
            double squares = 0.0;
            for (uint32_t k = 0; k < c->weights[w].columns; k++, weight++)
                squares += (double)x[k] * (double)x[k] * (double)*weight * (double)*weight;
            most = squares > most ? squares : most;
        }
    }
    return sqrt(most);
}

static void compare(const struct op_trial *trial, const char *name, const float *actual,
                    const float *expected)
{
    const struct op_case *c = op_trial_case(trial);
    double *row = must_alloc(c->output_columns, sizeof *row);
    for (uint32_t o = 0; o < op_trial_row_count(trial); o++) {
        size_t at = (size_t)o * c->output_columns;
        for (uint32_t i = 0; i < c->output_columns; i++)
            row[i] = (double)expected[at + i];
        double tolerance = op_check_tolerance(c);
        if (!row_expect_is_close(actual + at, row, c->output_columns, tolerance, 0.0) &&
            !row_expect_is_close(actual + at, row, c->output_columns, tolerance,
                                 products_of(trial, o)))
            expect_row(trial, name, o, actual + at, row, tolerance);
    }
    free(row);
}

static void compare_case(const struct op_case *whole, void *context)
{
    struct backend_check *check = context;
    struct op_case c = *whole;
    if (check->judged->thin)
        check->judged->thin(check->judged->context, check->number, &c);
    check->number++;
    if (check->refused || c.steps[0][0] + c.steps[0][1] == 0)
        return;
    struct op_trial *trial = op_trial_create(&c);
    struct backend *cpu = cpu_backend_create();
    struct backend *judged = check->judged->create(check->judged->context);
    struct backend_options options = {.threads = 1};
    struct error_text reason = {""};
    float *expected = make_outputs(trial);
    float *actual = make_outputs(trial);
    if (!op_trial_run(trial, cpu, &options, expected, &reason))
        fail_msg("%s: the CPU refuses: %s", op_trial_name(trial), reason.text);
    check->refused = !op_trial_run(trial, judged, &check->judged->options, actual, &reason);
    if (check->refused)
        (void)error_set(check->error, RESULT_UNSUPPORTED, "%s: %s", op_trial_name(trial),
                        reason.text);
    else
        compare(trial, check->judged->name, actual, expected);
    free(expected);
    free(actual);
    judged->interface->destroy(judged);
    cpu->interface->destroy(cpu);
    op_trial_destroy(trial);
}

bool op_check_against_cpu(op_case_list_fn *cases, const struct op_check_backend *judged,
                          struct error_text *error)
{
    struct backend_check check = {.judged = judged, .error = error};
    cases(&(struct op_case_visitor){compare_case, &check});
    return !check.refused;
}

bool op_check_case_against_cpu(const struct op_case *c, const struct op_check_backend *judged,
                               struct error_text *error)
{
    struct backend_check check = {.judged = judged, .error = error};
    compare_case(c, &check);
    return !check.refused;
}
