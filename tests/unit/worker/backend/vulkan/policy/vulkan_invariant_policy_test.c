/*
 * facts.batch_invariant: for any number of rows an op has the same kernel, the same splits of its
 * columns and the same number of invocations for a row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "worker/backend/vulkan/device/vulkan_attention_push.h"
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"
#include "worker/backend/vulkan/policy/vulkan_dot_policy.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"
#include "worker/backend/vulkan/policy/vulkan_moe_policy.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"

static const struct vulkan_facts devices[] = {
    {.tier = VULKAN_SCALAR, .subgroup_size = 32, .max_invocations = 1024, .shared_bytes = 32768},
    {.tier = VULKAN_KHR_MATRIX,
     .matrix_khr = true,
     .matrix_shape_count = 1,
     .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 16, 16}},
     .subgroup_size = 64,
     .max_invocations = 1024,
     .shared_bytes = 65536},
    {.tier = VULKAN_NV_MATRIX2,
     .matrix_khr = true,
     .matrix_nv2 = true,
     .matrix_shape_count = 2,
     .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 8, 16}, {VULKAN_MATRIX_F16_F32, 16, 16, 16}},
     .matrix_registers = true,
     .subgroup_size = 32,
     .max_invocations = 1024,
     .shared_bytes = 49152,
     .compute_units = 132},
    {.tier = VULKAN_PTX,
     .matrix_khr = true,
     .matrix_nv2 = true,
     .matrix_shape_count = 1,
     .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 16, 16}},
     .matrix_registers = true,
     .subgroup_size = 32,
     .max_invocations = 1024,
     .shared_bytes = 49152,
     .compute_units = 132},
    {.type = VK_PHYSICAL_DEVICE_TYPE_CPU,
     .tier = VULKAN_SCALAR,
     .subgroup_size = 8,
     .max_invocations = 1024,
     .shared_bytes = 32768},
};
#define DEVICES (sizeof devices / sizeof devices[0])

static const uint32_t row_counts[] = {1, 2, 3, 8, 9, 16, 17, 33, 64, 65, 128, 129, 300, 1024, 4096};
#define ROW_COUNTS (sizeof row_counts / sizeof row_counts[0])

static struct vulkan_facts invariant(size_t device)
{
    struct vulkan_facts facts = devices[device];
    facts.batch_invariant = true;
    return facts;
}

/* "linear_wgmma_q4_0_" of "linear_wgmma_q4_0_64": kernels in PTX are named by the rows of their tiles. */
static size_t name_chars(const struct vulkan_matrix_choice *choice)
{
    const char *name = choice->product.shader;
    return choice->tiling.path == VULKAN_MATRIX_PTX ? (size_t)(strrchr(name, '_') + 1 - name)
                                                    : strlen(name) + 1;
}

static void check_product(const struct vulkan_facts *facts, enum vulkan_weight_kind kind,
                          uint32_t n, uint32_t k)
{
    struct vulkan_matrix_choice first, choice;
    for (size_t i = 0; i < ROW_COUNTS; i++) {
        const struct vulkan_dot_request few = {.kind = kind, .rows = row_counts[i], .n = n, .k = k};
        const struct vulkan_matrix_request request = {.kind = kind,
                                                      .rows = row_counts[i],
                                                      .n = n,
                                                      .k = k,
                                                      .forms = VULKAN_FORM_F32,
                                                      .staged = true,
                                                      .scratch_bytes = 512ull << 20};
        assert_false(vulkan_dot_suits(facts, &few));
        assert_false(vulkan_dot_norms(facts, &few));
        vulkan_matrix_choose(facts, &request, &choice);
        if (i == 0)
            first = choice;
        assert_int_equal(name_chars(&choice), name_chars(&first));
        assert_memory_equal(choice.product.shader, first.product.shader, name_chars(&first));
        assert_int_equal(choice.x_form, first.x_form);
        assert_int_equal(choice.splits, first.splits);
        assert_int_equal(choice.split_steps, first.split_steps);
        assert_int_equal(choice.tiling.k, first.tiling.k);
        assert_int_equal(choice.unpacked_bytes, 0);
        /* linear_fragment has tiles of other sizes, too: the same shader with fewer fragments; and so have kernels
         * in PTX, whose splits are of other workgroups or are folded. */
        if (choice.tiling.path == VULKAN_MATRIX_PTX) {
            assert_true(choice.tiling.rows >= row_counts[i] || choice.tiling.rows == 128);
            assert_int_equal(choice.partial_bytes > 0, choice.splits > 1 && !choice.tiling.folded);
        } else if (choice.tiling.path != VULKAN_MATRIX_FRAGMENT) {
            assert_memory_equal(&choice.product.constants, &first.product.constants,
                                sizeof first.product.constants);
        } else {
            assert_int_equal(choice.tiling.part_rows, choice.tiling.rows);
            assert_int_equal(choice.tiling.part_columns, 32);
            assert_int_equal(choice.tiling.columns, first.tiling.columns);
        }
    }
}

