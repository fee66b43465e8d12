/*
 * For every device and shape: the tiles cover all outputs, the splits all columns, shared memory
 * and invocations stay within the device's limits, and kernels are only used for shapes that they
 * support.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "tests/support/test_random.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

static const struct vulkan_facts devices[] = {
    {.tier = VULKAN_SCALAR, .subgroup_size = 8, .max_invocations = 1024, .shared_bytes = 32768},
    {.tier = VULKAN_DOT, .subgroup_size = 64, .max_invocations = 256, .shared_bytes = 16384},
    {.tier = VULKAN_KHR_MATRIX,
     .matrix_shape_count = 1,
     .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 8, 8, 8}},
     .subgroup_size = 8,
     .max_invocations = 1024,
     .shared_bytes = 32768},
    {.tier = VULKAN_KHR_MATRIX,
     .matrix_shape_count = 1,
     .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 8, 16, 16}},
     .subgroup_size = 16,
     .max_invocations = 512,
     .shared_bytes = 65536,
     .compute_units = 20},
    {.tier = VULKAN_KHR_MATRIX,
     .matrix_shape_count = 1,
     .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 16, 16}},
     .subgroup_size = 64,
     .max_invocations = 1024,
     .shared_bytes = 65536},
    {.tier = VULKAN_NV_MATRIX2,
     .matrix_shape_count = 2,
     .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 8, 16}, {VULKAN_MATRIX_F16_F32, 16, 16, 16}},
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

static struct vulkan_matrix_request random_request(struct test_random *random)
{
    struct vulkan_matrix_request request = {
        .kind = (enum vulkan_weight_kind)test_random_below(random, VULKAN_WEIGHT_KIND_COUNT),
        .rows = 1 + test_random_below(random, test_random_below(random, 2) ? 160 : 4096),
        .n = 2 * (1 + test_random_below(random, test_random_below(random, 2) ? 400 : 70000)),
        .epilogue = (enum vulkan_linear_epilogue)test_random_below(random, 4),
        .forms = VULKAN_FORM_F32,
        .scratch_bytes = test_random_below(random, 2) ? 512ull << 20 : 0,
    };
    bool quantized = vulkan_weight_format_facts(request.kind).quantized;
    request.k = quantized ? 32 * (1 + test_random_below(random, 600))
                          : 1 + test_random_below(random, 20000);
    return request;
}

static uint64_t shared_bytes(const struct vulkan_matrix_tiling *t)
{
    uint64_t rows = t->rows, columns = t->columns;
    switch (t->path) {
    case VULKAN_MATRIX_TILE: return 32 * (rows + 1 + columns + 1) * 4;
    case VULKAN_MATRIX_KHR: return t->stages * (rows + columns) * (t->k + 8) * 2 + 4;
    case VULKAN_MATRIX_FRAGMENT: return t->stages * rows * (t->k + 8) * 2 + 4;
    default: return 0; /* the driver's to know */
    }
}

/* Whole tiles of x and of the weights can be read. */
static void check_room(const struct vulkan_matrix_request *request,
                       const struct vulkan_matrix_choice *choice)
{
    const struct vulkan_matrix_tiling *t = &choice->tiling;
    bool gated = request->epilogue >= VULKAN_LINEAR_GATE_SILU;
    uint64_t outputs = gated ? request->n / 2 : request->n;
    uint64_t tiled = (uint64_t)choice->product.grid.y * t->columns / (gated ? 2 : 1);
    if (t->path != VULKAN_MATRIX_NV2_UNPACKED) {
        assert_int_equal(choice->x_rows, request->rows);
        assert_int_equal(choice->unpacked_bytes, 0);
        return;
    }
    assert_int_equal(choice->x_rows, choice->product.grid.x * t->rows);
    assert_int_equal(VULKAN_MATRIX_ROWS % t->rows, 0);
    if (choice->unpacked_bytes > 0)
        assert_int_equal(choice->unpacked_bytes, (request->n - outputs + tiled) * request->k * 2);
    else
        assert_true(request->kind == VULKAN_WEIGHT_F16 && tiled == outputs);
}

