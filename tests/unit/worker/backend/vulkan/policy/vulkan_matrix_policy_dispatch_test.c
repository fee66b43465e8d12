/*
 * The dispatches of a tiling: shader, specialization constants, grid, memory for partial sums and
 * decoded weights, and push constants.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

static struct vulkan_facts device(enum vulkan_tier tier)
{
    return (struct vulkan_facts){.tier = tier,
                                 .matrix_khr = true,
                                 .matrix_nv2 = true,
                                 .matrix_registers = true,
                                 .matrix_shape_count = 1,
                                 .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 8, 16}},
                                 .subgroup_size = 32,
                                 .max_invocations = 1024,
                                 .shared_bytes = 65536,
                                 .compute_units = 132};
}

static struct vulkan_matrix_request request_of(enum vulkan_weight_kind kind, uint32_t rows,
                                               uint32_t n, uint32_t k,
                                               enum vulkan_linear_epilogue epilogue)
{
    return (struct vulkan_matrix_request){.kind = kind,
                                          .rows = rows,
                                          .n = n,
                                          .k = k,
                                          .epilogue = epilogue,
                                          .forms = VULKAN_FORM_F32 | VULKAN_FORM_F16};
}

static void expect_constants(const struct vulkan_matrix_dispatch *dispatch, uint32_t count,
                             const uint32_t *values)
{
    assert_int_equal(dispatch->constants.count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(dispatch->constants.values[i], values[i]);
}

static void expect_grid(const struct vulkan_matrix_dispatch *dispatch, uint32_t x, uint32_t y,
                        uint32_t z)
{
    assert_int_equal(dispatch->grid.x, x);
    assert_int_equal(dispatch->grid.y, y);
    assert_int_equal(dispatch->grid.z, z);
}

/* --- paths in shaders ---------------------------------------------------------------------------- */

static void a_tile_has_an_invocation_for_each_part(void **state)
{
    (void)state;
    struct vulkan_facts facts = device(VULKAN_DOT);
    struct vulkan_matrix_request request =
        request_of(VULKAN_WEIGHT_Q8_0, 100, 200, 64, VULKAN_LINEAR_ADD);
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_string_equal(choice.product.shader, "linear_tile");
    expect_constants(&choice.product, 9,
                     (const uint32_t[]){256, VULKAN_WEIGHT_Q8_0, VULKAN_LINEAR_ADD, request.forms,
                                        64, 64, 32, 4, 4});
    expect_grid(&choice.product, 2, 4, 1);
    assert_int_equal(choice.x_form, VULKAN_FORM_F32);
    assert_int_equal(choice.x_rows, 100);
    assert_int_equal(choice.split_steps, 2);
    assert_int_equal(choice.partial_bytes, 0);
    assert_int_equal(choice.counter_count, 0);
}

static void lanes_of_a_processor_have_two_outputs_each(void **state)
{
    (void)state;
    struct vulkan_facts facts = device(VULKAN_SCALAR);
    facts.type = VK_PHYSICAL_DEVICE_TYPE_CPU;
    facts.subgroup_size = 8;
    struct vulkan_matrix_request request =
        request_of(VULKAN_WEIGHT_F32, 9, 130, 64, VULKAN_LINEAR_GATE_SILU);
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_string_equal(choice.product.shader, "linear_plain");
    expect_constants(&choice.product, 10,
                     (const uint32_t[]){32, VULKAN_WEIGHT_F32, VULKAN_LINEAR_GATE_SILU,
                                        request.forms, 8, 64, 32, 8, 2, 8});
    expect_grid(&choice.product, 2, 3, 1);
    assert_int_equal(choice.x_form, VULKAN_FORM_F32);
}

