/*
 * The choices of the few-rows policy fit every device and every shape: workgroups within the
 * device's limits, whole teams, whole gate tiles, no more shared memory than the device has, and
 * grids that reach all outputs.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/backend/vulkan/policy/vulkan_dot_policy.h"

enum { TRIALS = 20000 };

static struct vulkan_facts random_facts(struct test_random *random)
{
    static const uint32_t invocations[] = {128, 256, 512, 1024};
    return (struct vulkan_facts){
        .integer_dot = test_random_below(random, 2) != 0,
        .matrix_registers = test_random_below(random, 2) != 0,
        .compute_units = test_random_below(random, 200),
        .subgroup_size = 4u << test_random_below(random, 6),
        .max_invocations = invocations[test_random_below(random, 4)],
        .shared_bytes = 16384u << test_random_below(random, 3),
    };
}

static struct vulkan_dot_request random_request(struct test_random *random)
{
    struct vulkan_dot_request request = {
        .kind = (enum vulkan_weight_kind)test_random_below(random, VULKAN_WEIGHT_KIND_COUNT),
        .rows = 1 + test_random_below(random, 40),
        .n = 2 * (1 + test_random_below(random, 1u << test_random_below(random, 18))),
        .k = 256 * (1 + test_random_below(random, 80)),
        .epilogue = (enum vulkan_linear_epilogue)test_random_below(random, 4),
        .forms = VULKAN_FORM_F32,
    };
    return request;
}

static bool is_gated(const struct vulkan_dot_request *request)
{
    return request->epilogue >= VULKAN_LINEAR_GATE_SILU;
}

static void check_dot(const struct vulkan_facts *facts, const struct vulkan_dot_request *request,
                      const struct vulkan_dot_choice *choice)
{
    const uint32_t *values = choice->constants.values;
    uint32_t subgroups = values[VULKAN_LINEAR_DOT_SUBGROUPS];
    uint32_t teams = subgroups / values[VULKAN_LINEAR_DOT_SPLIT];
    uint32_t team_outputs = teams * values[VULKAN_LINEAR_DOT_OUTPUTS];
    uint32_t blocks = values[VULKAN_LINEAR_DOT_SHARED_BLOCKS];
    assert_int_equal(choice->constants.count, VULKAN_LINEAR_DOT_CONSTANTS);
    assert_int_equal(values[VULKAN_LINEAR_DOT_INVOCATIONS], subgroups * facts->subgroup_size);
    assert_in_range(values[VULKAN_LINEAR_DOT_INVOCATIONS], 1, facts->max_invocations);
    assert_int_equal(subgroups % values[VULKAN_LINEAR_DOT_SPLIT], 0);
    assert_in_range(values[VULKAN_LINEAR_DOT_OUTPUTS] * request->rows, 1, 64);
    assert_in_range(choice->grid.x, 1, 65535);
    if (is_gated(request))
        assert_int_equal(64 % team_outputs, 0);
    assert_true(blocks == 0 || blocks == request->k / 32);
    assert_in_range(40 * request->rows * blocks, 0, facts->shared_bytes - 2048);
    if (request->input != VULKAN_LINEAR_Q8 && vulkan_weight_format_facts(request->kind).quantized)
        assert_true(blocks > 0);
}

static void check_register(const struct vulkan_facts *facts,
                           const struct vulkan_dot_request *request,
                           const struct vulkan_dot_choice *choice)
{
    const uint32_t *values = choice->constants.values;
    uint32_t subgroups = values[VULKAN_LINEAR_REGISTER_SUBGROUPS];
    uint32_t split = values[VULKAN_LINEAR_REGISTER_SPLIT];
    uint32_t outputs = 16 * values[VULKAN_LINEAR_REGISTER_OUTPUT_TILES];
    uint32_t padded_rows = (request->rows + 7) / 8 * 8;
    assert_int_equal(choice->constants.count, VULKAN_LINEAR_REGISTER_CONSTANTS);
    assert_int_equal(values[VULKAN_LINEAR_REGISTER_TILED], request->tiled);
    assert_int_equal(values[VULKAN_LINEAR_REGISTER_ROWS], padded_rows);
    assert_true(facts->matrix_registers);
    assert_true(vulkan_weight_format_facts(request->kind).quantized);
    assert_int_equal(values[VULKAN_LINEAR_REGISTER_INVOCATIONS], 32 * subgroups);
    assert_in_range(32 * subgroups, 32, facts->max_invocations);
    assert_int_equal(subgroups % split, 0);
    assert_in_range(subgroups * padded_rows * (outputs + 1) * 4, 0, facts->shared_bytes);
    assert_true((uint64_t)choice->grid.x * (subgroups / split) * outputs >= request->n);
    assert_in_range(choice->grid.x, 1, 65535);
}

static void test_choices_fit_device_and_shape(void **state)
{
    (void)state;
    struct test_random random = {61};
    uint32_t dots = 0, registers = 0, normed = 0;
    for (uint32_t i = 0; i < TRIALS; i++) {
        const struct vulkan_facts facts = random_facts(&random);
        struct vulkan_dot_request request = random_request(&random);
        struct vulkan_dot_choice choice;
        bool quantized = vulkan_weight_format_facts(request.kind).quantized;
        if (facts.subgroup_size > facts.max_invocations)
            continue;
        if (!vulkan_dot_suits(&facts, &request)) {
            assert_true(request.rows > VULKAN_DOT_ROWS);
            continue;
        }
        request.input = vulkan_dot_input(&facts, &request);
        assert_true(quantized ? request.input != VULKAN_LINEAR_F32
                              : request.input == VULKAN_LINEAR_F32);
        if (vulkan_dot_norms(&facts, &request)) {
            request.input = VULKAN_LINEAR_NORM;
            normed++;
        }
        request.tiled = request.input == VULKAN_LINEAR_F16 && test_random_below(&random, 2) != 0;
        vulkan_dot_choose(&facts, &request, &choice);
        if (request.input == VULKAN_LINEAR_F16) {
            check_register(&facts, &request, &choice);
            registers++;
        } else {
            check_dot(&facts, &request, &choice);
            dots++;
        }
    }
    assert_true(dots > 1000 && registers > 1000 && normed > 100);
}

static void test_more_rows_are_for_matrix_kernels(void **state)
{
    (void)state;
    struct vulkan_facts facts = {.subgroup_size = 32,
                                 .max_invocations = 1024,
                                 .shared_bytes = 49152,
                                 .compute_units = 132,
                                 .integer_dot = true};
    struct vulkan_dot_request request = {
        .kind = VULKAN_WEIGHT_Q4_0, .n = 4096, .k = 4096, .rows = VULKAN_DOT_ROWS};
    assert_true(vulkan_dot_suits(&facts, &request));
    request.rows++;
    assert_false(vulkan_dot_suits(&facts, &request));
    facts.matrix_registers = true;
    assert_true(vulkan_dot_suits(&facts, &request));
    request.rows = VULKAN_REGISTER_ROWS + 1;
    assert_false(vulkan_dot_suits(&facts, &request));
}

static void test_floats_of_16_bits_have_matrix_units_sooner(void **state)
{
    (void)state;
    struct vulkan_facts facts = {.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                 .tier = VULKAN_KHR_MATRIX,
                                 .subgroup_size = 32,
                                 .max_invocations = 1024,
                                 .shared_bytes = 49152,
                                 .compute_units = 132,
                                 .matrix_khr = true,
                                 .matrix_shape_count = 1,
                                 .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 16, 16}}};
    struct vulkan_dot_request request = {.n = 4096, .k = 4096};
    static const enum vulkan_weight_kind halves[] = {VULKAN_WEIGHT_F16, VULKAN_WEIGHT_BF16};
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++) {
        request.kind = halves[i];
        request.rows = VULKAN_HALF_DOT_ROWS;
        assert_true(vulkan_dot_suits(&facts, &request));
        request.rows++;
        assert_false(vulkan_dot_suits(&facts, &request));
        request.n = 128; /* scores of experts */
        assert_true(vulkan_dot_suits(&facts, &request));
        request.n = 4096;
    }
    request.kind = VULKAN_WEIGHT_F32; /* which matrix units would round */
    assert_true(vulkan_dot_suits(&facts, &request));
    request.kind = VULKAN_WEIGHT_Q4_0;
    assert_true(vulkan_dot_suits(&facts, &request));
    request.kind = VULKAN_WEIGHT_F16;
    request.k = 4100; /* which they do not take */
    assert_true(vulkan_dot_suits(&facts, &request));
    request.k = 4096;
    facts.tier = VULKAN_DOT;
    assert_true(vulkan_dot_suits(&facts, &request));
}

static void test_drivers_for_the_cpu_have_matrix_kernels_sooner(void **state)
{
    (void)state;
    struct vulkan_facts facts = {.type = VK_PHYSICAL_DEVICE_TYPE_CPU,
                                 .subgroup_size = 8,
                                 .max_invocations = 1024,
                                 .shared_bytes = 32768};
    struct vulkan_dot_request request = {
        .kind = VULKAN_WEIGHT_F16, .n = 4096, .k = 4096, .rows = 2};
    assert_true(vulkan_dot_suits(&facts, &request));
    request.rows = 3;
    assert_false(vulkan_dot_suits(&facts, &request));
    request.k = 4097; /* which linear_plain cannot */
    assert_true(vulkan_dot_suits(&facts, &request));
    request.k = 4096;
    facts.tier = VULKAN_KHR_MATRIX;
    assert_true(vulkan_dot_suits(&facts, &request));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices_fit_device_and_shape),
        cmocka_unit_test(test_more_rows_are_for_matrix_kernels),
        cmocka_unit_test(test_floats_of_16_bits_have_matrix_units_sooner),
        cmocka_unit_test(test_drivers_for_the_cpu_have_matrix_kernels_sooner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
