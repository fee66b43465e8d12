/*
 * Which tensors of a tower get columns of zeros: those that are multiplied with matrices and whose
 * producers write the zeros, and no others.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/backend/vulkan/weights/vulkan_padding.h"

enum { WIDE, NARROW, OUT, TENSORS };

#define OP(name, in, out)                                                                          \
    {                                                                                              \
        .stem = OP_##name, .inputs = {in, PLAN_NONE}, .output = out                                \
    }

/* Of WIDE, which has 3,420 columns. */
static uint32_t columns_in(struct plan_op *ops, uint32_t count, enum plan_rows rows)
{
    struct plan_tensor tensors[TENSORS] = {[WIDE] = {.rows = rows, .columns = 3420},
                                           [NARROW] = {.rows = rows, .columns = 1280},
                                           [OUT] = {.rows = rows, .columns = 6840}};
    const struct plan plan = {
        .ops = ops, .op_count = count, .tensors = tensors, .tensor_count = TENSORS};
    assert_int_equal(vulkan_padding_columns(&plan, NARROW), 1280);
    return vulkan_padding_columns(&plan, WIDE);
}

#define COLUMNS_IN(ops) columns_in(ops, sizeof(ops) / sizeof *(ops), PLAN_ROWS_PATCHES)

static void test_what_is_zeroed_and_multiplied_is_padded(void **state)
{
    (void)state;
    struct plan_op gated[] = {OP(linear, NARROW, OUT), OP(gate, OUT, WIDE),
                              OP(linear_add, WIDE, NARROW)};
    gated[2].inputs[1] = NARROW;
    assert_int_equal(COLUMNS_IN(gated), 3456);
    struct plan_op pixels[] = {OP(patch_rows, PLAN_NONE, WIDE), OP(linear, WIDE, NARROW)};
    assert_int_equal(COLUMNS_IN(pixels), 3456);
    struct plan_op activated[] = {OP(linear, NARROW, WIDE), OP(bias_add, WIDE, WIDE),
                                  OP(activate, WIDE, WIDE), OP(linear, WIDE, NARROW),
                                  OP(bias_add, NARROW, NARROW)};
    assert_int_equal(COLUMNS_IN(activated), 3456);
}

static void test_what_nobody_zeroes_stays(void **state)
{
    (void)state;
    struct plan_op plain[] = {OP(linear, NARROW, WIDE), OP(linear, WIDE, NARROW)};
    assert_int_equal(COLUMNS_IN(plain), 3420);
    struct plan_op biased[] = {OP(gate, OUT, WIDE), OP(bias_add, WIDE, WIDE),
                               OP(linear, WIDE, NARROW)};
    assert_int_equal(COLUMNS_IN(biased), 3420);
    struct plan_op second[] = {OP(gate, OUT, WIDE), OP(linear, WIDE, NARROW),
                               OP(linear, NARROW, WIDE), OP(linear, WIDE, OUT)};
    assert_int_equal(COLUMNS_IN(second), 3420);
}

static void test_what_others_touch_stays(void **state)
{
    (void)state;
    struct plan_op normed[] = {OP(gate, OUT, WIDE), OP(linear, WIDE, NARROW),
                               OP(layer_norm, WIDE, NARROW)};
    assert_int_equal(COLUMNS_IN(normed), 3420);
    struct plan_op cut[] = {OP(gate, OUT, WIDE), OP(clip_columns, OUT, WIDE), OP(gate, OUT, WIDE),
                            OP(linear, WIDE, NARROW)};
    assert_int_equal(COLUMNS_IN(cut), 3420);
    struct plan_op added[] = {OP(gate, OUT, WIDE), OP(linear, WIDE, NARROW),
                              OP(linear_add, NARROW, WIDE)};
    added[2].inputs[1] = WIDE;
    assert_int_equal(COLUMNS_IN(added), 3420);
    struct plan_op unread[] = {OP(gate, OUT, WIDE)};
    assert_int_equal(COLUMNS_IN(unread), 3420);
}

static void test_texts_stay(void **state)
{
    (void)state;
    struct plan_op ops[] = {OP(gate, OUT, WIDE), OP(linear, WIDE, NARROW)};
    assert_int_equal(columns_in(ops, 2, PLAN_ROWS_STEP), 3420);
    assert_int_equal(columns_in(ops, 2, PLAN_ROWS_FEATURES), 3456);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_zeroed_and_multiplied_is_padded),
        cmocka_unit_test(test_what_nobody_zeroes_stays),
        cmocka_unit_test(test_what_others_touch_stays),
        cmocka_unit_test(test_texts_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