/* A counter and the sums of all splits for each tile. */
static void units_of_subgroups_and_fragments_add_up_their_splits(void **state)
{
    (void)state;
    struct vulkan_facts facts = device(VULKAN_KHR_MATRIX);
    struct vulkan_matrix_request request =
        request_of(VULKAN_WEIGHT_F16, 40, 4096, 4096, VULKAN_LINEAR_STORE);
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(&facts, &request, &choice); /* 64 tiles: 264 / 64 */
    assert_string_equal(choice.product.shader, "linear_matrix");
    expect_constants(&choice.product, VULKAN_LINEAR_MATRIX_CONSTANTS,
                     (const uint32_t[]){128, VULKAN_WEIGHT_F16, VULKAN_LINEAR_STORE, request.forms,
                                        64, 64, 128, 32, 32, 16, 8, 16, 1, 1});
    expect_grid(&choice.product, 1, 64, 4);
    assert_int_equal(choice.x_form, VULKAN_FORM_F16);
    assert_int_equal(choice.split_steps, 8);
    assert_int_equal(choice.counter_count, 64);
    assert_int_equal(choice.partial_bytes, 64 * 4 * 64 * 64 * 4);
    request.n = 128256;
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_int_equal(choice.product.constants.values[VULKAN_LINEAR_MATRIX_SPLIT], 0);

    request = request_of(VULKAN_WEIGHT_Q4_0, 40, 8192, 4096, VULKAN_LINEAR_GATE_GELU);
    vulkan_matrix_choose(&facts, &request, &choice); /* 64 tiles of 64 outputs */
    assert_string_equal(choice.product.shader, "linear_fragment");
    expect_constants(&choice.product, VULKAN_LINEAR_MATRIX_CONSTANTS,
                     (const uint32_t[]){128, VULKAN_WEIGHT_Q4_0, VULKAN_LINEAR_GATE_GELU,
                                        request.forms, 48, 128, 128, 48, 32, 1, 0, 0, 1, 1});
    expect_grid(&choice.product, 1, 64, 4);
    assert_int_equal(choice.counter_count, 64);
    assert_int_equal(choice.partial_bytes, 64 * 4 * 48 * 128 * 4);
    request.n = 128256;
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_int_equal(choice.product.constants.values[VULKAN_LINEAR_MATRIX_SPLIT], 0);
}

/* Splits have the same number of steps but the last; of 33 steps in 8 splits 5 each, which are 7. */
static void no_split_is_without_steps(void **state)
{
    (void)state;
    struct vulkan_facts facts = device(VULKAN_KHR_MATRIX);
    struct vulkan_matrix_request request =
        request_of(VULKAN_WEIGHT_F16, 40, 2048, 33 * 128, VULKAN_LINEAR_STORE);
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_int_equal(choice.split_steps, 5);
    assert_int_equal(choice.splits, 7);
    assert_int_equal(choice.tiling.splits, 7);
    expect_grid(&choice.product, 1, 32, 7);
}

/* Kernels for whole tiles only, where rows, columns and outputs end with one. */
static void whole_tiles_have_kernels_of_their_own(void **state)
{
    (void)state;
    static const struct {
        uint32_t rows, n, k;
        bool unaligned, whole;
    } cases[] = {{256, 16896, 4096, false, true},
                 {257, 16896, 4096, false, false},
                 {256, 16898, 4096, false, false},
                 {256, 16896, 4096 + 32, false, false},
                 {256, 16896, 4096, true, false}};
    struct vulkan_facts facts = device(VULKAN_NV_MATRIX2);
    for (uint32_t i = 0; i < 10; i++) {
        bool packed = i >= 5;
        struct vulkan_matrix_request request =
            request_of(VULKAN_WEIGHT_Q4_0, cases[i % 5].rows, cases[i % 5].n, cases[i % 5].k,
                       VULKAN_LINEAR_ADD);
        request.unaligned = cases[i % 5].unaligned;
        request.scratch_bytes = packed ? 0 : 1u << 30;
        struct vulkan_matrix_choice choice;
        vulkan_matrix_choose(&facts, &request, &choice);
        char name[64];
        snprintf(name, sizeof name, "linear_matrix2_%s%s", packed ? "packed" : "f16",
                 cases[i % 5].whole ? "_whole" : "");
        assert_string_equal(choice.product.shader, name);
        expect_constants(&choice.product, VULKAN_LINEAR_MATRIX_TILE_K + 1,
                         (const uint32_t[]){choice.tiling.invocations, VULKAN_WEIGHT_Q4_0,
                                            VULKAN_LINEAR_ADD, request.forms, choice.tiling.rows,
                                            choice.tiling.columns, 64});
        assert_int_equal(choice.x_rows,
                         packed ? request.rows : choice.product.grid.x * choice.tiling.rows);
        assert_int_equal(choice.unpacked_bytes > 0, !packed);
    }
}

