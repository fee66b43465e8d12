/*
 * Which ops are computed together: a projection with the norm before it and with the biases after
 * it, experts' projections with their gate and their sum; and none if another op needs the tensor
 * between.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/backend/vulkan/policy/vulkan_fusion.h"

enum { RESIDUAL, NORMED, QKV, LAST };

#define OP(name, in, out)                                                                          \
    {                                                                                              \
        .stem = OP_##name, .inputs = {in, PLAN_NONE}, .output = out, .weights = {                  \
            PLAN_NONE,                                                                             \
            PLAN_NONE,                                                                             \
            PLAN_NONE                                                                              \
        }                                                                                          \
    }

static struct vulkan_fusion_note notes[8];

static void annotate(struct plan_op *ops, uint32_t count)
{
    const struct plan plan = {.ops = ops, .op_count = count, .logits = LAST};
    vulkan_fusion_annotate(&plan, notes);
}

static void test_biases_go_before_the_projection(void **state)
{
    (void)state;
    struct plan_op ops[] = {OP(rms_norm, RESIDUAL, NORMED), OP(linear, NORMED, QKV),
                            OP(bias_add, QKV, QKV), OP(rope, QKV, QKV),
                            OP(kv_write, QKV, PLAN_NONE)};
    annotate(ops, 5);
    assert_int_equal(notes[1].norm, 0);
    assert_int_equal(notes[0].partner, 1);
    assert_int_equal(notes[1].bias, 2);
    assert_int_equal(notes[2].partner, 1);
    assert_int_equal(notes[1].gate, VULKAN_NO_OP);
    assert_int_equal(notes[3].heads, 2);
}

/* What adapters add to a product comes between it and its gate, and reads x as f32. */
static void test_products_taken_apart(void **state)
{
    (void)state;
    struct plan_op ops[] = {OP(rms_norm, RESIDUAL, NORMED), OP(linear, NORMED, QKV),
                            OP(bias_add, QKV, QKV), OP(gate, QKV, LAST)};
    const struct plan plan = {.ops = ops, .op_count = 4, .logits = PLAN_NONE};
    annotate(ops, 4);
    assert_int_equal(notes[1].norm, 0);
    assert_int_equal(notes[1].gate, 3);
    assert_false(notes[0].read_as_f32);
    vulkan_fusion_part(&plan, notes);
    assert_int_equal(notes[1].norm, VULKAN_NO_OP);
    assert_int_equal(notes[0].partner, VULKAN_NO_OP);
    assert_int_equal(notes[1].gate, VULKAN_NO_OP);
    assert_int_equal(notes[3].partner, VULKAN_NO_OP);
    assert_int_equal(notes[1].bias, 2);
    assert_int_equal(notes[2].partner, 1);
    assert_true(notes[0].read_as_f32);
}

/* A projection reads its input in forms that only the bias_add can write. */
static void test_biases_that_a_projection_reads(void **state)
{
    (void)state;
    struct plan_op ops[] = {OP(linear, RESIDUAL, QKV), OP(bias_add, QKV, QKV),
                            OP(linear, QKV, LAST)};
    annotate(ops, 3);
    assert_int_equal(notes[0].bias, VULKAN_NO_OP);
    assert_int_equal(notes[1].partner, VULKAN_NO_OP);
    assert_int_equal(notes[2].producer, 1);
}

static void test_biases_of_something_else(void **state)
{
    (void)state;
    struct plan_op ops[] = {OP(linear, RESIDUAL, QKV), OP(bias_add, NORMED, NORMED),
                            OP(linear_add, QKV, LAST), OP(bias_add, LAST, LAST)};
    annotate(ops, 4);
    assert_int_equal(notes[0].bias, VULKAN_NO_OP);
    assert_int_equal(notes[1].partner, VULKAN_NO_OP);
    assert_int_equal(notes[2].bias, 3);
    assert_int_equal(notes[3].partner, 2);
}

