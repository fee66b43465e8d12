/*
 * The plan of steps that draw from every row leaves out copies of tensors that are not used again.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "worker/backend/vulkan/policy/vulkan_whole_plan.h"

enum { RESIDUAL, ATTENDED, LAST_RESIDUAL, LAST_ATTENDED, LOGITS };

#define OP(name, in, out)                                                                          \
    {                                                                                              \
        .stem = OP_##name, .inputs = {in, PLAN_NONE}, .output = out                                \
    }

static struct plan make_whole(struct plan_op *ops, uint32_t count)
{
    const struct plan plan = {.ops = ops, .op_count = count, .logits = LOGITS};
    struct plan whole;
    vulkan_whole_plan_init(&plan, &whole);
    return whole;
}

static void test_gathered_tensors_are_used_as_they_are(void **state)
{
    (void)state;
    struct plan_op ops[] = {
        OP(gather_rows, RESIDUAL, LAST_RESIDUAL), OP(gather_rows, ATTENDED, LAST_ATTENDED),
        OP(linear_add, LAST_ATTENDED, LAST_RESIDUAL), OP(linear, LAST_RESIDUAL, LOGITS)};
    ops[2].inputs[1] = LAST_RESIDUAL;
    struct plan whole = make_whole(ops, 4);
    assert_int_equal(whole.ops[0].output, PLAN_NONE);
    assert_int_equal(whole.ops[1].output, PLAN_NONE);
    assert_int_equal(whole.ops[2].inputs[0], ATTENDED);
    assert_int_equal(whole.ops[2].inputs[1], RESIDUAL);
    assert_int_equal(whole.ops[2].output, RESIDUAL);
    assert_int_equal(whole.ops[3].inputs[0], RESIDUAL);
    assert_int_equal(whole.ops[3].output, LOGITS);
    assert_int_equal(ops[0].output, LAST_RESIDUAL); /* the plan itself stays as it was */
    free(whole.ops);
}

/* A tensor that is changed in place must not be read by a later op. */
static void test_tensors_that_are_used_again_are_copied(void **state)
{
    (void)state;
    struct plan_op ops[] = {OP(gather_rows, RESIDUAL, LAST_RESIDUAL),
                            OP(linear_add, ATTENDED, LAST_RESIDUAL), OP(linear, RESIDUAL, LOGITS)};
    struct plan whole = make_whole(ops, 3);
    assert_int_equal(whole.ops[0].output, LAST_RESIDUAL);
    assert_int_equal(whole.ops[1].output, LAST_RESIDUAL);
    free(whole.ops);
}

static void test_logits_have_a_tensor_of_their_own(void **state)
{
    (void)state;
    struct plan_op ops[] = {OP(gather_rows, RESIDUAL, LOGITS)};
    struct plan whole = make_whole(ops, 1);
    assert_int_equal(whole.ops[0].output, LOGITS);
    free(whole.ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gathered_tensors_are_used_as_they_are),
        cmocka_unit_test(test_tensors_that_are_used_again_are_copied),
        cmocka_unit_test(test_logits_have_a_tensor_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
