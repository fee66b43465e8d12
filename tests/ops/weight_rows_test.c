/*
 * weight_rows_read() of transposed matrices of every type, in place and by another layout: the numbers
 * are those of the matrix' rows, whichever rows are asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "proto/must.h"
#include "tests/support/plan_sketch.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/host/weight_rows.h"

enum { ROWS = 37, COLUMNS = 512, FIRST = 5, TURNED = 24 };

static float matrix[ROWS][COLUMNS];
static float turned[COLUMNS][TURNED];

static void check(const struct weight_source *source, const char *type)
{
    static const uint32_t counts[] = {16, 1, 100, 4, 391};
    uint32_t at = 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; at += counts[i++])
        weight_rows_read(source, TURNED, at, counts[i], (uint8_t *)turned[at]);
    assert_int_equal(at, COLUMNS);
    for (uint32_t r = 0; r < COLUMNS; r++)
        for (uint32_t c = 0; c < TURNED; c++)
            if (memcmp(&turned[r][c], &matrix[FIRST + c][r], sizeof(float)) != 0)
                fail_msg("%s: [%u, %u] is %g, not %g", type, r, c, (double)turned[r][c],
                         (double)matrix[FIRST + c][r]);
}

static void test_every_type(void **state)
{
    (void)state;
    for (int t = 0; t < GGML_TYPE_END; t++) {
        enum ggml_type type = (enum ggml_type)t;
        if (ggml_type_block(type).elements == 0)
            continue;
        struct plan_sketch *sketch = plan_sketch_create(7);
        plan_weight_id id = plan_sketch_weight(sketch, type, ROWS, COLUMNS);
        for (uint32_t r = 0; r < ROWS; r++)
            plan_sketch_weight_row(sketch, id, r, matrix[r]);
        const struct plan_weight *weight = &plan_sketch_plan(sketch)->weights[id];
        struct weight_source source = {
            .layout = WEIGHT_TURNED,
            .type = GGML_F32,
            .turned = {.rows = weight->data, .type = type, .columns = COLUMNS, .row = FIRST}};
        check(&source, ggml_type_name(type));
        const struct weight_source slice = {.layout = WEIGHT_SLICE,
                                            .type = type,
                                            .data = weight->data,
                                            .row_bytes = ggml_row_bytes(type, COLUMNS)};
        source.turned.source = &slice;
        source.turned.rows = NULL;
        check(&source, ggml_type_name(type));
        plan_sketch_destroy(sketch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