static void test_biases_between_a_projection_and_its_gate(void **state)
{
    (void)state;
    struct plan_op ops[] = {OP(rms_norm, RESIDUAL, NORMED), OP(linear, NORMED, QKV),
                            OP(bias_add, QKV, QKV), OP(gate, QKV, LAST)};
    annotate(ops, 4);
    assert_int_equal(notes[1].bias, 2);
    assert_int_equal(notes[1].gate, 3);
    assert_int_equal(notes[3].partner, 1);
    assert_true(notes[1].reads_alone);
    struct plan_op shared[] = {OP(rms_norm, RESIDUAL, NORMED), OP(linear, NORMED, QKV),
                               OP(bias_add, QKV, QKV), OP(gate, QKV, LAST),
                               OP(linear, NORMED, RESIDUAL)};
    annotate(shared, 5);
    assert_false(notes[1].reads_alone);
}

#define EXPERTS_OP(name, in, by, out)                                                              \
    {                                                                                              \
        .stem = OP_##name, .inputs = {in, by}, .output = out, .weights = {                         \
            PLAN_NONE,                                                                             \
            PLAN_NONE,                                                                             \
            PLAN_NONE                                                                              \
        }                                                                                          \
    }

enum { X = LAST + 1, ROUTE, OTHER_ROUTE, GATE_UP, GATED, DOWN, SUM };

static void test_experts_with_their_gate_and_their_sum(void **state)
{
    (void)state;
    struct plan_op ops[] = {
        EXPERTS_OP(moe_linear, X, ROUTE, GATE_UP), EXPERTS_OP(moe_gate, GATE_UP, ROUTE, GATED),
        EXPERTS_OP(moe_linear, GATED, ROUTE, DOWN), EXPERTS_OP(moe_combine, DOWN, ROUTE, SUM)};
    annotate(ops, 4);
    assert_int_equal(notes[0].gate, 1);
    assert_int_equal(notes[0].combine, VULKAN_NO_OP);
    assert_int_equal(notes[1].partner, 0);
    assert_int_equal(notes[2].producer, 1);
    assert_int_equal(notes[2].combine, 3);
    assert_int_equal(notes[3].partner, 2);
}

static void test_experts_that_are_chosen_right_before(void **state)
{
    (void)state;
    struct plan_op ops[] = {OP(moe_route, NORMED, ROUTE), EXPERTS_OP(moe_linear, X, ROUTE, GATE_UP),
                            EXPERTS_OP(moe_linear, X, OTHER_ROUTE, DOWN)};
    annotate(ops, 3);
    assert_int_equal(notes[0].partner, 1);
    assert_int_equal(notes[1].route, 0);
    assert_int_equal(notes[2].route, VULKAN_NO_OP);
}

static void test_experts_whose_outputs_others_need(void **state)
{
    (void)state;
    struct plan_op ops[] = {EXPERTS_OP(moe_linear, X, ROUTE, GATE_UP),
                            EXPERTS_OP(moe_gate, GATE_UP, OTHER_ROUTE, GATED),
                            EXPERTS_OP(moe_linear, GATED, ROUTE, DOWN),
                            EXPERTS_OP(moe_combine, DOWN, ROUTE, SUM), OP(rms_norm, DOWN, LAST)};
    annotate(ops, 5);
    assert_int_equal(notes[0].gate, VULKAN_NO_OP);
    assert_int_equal(notes[1].partner, VULKAN_NO_OP);
    assert_int_equal(notes[2].combine, VULKAN_NO_OP);
    assert_int_equal(notes[3].partner, VULKAN_NO_OP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_taken_apart),
        cmocka_unit_test(test_biases_go_before_the_projection),
        cmocka_unit_test(test_biases_that_a_projection_reads),
        cmocka_unit_test(test_biases_of_something_else),
        cmocka_unit_test(test_biases_between_a_projection_and_its_gate),
        cmocka_unit_test(test_experts_with_their_gate_and_their_sum),
        cmocka_unit_test(test_experts_that_are_chosen_right_before),
        cmocka_unit_test(test_experts_whose_outputs_others_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