static void check_choice(const struct vulkan_facts *facts,
                         const struct vulkan_matrix_request *request)
{
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(facts, request, &choice);
    const struct vulkan_matrix_tiling *t = &choice.tiling;
    bool gated = request->epilogue >= VULKAN_LINEAR_GATE_SILU;
    bool quantized = vulkan_weight_format_facts(request->kind).quantized;
    uint64_t outputs = gated ? request->n / 2 : request->n;
    const struct vulkan_grid *grid = &choice.product.grid;
    assert_true((uint64_t)grid->x * t->rows >= request->rows);
    assert_true((uint64_t)(grid->x - 1) * t->rows < request->rows);
    assert_true((uint64_t)grid->y * t->columns / (gated ? 2 : 1) >= outputs);
    assert_int_equal(grid->z, choice.splits);
    assert_true((uint64_t)choice.splits * choice.split_steps * t->k >= request->k);
    assert_true((uint64_t)(choice.splits - 1) * choice.split_steps * t->k < request->k);
    assert_true(grid->x <= 65535 && grid->y <= 65535 && grid->z <= 65535);
    assert_true(shared_bytes(t) <= facts->shared_bytes);
    assert_true(choice.product.constants.values[0] <= facts->max_invocations);
    if (t->path == VULKAN_MATRIX_PLAIN) {
        assert_int_equal(facts->type, VK_PHYSICAL_DEVICE_TYPE_CPU);
        assert_int_equal(request->k % 32, 0);
        assert_int_equal(choice.x_form, VULKAN_FORM_F32);
    } else if (t->path != VULKAN_MATRIX_TILE) {
        assert_true(facts->tier >= VULKAN_KHR_MATRIX);
        assert_int_equal(request->k % 32, 0);
        assert_int_equal(choice.x_form, VULKAN_FORM_F16);
    }
    if (t->path == VULKAN_MATRIX_FRAGMENT)
        assert_true(facts->matrix_registers && quantized);
    if (t->path == VULKAN_MATRIX_NV2_PACKED)
        assert_true(quantized && facts->tier >= VULKAN_NV_MATRIX2);
    assert_true(choice.unpacked_bytes <= request->scratch_bytes);
    check_room(request, &choice);
    if (choice.unpacked_bytes > 0)
        assert_true(choice.unpack.grid.x <= 65535 && choice.unpack.grid.y <= 65535);
    assert_true((choice.splits > 1) == (choice.partial_bytes > 0));
    if (t->path == VULKAN_MATRIX_KHR || t->path == VULKAN_MATRIX_FRAGMENT)
        assert_int_equal(choice.product.constants.values[VULKAN_LINEAR_MATRIX_SPLIT],
                         choice.splits > 1);
    assert_true((choice.splits > 1) == (choice.counter_count > 0));
}

static void test_choices_cover_the_product_within_the_devices_limits(void **state)
{
    (void)state;
    struct test_random random = {77};
    for (uint32_t i = 0; i < 20000; i++) {
        struct vulkan_matrix_request request = random_request(&random);
        check_choice(&devices[i % (sizeof devices / sizeof *devices)], &request);
    }
}

static void test_few_tiles_are_split_and_many_are_not(void **state)
{
    (void)state;
    const struct vulkan_facts *h200 = &devices[5];
    struct vulkan_matrix_request request = {
        .kind = VULKAN_WEIGHT_Q4_0, .rows = 64, .n = 4096, .k = 14336, .forms = VULKAN_FORM_F32};
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(h200, &request, &choice);
    assert_true(choice.splits > 1);
    assert_true(choice.product.grid.y * choice.splits >= h200->compute_units);
    request.n = 128256;
    vulkan_matrix_choose(h200, &request, &choice);
    assert_int_equal(choice.splits, 1);
}

/* Kernels without edges write rows of whole 32 columns, so not outputs beside matrices of other
 * widths. */
static void test_only_aligned_outputs_have_no_edges(void **state)
{
    (void)state;
    const struct vulkan_facts *h200 = &devices[5];
    for (uint32_t rows = 256; rows <= 257; rows++) {
        for (uint32_t packed = 0; packed < 2; packed++) {
            const char *form = packed ? "linear_matrix2_packed" : "linear_matrix2_f16";
            struct vulkan_matrix_request request = {.kind = VULKAN_WEIGHT_Q4_0,
                                                    .rows = rows,
                                                    .n = 4096,
                                                    .k = 4096,
                                                    .forms = VULKAN_FORM_F32,
                                                    .scratch_bytes = packed ? 0 : 1u << 30};
            struct vulkan_matrix_choice choice;
            vulkan_matrix_choose(h200, &request, &choice);
            const char *end = choice.product.shader + strlen(form);
            assert_memory_equal(choice.product.shader, form, strlen(form));
            assert_string_equal(end, rows == 256 ? "_whole" : "");
            request.unaligned = true;
            vulkan_matrix_choose(h200, &request, &choice);
            assert_string_equal(choice.product.shader, form);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices_cover_the_product_within_the_devices_limits),
        cmocka_unit_test(test_few_tiles_are_split_and_many_are_not),
        cmocka_unit_test(test_only_aligned_outputs_have_no_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
