/*
 * How few rows are cut for a device, at the limits of each choice: rows of W that a team takes,
 * subgroups that share a row, loads ahead, and activations in shared memory.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/backend/vulkan/device/vulkan_facts.h"
#include "worker/backend/vulkan/policy/vulkan_dot_policy.h"

/* A compute unit should have 7 teams: 924. */
static const struct vulkan_facts device = {
    .subgroup_size = 32, .max_invocations = 1024, .shared_bytes = 49152, .compute_units = 132};

static struct vulkan_dot_request request_of(uint32_t rows, uint32_t n, uint32_t k)
{
    return (struct vulkan_dot_request){.kind = VULKAN_WEIGHT_Q4_0,
                                       .rows = rows,
                                       .n = n,
                                       .k = k,
                                       .input = VULKAN_LINEAR_Q8,
                                       .epilogue = VULKAN_LINEAR_STORE,
                                       .forms = VULKAN_FORM_F32};
}

static struct vulkan_dot_choice choose(const struct vulkan_facts *facts,
                                       struct vulkan_dot_request request)
{
    struct vulkan_dot_choice choice;
    vulkan_dot_choose(facts, &request, &choice);
    return choice;
}

static void expect_dot(const struct vulkan_facts *facts, struct vulkan_dot_request request,
                       uint32_t outputs, uint32_t split, uint32_t depth, uint32_t shared_blocks)
{
    struct vulkan_dot_choice choice = choose(facts, request);
    const uint32_t *values = choice.constants.values;
    assert_string_equal(choice.shader, "linear_dot");
    assert_int_equal(choice.grid.y, 1);
    assert_int_equal(choice.grid.z, 1);
    assert_int_equal(values[VULKAN_LINEAR_DOT_OUTPUTS], outputs);
    assert_int_equal(values[VULKAN_LINEAR_DOT_SPLIT], split);
    assert_int_equal(values[VULKAN_LINEAR_DOT_DEPTH], depth);
    assert_int_equal(values[VULKAN_LINEAR_DOT_SHARED_BLOCKS], shared_blocks);
}

/* Up to 4,096 outputs of one row four subgroups share a row of W, else two. */
static void one_or_two_rows_share_rows_of_weights(void **state)
{
    (void)state;
    expect_dot(&device, request_of(1, 4096, 4096), 2, 4, 1, 0);
    expect_dot(&device, request_of(1, 4097, 4096), 2, 2, 2, 0);
    expect_dot(&device, request_of(2, 4096, 4096), 2, 2, 2, 0);
    expect_dot(&device, request_of(1, 4096, 2048), 2, 2, 1, 0);
    expect_dot(&device, request_of(1, 4096, 1024), 2, 1, 1, 0);
    assert_int_equal(choose(&device, request_of(1, 4096, 4096)).grid.x, 1024);
    assert_int_equal(choose(&device, request_of(1, 4095, 4096)).grid.x, 1024);
    assert_int_equal(choose(&device, request_of(1, 4092, 4096)).grid.x, 1023);
}

static void teams_take_more_rows_of_weights_while_there_are_enough(void **state)
{
    (void)state;
    struct vulkan_facts unknown = device;
    unknown.compute_units = 0; /* taken as 16 */
    expect_dot(&device, request_of(3, 1848, 4096), 2, 1, 2, 128);
    expect_dot(&device, request_of(3, 1847, 4096), 1, 1, 2, 128);
    expect_dot(&device, request_of(4, 3696, 4096), 4, 1, 1, 128);
    expect_dot(&device, request_of(4, 3695, 4096), 2, 1, 2, 128);
    expect_dot(&device, request_of(3, 3696, 4096), 2, 1, 2, 128);
    expect_dot(&unknown, request_of(3, 224, 4096), 2, 1, 2, 128);
    expect_dot(&unknown, request_of(3, 223, 4096), 1, 1, 2, 128);
    expect_dot(&device, request_of(3, 4096, 1024), 2, 1, 1, 32); /* a lane has one block */
    expect_dot(&device, request_of(3, 4096, 1056), 2, 1, 2, 33);
}

/* 40 bytes for a block of 32 columns, and 4 KiB. */
static void activations_are_shared_where_they_fit(void **state)
{
    (void)state;
    struct vulkan_facts facts = device;
    facts.shared_bytes = 8 * 128 * 40 + 4096;
    expect_dot(&facts, request_of(8, 4096, 4096), 4, 1, 1, 128);
    facts.shared_bytes--;
    expect_dot(&facts, request_of(8, 4096, 4096), 2, 1, 2, 0);
}