/* Gated: tiles of gates and as many of the others. */
static void whole_gated_tiles_are_those_of_half_the_rows(void **state)
{
    (void)state;
    struct vulkan_facts facts = device(VULKAN_NV_MATRIX2);
    struct vulkan_matrix_request request =
        request_of(VULKAN_WEIGHT_Q4_0, 256, 2 * 16896, 4096, VULKAN_LINEAR_GATE_SILU);
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_string_equal(choice.product.shader, "linear_matrix2_packed_whole");
    request.n = 2 * (16896 + 96); /* a multiple of the tile's columns in all, not in each half */
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_string_equal(choice.product.shader, "linear_matrix2_packed");
}

/* 256 invocations with eight weights each, in rows of at most 32,768 workgroups. */
static void decoding_has_a_grid_of_two_dimensions(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, k, x, y;
    } cases[] = {{16384, 4096, 32768, 1},
                 {16640, 4096, 32768, 2},
                 {256, 64, 8, 1},
                 {130, 32, 3, 1},
                 {32767, 2048, 32767, 1}};
    struct vulkan_facts facts = device(VULKAN_NV_MATRIX2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vulkan_matrix_request request =
            request_of(VULKAN_WEIGHT_Q4_0, 256, cases[i].n, cases[i].k, VULKAN_LINEAR_STORE);
        request.scratch_bytes = 1u << 30;
        struct vulkan_matrix_choice choice;
        vulkan_matrix_choose(&facts, &request, &choice);
        assert_string_equal(choice.unpack.shader, "matrix_unpack");
        expect_constants(&choice.unpack, 2, (const uint32_t[]){256, VULKAN_WEIGHT_Q4_0});
        expect_grid(&choice.unpack, cases[i].x, cases[i].y, 1);
    }
}

/* F16 matrices that end with a tile are read where they lie. */
static void f16_matrices_of_whole_tiles_are_not_copied(void **state)
{
    (void)state;
    struct vulkan_facts facts = device(VULKAN_NV_MATRIX2);
    struct vulkan_matrix_request request =
        request_of(VULKAN_WEIGHT_F16, 256, 16896, 4096, VULKAN_LINEAR_STORE);
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_int_equal(choice.tiling.path, VULKAN_MATRIX_NV2_UNPACKED);
    assert_int_equal(choice.unpacked_bytes, 0);
    assert_null(choice.unpack.shader);
    request.n -= 2; /* no scratch memory: no such path */
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_int_equal(choice.tiling.path, VULKAN_MATRIX_KHR);
}

/* --- kernels in PTX ------------------------------------------------------------------------------ */

