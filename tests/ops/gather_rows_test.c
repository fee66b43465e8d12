/*
 * gather_rows: copies of the step rows whose logits are wanted, bit for bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/op_fixture.h"

static void test_wanted_rows_are_copied(void **state)
{
    (void)state;
    enum { COLUMNS = 37, ROWS = 9, WANTED = 4 };
    static const uint32_t wanted[WANTED] = {0, 2, 7, 8};
    struct op_fixture *f = op_fixture_create(2);
    plan_tensor_id x = op_fixture_tensor(f, PLAN_ROWS_STEP, COLUMNS);
    plan_tensor_id out = op_fixture_tensor(f, PLAN_ROWS_LOGITS, COLUMNS);
    op_fixture_append(f, (struct plan_op){.stem = OP_gather_rows,
                                          .inputs = {x, PLAN_NONE},
                                          .output = out,
                                          .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE}});
    assert_true(op_fixture_open(f, CPU_TIER_BEST, 3));
    op_fixture_fill(f, x, ROWS);
    op_fixture_poison(f, out, WANTED + 1);
    op_fixture_step(f, &(struct op_fixture_part){0, ROWS, 0}, 1, NULL, wanted, WANTED);
    for (uint32_t i = 0; i < WANTED; i++)
        assert_memory_equal(op_fixture_row(f, out, i), op_fixture_row(f, x, wanted[i]),
                            COLUMNS * sizeof(float));
    assert_true(isnan(op_fixture_row(f, out, WANTED)[0]));
    op_fixture_close(f);
    op_fixture_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wanted_rows_are_copied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
