/*
 * Kernels over one row: invocations by the row's width and the step's rows within the device's
 * limits, and a grid that reaches every column once.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/backend/vulkan/device/vulkan_facts.h"
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"

static const struct vulkan_facts device = {.subgroup_size = 32, .max_invocations = 1024};

static struct vulkan_row_choice choose(const struct vulkan_facts *facts, enum op_stem stem,
                                       uint32_t rows, uint32_t columns)
{
    const struct vulkan_row_task task = {
        .stem = stem, .rows = rows, .columns = columns, .forms = VULKAN_FORM_F32, .own = 7};
    return vulkan_row_policy_choose(facts, &task);
}

static uint32_t invocations(const struct vulkan_facts *facts, enum op_stem stem, uint32_t rows,
                            uint32_t columns)
{
    return choose(facts, stem, rows, columns).specialization.values[VULKAN_ROW_INVOCATIONS];
}

static void the_choice_names_the_op_and_its_constants(void **state)
{
    (void)state;
    const struct vulkan_row_task task = {.stem = OP_rms_norm,
                                         .rows = 3,
                                         .columns = 64,
                                         .forms = VULKAN_FORM_F16 | VULKAN_FORM_Q8,
                                         .own = 5};
    struct vulkan_row_choice choice = vulkan_row_policy_choose(&device, &task);
    assert_string_equal(choice.shader, "rms_norm");
    assert_int_equal(choice.specialization.count, VULKAN_ROW_CONSTANTS);
    assert_int_equal(choice.specialization.values[VULKAN_ROW_FORMS],
                     VULKAN_FORM_F16 | VULKAN_FORM_Q8);
    assert_int_equal(choice.specialization.values[VULKAN_ROW_OWN], 5);
}

/* A norm has one workgroup for a row; an invocation takes two quads of columns. */
static void a_norm_has_one_workgroup_a_row(void **state)
{
    (void)state;
    static const uint32_t columns[] = {1, 256, 257, 512, 513, 1024, 1025, 2048, 2049, 4096, 100000};
    static const uint32_t expected[] = {32, 32, 64, 64, 128, 128, 256, 256, 512, 512, 512};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        struct vulkan_row_choice choice = choose(&device, OP_rms_norm, 9, columns[i]);
        assert_int_equal(choice.specialization.values[VULKAN_ROW_INVOCATIONS], expected[i]);
        assert_int_equal(choice.grid.x, 9);
        assert_int_equal(choice.grid.y, 1);
        assert_int_equal(choice.grid.z, 1);
    }
}

/* From 512 rows on an invocation of a norm takes four quads. */
static void many_rows_get_fewer_invocations_each(void **state)
{
    (void)state;
    assert_int_equal(invocations(&device, OP_rms_norm, 511, 1024), 128);
    assert_int_equal(invocations(&device, OP_rms_norm, 512, 1024), 64);
    assert_int_equal(invocations(&device, OP_rms_norm, 512, 1025), 128);
}

/* Other kernels cut a row into tiles of up to 256 invocations with a quad each. */
static void other_kernels_cut_rows_into_tiles(void **state)
{
    (void)state;
    static const struct {
        uint32_t columns, invocations, tiles;
    } rows[] = {{1, 32, 1},     {128, 32, 1},   {129, 64, 1},   {513, 256, 1},
                {1024, 256, 1}, {1025, 256, 2}, {2048, 256, 2}, {2049, 256, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (uint32_t count = 511; count <= 512; count++) {
            struct vulkan_row_choice choice =
                choose(&device, OP_embed_rows, count, rows[i].columns);
            assert_int_equal(choice.specialization.values[VULKAN_ROW_INVOCATIONS],
                             rows[i].invocations);
            assert_int_equal(choice.grid.x, count);
            assert_int_equal(choice.grid.y, rows[i].tiles);
            assert_int_equal(choice.grid.z, 1);
        }
    }
}

static void a_workgroup_is_whole_subgroups_within_the_limit(void **state)
{
    (void)state;
    const struct vulkan_facts narrow = {.subgroup_size = 4, .max_invocations = 1024};
    const struct vulkan_facts eight = {.subgroup_size = 8, .max_invocations = 1024};
    const struct vulkan_facts sixteen = {.subgroup_size = 16, .max_invocations = 1024};
    const struct vulkan_facts small = {.subgroup_size = 32, .max_invocations = 128};
    const struct vulkan_facts odd = {.subgroup_size = 32, .max_invocations = 192};
    assert_int_equal(invocations(&narrow, OP_rms_norm, 1, 32), 8); /* a block of q8 needs eight */
    assert_int_equal(invocations(&eight, OP_rms_norm, 1, 32), 8);
    assert_int_equal(invocations(&sixteen, OP_rms_norm, 1, 32), 16);
    assert_int_equal(invocations(&small, OP_rms_norm, 1, 8192), 128);
    assert_int_equal(invocations(&odd, OP_rms_norm, 1, 8192), 128);
    assert_int_equal(choose(&small, OP_embed_rows, 1, 1024).grid.y, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_names_the_op_and_its_constants),
        cmocka_unit_test(a_norm_has_one_workgroup_a_row),
        cmocka_unit_test(many_rows_get_fewer_invocations_each),
        cmocka_unit_test(other_kernels_cut_rows_into_tiles),
        cmocka_unit_test(a_workgroup_is_whole_subgroups_within_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