/* Up to two rows; a workgroup norms for itself, so at most four workgroups a compute unit. */
static void norms_are_shared_by_larger_workgroups(void **state)
{
    (void)state;
    struct vulkan_dot_request request = request_of(1, 4096, 4096);
    request.input = VULKAN_LINEAR_NORM;
    expect_dot(&device, request, 2, 1, 2, 128);
    struct vulkan_dot_choice choice = choose(&device, request);
    assert_int_equal(choice.constants.values[VULKAN_LINEAR_DOT_INVOCATIONS], 512);
    assert_int_equal(choice.constants.values[VULKAN_LINEAR_DOT_AHEAD], 0);
    assert_int_equal(choice.grid.x, 128);
    request.n = 100000;
    assert_int_equal(choose(&device, request).grid.x, 528);
    request.rows = 2;
    choice = choose(&device, request);
    assert_int_equal(choice.constants.values[VULKAN_LINEAR_DOT_INVOCATIONS], 512);
    assert_int_equal(choice.constants.values[VULKAN_LINEAR_DOT_AHEAD], 1);
    request.epilogue = VULKAN_LINEAR_GATE_SILU;
    choice = choose(&device, request);
    assert_int_equal(choice.constants.values[VULKAN_LINEAR_DOT_INVOCATIONS], 256);
    request.rows = 1;
    expect_dot(&device, request, 2, 1, 1, 128);
    choice = choose(&device, request);
    assert_int_equal(choice.constants.values[VULKAN_LINEAR_DOT_INVOCATIONS], 512);
    assert_true(vulkan_dot_norms(&device, &request));
    request.rows = 2;
    assert_true(vulkan_dot_norms(&device, &request));
    request.rows = 3;
    assert_false(vulkan_dot_norms(&device, &request));
    request = request_of(2, 4096, 32 * 600);
    assert_false(vulkan_dot_norms(&device, &request)); /* does not fit */
    request.kind = VULKAN_WEIGHT_F32;
    assert_true(vulkan_dot_norms(&device, &request));
}

/* Gated, a workgroup's tile has 32 results, of 64 rows of W. */
static void gated_workgroups_have_tiles_of_32_results(void **state)
{
    (void)state;
    struct vulkan_facts narrow = device, small = device;
    narrow.subgroup_size = 8;
    small.max_invocations = 128;
    struct vulkan_dot_request request = request_of(4, 4096, 4096);
    request.epilogue = VULKAN_LINEAR_GATE_GELU;
    assert_int_equal(choose(&device, request).grid.x, 64);
    assert_int_equal(choose(&device, request).constants.values[VULKAN_LINEAR_DOT_SUBGROUPS], 8);
    assert_int_equal(choose(&narrow, request).constants.values[VULKAN_LINEAR_DOT_SUBGROUPS], 16);
    assert_int_equal(choose(&small, request).constants.values[VULKAN_LINEAR_DOT_SUBGROUPS], 4);
    request.n = 4098;
    assert_int_equal(choose(&device, request).grid.x, 65);
    request.rows = 1; /* not split */
    assert_int_equal(choose(&device, request).constants.values[VULKAN_LINEAR_DOT_SPLIT], 1);
}

/* Fewer outputs than teams: all subgroups share a row of W, a lane loads 8 columns at a time. */
static void few_outputs_of_floats_share_rows_of_weights(void **state)
{
    (void)state;
    struct vulkan_dot_request request = request_of(1, 128, 2048);
    request.kind = VULKAN_WEIGHT_F32;
    request.input = VULKAN_LINEAR_F32;
    expect_dot(&device, request, 1, 8, 1, 0);
    request.k = 4096;
    expect_dot(&device, request, 1, 8, 2, 0);
    request.k = 65536;
    expect_dot(&device, request, 1, 8, 4, 0);
    request.k = 264;
    expect_dot(&device, request, 1, 2, 1, 0);
    request.k = 256;
    expect_dot(&device, request, 1, 1, 1, 0);
    request.k = 4096;
    request.n = 923;
    expect_dot(&device, request, 1, 8, 2, 0);
    request.n = 924;
    expect_dot(&device, request, 1, 1, 4, 0);
}

static void a_cpu_takes_two_rows(void **state)
{
    (void)state;
    struct vulkan_facts cpu = device;
    cpu.type = VK_PHYSICAL_DEVICE_TYPE_CPU;
    struct vulkan_dot_request request = request_of(2, 4096, 4096);
    assert_true(vulkan_dot_suits(&cpu, &request));
    request.rows = 3;
    assert_false(vulkan_dot_suits(&cpu, &request));
    request.kind = VULKAN_WEIGHT_F32;
    request.k = 4095; /* linear_plain takes whole blocks */
    assert_true(vulkan_dot_suits(&cpu, &request));
}

static void expect_register(const struct vulkan_facts *facts, struct vulkan_dot_request request,
                            uint32_t tiles, uint32_t groups, uint32_t subgroups)
{
    request.input = vulkan_dot_input(facts, &request);
    assert_int_equal(request.input, VULKAN_LINEAR_F16);
    struct vulkan_dot_choice choice = choose(facts, request);
    const uint32_t *values = choice.constants.values;
    assert_string_equal(choice.shader, "linear_register");
    assert_int_equal(values[VULKAN_LINEAR_REGISTER_OUTPUT_TILES], tiles);
    assert_int_equal(values[VULKAN_LINEAR_REGISTER_SUBGROUPS], subgroups);
    assert_int_equal(values[VULKAN_LINEAR_REGISTER_INVOCATIONS], 32 * subgroups);
    assert_int_equal(values[VULKAN_LINEAR_REGISTER_AHEAD], request.rows > 16);
    assert_int_equal(choice.grid.x, groups);
    assert_int_equal(choice.grid.y, 1);
    assert_int_equal(choice.grid.z, 1);
}