static const struct {
    enum vulkan_weight_kind kind;
    const char *name;
} ptx_kinds[] = {
    {VULKAN_WEIGHT_Q4_0, "q4_0"},   {VULKAN_WEIGHT_Q4_1, "q4_1"},
    {VULKAN_WEIGHT_Q4_K, "q4_1"},   {VULKAN_WEIGHT_Q5_0, "q5_0"},
    {VULKAN_WEIGHT_Q5_1, "q5_1"},   {VULKAN_WEIGHT_Q5_K, "q5_1"},
    {VULKAN_WEIGHT_Q6_K, "q6_k"},   {VULKAN_WEIGHT_Q8_0, "q8_0"},
    {VULKAN_WEIGHT_A8, "a8"},       {VULKAN_WEIGHT_IQ4_NL, "iq4_nl"},
    {VULKAN_WEIGHT_MXFP4, "e2m1"},  {VULKAN_WEIGHT_F8_128, "f8_128"},
    {VULKAN_WEIGHT_F8_32, "f8_32"}, {VULKAN_WEIGHT_F32, "f32"},
    {VULKAN_WEIGHT_F16, "f16"},     {VULKAN_WEIGHT_BF16, "bf16"},
    {VULKAN_WEIGHT_A4_64, "a4_64"}, {VULKAN_WEIGHT_A4_128, "a4_128"},
    {VULKAN_WEIGHT_A6_64, "a6_64"}, {VULKAN_WEIGHT_A8_64, "a8_64"},
    {VULKAN_WEIGHT_Z4_64, "z4_64"}, {VULKAN_WEIGHT_Z4_128, "z4_128"},
};

/* Stages of x, of 4 or 8 KiB with 16 bytes for a barrier and a count. The sums of two quads of rows a
 * workgroup. */
static void ptx_kernels_are_named_by_kind_and_rows(void **state)
{
    (void)state;
    static const uint32_t shared_bytes[] = {41120, 41040, 41120, 41040};
    struct vulkan_facts facts = device(VULKAN_PTX);
    facts.batch_invariant = true; /* any number of rows */
    for (size_t i = 0; i < sizeof ptx_kinds / sizeof *ptx_kinds; i++) {
        for (uint32_t size = 0; size < 4; size++) {
            uint32_t rows = 16u << size;
            struct vulkan_matrix_request request =
                request_of(ptx_kinds[i].kind, rows, 300, 8192, VULKAN_LINEAR_ADD);
            request.staged = true;
            struct vulkan_matrix_choice choice;
            vulkan_matrix_choose(&facts, &request, &choice);
            bool floats = vulkan_ptx_layout(ptx_kinds[i].kind) >= VULKAN_PTX_F32;
            rows = floats && rows < 64 ? 64 : rows;
            uint32_t wide = floats && size < 2 ? 2 : size;
            char name[64], sum[64];
            snprintf(name, sizeof name, "linear_wgmma_%s_%u", ptx_kinds[i].name, rows);
            snprintf(sum, sizeof sum, "linear_wgmma_sum_%u", rows);
            assert_string_equal(choice.product.shader, name);
            expect_constants(&choice.product, 2, (const uint32_t[]){512, shared_bytes[wide]});
            assert_true(choice.splits > 1);
            expect_grid(&choice.product, 1, 2, choice.splits);
            assert_string_equal(choice.sum.shader, sum);
            expect_constants(&choice.sum, 2, (const uint32_t[]){512, 0});
            expect_grid(&choice.sum, 1, 2, rows / 16);
            assert_int_equal(choice.x_form, VULKAN_FORM_STAGED);
            assert_int_equal(choice.counter_count, 0);
            assert_int_equal(choice.partial_bytes, 2ull * choice.splits * rows * 256 * 4);
        }
    }
    assert_int_equal(vulkan_ptx_layout(VULKAN_WEIGHT_Q2_K), VULKAN_PTX_NONE);
}

/* One split has no second kernel. */
static void ptx_sums_only_what_is_split(void **state)
{
    (void)state;
    struct vulkan_facts facts = device(VULKAN_PTX);
    struct vulkan_matrix_request request =
        request_of(VULKAN_WEIGHT_Q4_0, 128, 128256, 4096, VULKAN_LINEAR_STORE);
    request.staged = true;
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_int_equal(choice.splits, 1);
    assert_null(choice.sum.shader);
    assert_int_equal(choice.partial_bytes, 0);
    expect_grid(&choice.product, 1, 501, 1);
    request = request_of(VULKAN_WEIGHT_Q4_0, 512, 4096, 4096, VULKAN_LINEAR_ADD);
    request.staged = true;
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_int_equal(choice.splits, 2);
    assert_string_equal(choice.sum.shader, "linear_wgmma_sum_128");
    expect_grid(&choice.sum, 4, 16, 8);
}

