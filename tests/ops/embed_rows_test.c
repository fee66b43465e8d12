/*
 * embed_rows, every tier: the token's row of the table times the scale, for every element type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void embed_rows_cases(const struct op_case_visitor *visitor)
{
    for (int type = 0; type < GGML_TYPE_END; type++) {
        if (ggml_type_block((enum ggml_type)type).elements == 0)
            continue;
        struct op_case c = op_case_begin(OP_embed_rows, 0, 512);
        c.weights[0] = (struct op_trial_weight){(enum ggml_type)type, 512, 512};
        c.params.embed_rows.scale = 25.298221f;
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *row =
        op_trial_weight(trial, 0) + (size_t)op_trial_row(trial, output).token * c->output_columns;
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)row[i] * (double)c->params.embed_rows.scale;
}

/* Tolerance of the CPU backend, which reads the checkpoint's scales. */
static double tolerance(const struct op_case *c)
{
    (void)c;
    return 1e-6;
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(embed_rows_cases, formula, tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
