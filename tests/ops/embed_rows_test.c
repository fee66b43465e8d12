/*
 * embed_rows: the token's row of the table times the scale, for every element type.
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

static void check_type(enum ggml_type type, enum cpu_tier tier)
{
    enum { COLUMNS = 512, ROWS = 5 };
    static const uint32_t ids[ROWS] = {47, 0, 3, 3, 11};
    const float scale = 25.298221f;
    struct op_fixture *f = op_fixture_create(1);
    plan_tensor_id out = op_fixture_tensor(f, PLAN_ROWS_STEP, COLUMNS);
    plan_weight_id table = op_fixture_weight(f, type, OP_FIXTURE_VOCAB, COLUMNS);
    op_fixture_append(f, (struct plan_op){.stem = OP_embed_rows,
                                          .inputs = {PLAN_NONE, PLAN_NONE},
                                          .output = out,
                                          .weights = {table, PLAN_NONE, PLAN_NONE},
                                          .params.embed_rows = {scale}});
    if (op_fixture_open(f, tier, 2)) {
        op_fixture_poison(f, out, ROWS);
        op_fixture_step(f, &(struct op_fixture_part){0, ROWS, 0}, 1, ids, NULL, 0);
        for (uint32_t r = 0; r < ROWS; r++) {
            float row[COLUMNS];
            double expected[COLUMNS];
            op_fixture_weight_row(f, table, ids[r], row);
            for (uint32_t c = 0; c < COLUMNS; c++)
                expected[c] = (double)row[c] * scale;
            op_fixture_expect_close(ggml_type_name(type), op_fixture_row(f, out, r), expected,
                                    COLUMNS, (double)op_stem_tolerance(OP_embed_rows));
        }
        op_fixture_close(f);
    }
    op_fixture_destroy(f);
}

static void test_rows_of_every_type(void **state)
{
    (void)state;
    for (int type = 0; type <= GGML_BF16; type++)
        if (ggml_type_block((enum ggml_type)type).elements != 0)
            check_type((enum ggml_type)type, CPU_TIER_BEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_of_every_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