/* Two tiles of outputs share loads of x, unless too few workgroups are left, or a fifth of the
 * units' time in the last round. */
static void registers_have_one_or_two_tiles(void **state)
{
    (void)state;
    struct vulkan_facts facts = device;
    facts.matrix_registers = true;
    expect_register(&facts, request_of(3, 8192, 4096), 1, 512, 8);
    expect_register(&facts, request_of(8, 8192, 4096), 1, 512, 8);
    expect_register(&facts, request_of(8, 8193, 4096), 2, 257, 16);
    expect_register(&facts, request_of(9, 132 * 32, 4096), 2, 132, 16);
    expect_register(&facts, request_of(9, 133 * 32, 4096), 1, 266, 16);
    expect_register(&facts, request_of(16, 212 * 32, 4096), 2, 212, 8);
    expect_register(&facts, request_of(16, 211 * 32, 4096), 1, 422, 8);
    expect_register(&facts, request_of(17, 211 * 32, 4096), 2, 211, 4);
    expect_register(&facts, request_of(17, 165 * 32, 4096), 2, 165, 4); /* five for each unit */
    expect_register(&facts, request_of(17, 164 * 32, 4096), 2, 164, 8);
    expect_register(&facts, request_of(9, 132 * 32 + 1, 4096), 1, 265, 16);
    facts.compute_units = 130; /* 26 of 130 units are idle: exactly a fifth of the time */
    expect_register(&facts, request_of(9, 104 * 32, 4096), 2, 104, 16);
    expect_register(&facts, request_of(9, 103 * 32, 4096), 1, 206, 16);
    facts.compute_units = 132;
    struct vulkan_dot_request gated = request_of(8, 8192, 4096);
    gated.epilogue = VULKAN_LINEAR_GATE_SILU;
    expect_register(&facts, gated, 1, 512, 8);
    gated.k = 4064;
    expect_register(&facts, gated, 2, 256, 16);
    gated.rows = 9;
    expect_register(&facts, gated, 1, 512, 8);
    facts.shared_bytes = 2 * 32 * 33 * 4; /* sums of two subgroups */
    expect_register(&facts, request_of(32, 8192, 4096), 2, 256, 2);
    facts.shared_bytes--;
    expect_register(&facts, request_of(32, 8192, 4096), 2, 256, 1);
}

static void registers_take_three_to_32_rows_of_codes(void **state)
{
    (void)state;
    struct vulkan_facts facts = device;
    facts.matrix_registers = true;
    facts.max_invocations = 512;
    struct vulkan_dot_request request = request_of(3, 4096, 4096);
    assert_int_equal(vulkan_dot_input(&facts, &request), VULKAN_LINEAR_F16);
    request.rows = 2;
    assert_int_equal(vulkan_dot_input(&facts, &request), VULKAN_LINEAR_Q8);
    request.rows = 3;
    facts.max_invocations = 511;
    assert_int_equal(vulkan_dot_input(&facts, &request), VULKAN_LINEAR_Q8);
    request.kind = VULKAN_WEIGHT_BF16;
    facts.max_invocations = 512;
    assert_int_equal(vulkan_dot_input(&facts, &request), VULKAN_LINEAR_F32);
}

/* From 25 rows on kernels in PTX are faster, where x can be staged for them. */
static void registers_leave_rows_to_ptx(void **state)
{
    (void)state;
    struct vulkan_facts facts = device;
    facts.tier = VULKAN_PTX;
    facts.matrix_registers = true;
    struct vulkan_dot_request request = request_of(24, 4096, 4096);
    request.staged = true;
    assert_true(vulkan_dot_suits(&facts, &request));
    request.rows = 25;
    assert_false(vulkan_dot_suits(&facts, &request));
    request.staged = false;
    assert_true(vulkan_dot_suits(&facts, &request));
    request.staged = true;
    facts.tier = VULKAN_NV_MATRIX2;
    assert_true(vulkan_dot_suits(&facts, &request));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_or_two_rows_share_rows_of_weights),
        cmocka_unit_test(teams_take_more_rows_of_weights_while_there_are_enough),
        cmocka_unit_test(activations_are_shared_where_they_fit),
        cmocka_unit_test(norms_are_shared_by_larger_workgroups),
        cmocka_unit_test(gated_workgroups_have_tiles_of_32_results),
        cmocka_unit_test(few_outputs_of_floats_share_rows_of_weights),
        cmocka_unit_test(a_cpu_takes_two_rows),
        cmocka_unit_test(registers_have_one_or_two_tiles),
        cmocka_unit_test(registers_take_three_to_32_rows_of_codes),
        cmocka_unit_test(registers_leave_rows_to_ptx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