static void test_products(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        const struct vulkan_facts facts = invariant(d);
        check_product(&facts, VULKAN_WEIGHT_F16, 6144, 4096);
        check_product(&facts, VULKAN_WEIGHT_F32, 128, 4096);
        check_product(&facts, VULKAN_WEIGHT_F32, 128, 100);
        for (uint32_t kind = 0; kind < VULKAN_WEIGHT_KIND_COUNT; kind++) {
            check_product(&facts, kind, 4096, 14336);
            check_product(&facts, kind, 28672, 4096);
        }
    }
}

static void test_experts(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        const struct vulkan_facts facts = invariant(d);
        struct vulkan_moe_choice first, choice;
        for (size_t i = 0; i < ROW_COUNTS; i++) {
            const struct vulkan_moe_request request = {.kind = VULKAN_WEIGHT_F16,
                                                       .rows = row_counts[i],
                                                       .chosen = 8,
                                                       .experts = 128,
                                                       .n = 768,
                                                       .k = 2048,
                                                       .output = VULKAN_FORM_F32};
            vulkan_moe_choose(&facts, &request, &choice);
            if (i == 0)
                first = choice;
            assert_string_equal(choice.shader, first.shader);
            assert_memory_equal(&choice.constants, &first.constants, sizeof first.constants);
            assert_int_equal(choice.tile_rows, first.tile_rows);
            assert_false(vulkan_moe_combines(choice.kernel, row_counts[i]));
            assert_false(vulkan_moe_routes(choice.kernel, row_counts[i], 128));
        }
    }
}

static void test_attention_and_norms(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        const struct vulkan_facts facts = invariant(d);
        const char *shader = NULL;
        uint32_t invocations = 0;
        for (size_t i = 0; i < ROW_COUNTS; i++) {
            struct vulkan_attention_task task = {
                .shape = {.head_dim = 128, .heads = 32, .kv_heads = 8, .stride = 6144},
                .tiles = true,
                .items = row_counts[i],
                .forms = VULKAN_FORM_F16};
            const struct vulkan_row_task norm = {OP_rms_norm, row_counts[i], 4096, VULKAN_FORM_F16,
                                                 0};
            for (task.single = false;; task.single = true) {
                struct vulkan_attention_choice choice =
                    vulkan_attention_policy_choose(&facts, &task);
                shader = shader ? shader : choice.shader;
                assert_string_equal(choice.shader, shader);
                assert_int_equal(choice.grid.y, 1);
                assert_int_equal(choice.partial_bytes, 0);
                if (task.single)
                    break;
            }
            struct vulkan_row_choice row = vulkan_row_policy_choose(&facts, &norm);
            uint32_t now = row.specialization.values[VULKAN_ROW_INVOCATIONS];
            invocations = invocations ? invocations : now;
            assert_int_equal(now, invocations);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_attention_and_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