/* --- rows of experts, and push constants --------------------------------------------------------- */

static void gathered_rows_have_tiles_without_splits(void **state)
{
    (void)state;
    struct vulkan_facts facts = device(VULKAN_KHR_MATRIX);
    for (uint32_t invariant = 0; invariant < 2; invariant++) {
        facts.batch_invariant = invariant;
        struct vulkan_matrix_request request =
            request_of(VULKAN_WEIGHT_Q4_0, 16, 256, 4096, VULKAN_LINEAR_STORE);
        struct vulkan_matrix_dispatch product;
        struct vulkan_matrix_tiling tiling = vulkan_matrix_gathered(&facts, &request, &product);
        uint32_t rows = invariant ? 64 : 16;
        assert_int_equal(tiling.path, VULKAN_MATRIX_KHR);
        assert_int_equal(tiling.rows, rows);
        assert_int_equal(tiling.splits, 1);
        expect_constants(&product, VULKAN_LINEAR_MATRIX_STAGES + 1,
                         (const uint32_t[]){invariant ? 128 : 64, VULKAN_WEIGHT_Q4_0,
                                            VULKAN_LINEAR_STORE, request.forms, rows, 64, 128,
                                            invariant ? 32 : 16, 32, 16, 8, 16, 1});
        expect_grid(&product, 1, 4, 1);
    }
}

static void push_constants_hold_the_shape(void **state)
{
    (void)state;
    struct vulkan_matrix_request request =
        request_of(VULKAN_WEIGHT_Q4_0, 40, 4096, 2048, VULKAN_LINEAR_ADD);
    const struct vulkan_matrix_choice choice = {.splits = 3, .split_steps = 6};
    struct vulkan_linear_matrix_push push = {0};
    vulkan_matrix_push_fill(&request, &choice, &push);
    assert_int_equal(push.rows, 40);
    assert_int_equal(push.n, 4096);
    assert_int_equal(push.k, 2048);
    assert_int_equal(push.out_stride, 4096);
    assert_int_equal(push.splits, 3);
    assert_int_equal(push.split_steps, 6);
    static const enum vulkan_linear_epilogue gates[] = {VULKAN_LINEAR_GATE_SILU,
                                                        VULKAN_LINEAR_GATE_GELU};
    for (size_t i = 0; i < 2; i++) {
        request.epilogue = gates[i];
        vulkan_matrix_push_fill(&request, &choice, &push);
        assert_int_equal(push.out_stride, 2048);
    }
    struct vulkan_linear_ptx_push ptx = vulkan_matrix_ptx_push(&request, &push, 77);
    assert_int_equal(ptx.matrix.rows, 40);
    assert_int_equal(ptx.epilogue, VULKAN_LINEAR_GATE_GELU);
    assert_int_equal(ptx.forms, request.forms);
    assert_int_equal(ptx.biases, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tile_has_an_invocation_for_each_part),
        cmocka_unit_test(lanes_of_a_processor_have_two_outputs_each),
        cmocka_unit_test(units_of_subgroups_and_fragments_add_up_their_splits),
        cmocka_unit_test(no_split_is_without_steps),
        cmocka_unit_test(whole_tiles_have_kernels_of_their_own),
        cmocka_unit_test(whole_gated_tiles_are_those_of_half_the_rows),
        cmocka_unit_test(decoding_has_a_grid_of_two_dimensions),
        cmocka_unit_test(f16_matrices_of_whole_tiles_are_not_copied),
        cmocka_unit_test(ptx_kernels_are_named_by_kind_and_rows),
        cmocka_unit_test(ptx_sums_only_what_is_split),
        cmocka_unit_test(gathered_rows_have_tiles_without_splits),
        cmocka_unit_test(push_constants_hold_the_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
