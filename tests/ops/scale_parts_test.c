/*
 * scale_parts against a double-precision product, every tier: one part and all of them, borders inside of
 * a vector register, a part without columns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void scale_parts_cases(const struct op_case_visitor *visitor)
{
    static const struct scale_parts_params params[] = {
        {1, {40}, {0.25f}},
        {2, {33, 64}, {1.0f, -3.5f}},
        {5, {7, 130, 0, 65, 3}, {0.5f, 1.75f, 9.0f, 1e-3f, 12.0f}},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(params); i++) {
        uint32_t columns = 0;
        for (uint32_t part = 0; part < params[i].count; part++)
            columns += params[i].columns[part];
        struct op_case c = op_case_begin(OP_scale_parts, columns, columns);
        c.in_place = true;
        op_case_add_long_step(&c);
        c.params.scale_parts = params[i];
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct scale_parts_params *p = &op_trial_case(trial)->params.scale_parts;
    const float *x = op_trial_input(trial, 0, output);
    uint32_t column = 0;
    for (uint32_t part = 0; part < p->count; part++)
        for (uint32_t c = 0; c < p->columns[part]; c++, column++)
            expected[column] = (double)p->scales[part] * (double)x[column];
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(scale_parts_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
