/*
 * Tiles of products of many rows by the number of rows and the device's shared memory, at the
 * limits of each choice.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/backend/vulkan/device/vulkan_facts.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

static const struct vulkan_facts device = {.tier = VULKAN_KHR_MATRIX,
                                           .matrix_khr = true,
                                           .matrix_shape_count = 1,
                                           .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 16, 16}},
                                           .subgroup_size = 32,
                                           .max_invocations = 1024,
                                           .shared_bytes = 65536,
                                           .compute_units = 132};

static void expect_tile(const struct vulkan_facts *facts, enum vulkan_weight_kind kind,
                        uint32_t request_rows, enum vulkan_matrix_path path, uint32_t rows,
                        uint32_t columns, uint32_t k, uint32_t part_rows)
{
    const struct vulkan_matrix_request request = {.kind = kind,
                                                  .rows = request_rows,
                                                  .n = 16384,
                                                  .k = 16384,
                                                  .epilogue = VULKAN_LINEAR_STORE,
                                                  .forms = VULKAN_FORM_F32};
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(facts, &request, &choice);
    assert_int_equal(choice.tiling.path, path);
    assert_int_equal(choice.tiling.rows, rows);
    assert_int_equal(choice.tiling.columns, columns);
    assert_int_equal(choice.tiling.k, k);
    assert_int_equal(choice.tiling.part_rows, part_rows);
    assert_int_equal(choice.tiling.stages, path == VULKAN_MATRIX_KHR ? 1 : 0);
    assert_int_equal(choice.product.grid.x, (request_rows + rows - 1) / rows);
}

static void tiles_in_matrix_units_grow_with_the_rows(void **state)
{
    (void)state;
    const enum vulkan_weight_kind kind = VULKAN_WEIGHT_Q4_0;
    expect_tile(&device, kind, 16, VULKAN_MATRIX_KHR, 16, 64, 128, 16);
    expect_tile(&device, kind, 17, VULKAN_MATRIX_KHR, 32, 64, 128, 32);
    expect_tile(&device, kind, 32, VULKAN_MATRIX_KHR, 32, 64, 128, 32);
    expect_tile(&device, kind, 33, VULKAN_MATRIX_KHR, 64, 64, 128, 32);
    expect_tile(&device, kind, 64, VULKAN_MATRIX_KHR, 64, 64, 128, 32);
    expect_tile(&device, kind, 65, VULKAN_MATRIX_KHR, 128, 64, 64, 32);
}

/* Rows of both tiles with 8 padding columns in f16, and 64 bytes. */
static void small_devices_take_fewer_columns_at_a_time(void **state)
{
    (void)state;
    const enum vulkan_weight_kind kind = VULKAN_WEIGHT_Q4_0;
    struct vulkan_facts facts = device;
    facts.shared_bytes = (32 + 64) * 136 * 2 + 64;
    expect_tile(&facts, kind, 32, VULKAN_MATRIX_KHR, 32, 64, 128, 32);
    facts.shared_bytes--;
    expect_tile(&facts, kind, 32, VULKAN_MATRIX_KHR, 32, 64, 64, 32);
    facts.shared_bytes = (64 + 64) * 136 * 2 + 64;
    expect_tile(&facts, kind, 64, VULKAN_MATRIX_KHR, 64, 64, 128, 32);
    facts.shared_bytes--;
    expect_tile(&facts, kind, 64, VULKAN_MATRIX_KHR, 64, 64, 64, 32);
    facts.shared_bytes = (64 + 64) * 72 * 2 + 64;
    expect_tile(&facts, kind, 64, VULKAN_MATRIX_KHR, 64, 64, 64, 32);
    facts.shared_bytes--;
    expect_tile(&facts, kind, 64, VULKAN_MATRIX_KHR, 64, 64, 32, 32);
}

/* Four sizes for codes where registers of the units are known and there are 32 KiB. */
static void fragments_have_four_sizes(void **state)
{
    (void)state;
    static const uint32_t rows[] = {16, 17, 32, 33, 48, 49, 64};
    static const uint32_t expected[] = {16, 32, 32, 48, 48, 64, 64};
    struct vulkan_facts facts = device;
    facts.matrix_registers = true;
    facts.shared_bytes = 32768;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_tile(&facts, VULKAN_WEIGHT_Q4_0, rows[i], VULKAN_MATRIX_FRAGMENT, expected[i], 128,
                    128, expected[i]);
    facts.shared_bytes--;
    expect_tile(&facts, VULKAN_WEIGHT_Q4_0, 16, VULKAN_MATRIX_KHR, 16, 64, 128, 16);
    expect_tile(&device, VULKAN_WEIGHT_F16, 16, VULKAN_MATRIX_KHR, 16, 64, 128, 16);
}

static void tiles_without_units_fit_every_device(void **state)
{
    (void)state;
    struct vulkan_facts facts = device;
    facts.tier = VULKAN_DOT;
    facts.shared_bytes = 32768;
    facts.max_invocations = 256;
    expect_tile(&facts, VULKAN_WEIGHT_Q4_0, 16, VULKAN_MATRIX_TILE, 16, 64, 32, 2);
    expect_tile(&facts, VULKAN_WEIGHT_Q4_0, 17, VULKAN_MATRIX_TILE, 32, 64, 32, 4);
    expect_tile(&facts, VULKAN_WEIGHT_Q4_0, 32, VULKAN_MATRIX_TILE, 32, 64, 32, 4);
    expect_tile(&facts, VULKAN_WEIGHT_Q4_0, 33, VULKAN_MATRIX_TILE, 64, 64, 32, 4);
    facts.shared_bytes--;
    expect_tile(&facts, VULKAN_WEIGHT_Q4_0, 33, VULKAN_MATRIX_TILE, 32, 64, 32, 4);
    facts.shared_bytes++;
    facts.max_invocations--;
    expect_tile(&facts, VULKAN_WEIGHT_Q4_0, 33, VULKAN_MATRIX_TILE, 32, 64, 32, 4);
}

/* Tiles of 32 columns for products of up to seven steps of k, if all tiles run at once: two a
 * compute unit. */
static void small_products_take_small_tiles(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {
        {264 * 32, 7 * 128, 32}, {264 * 32 + 1, 7 * 128, 64}, {264 * 32, 7 * 128 + 32, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct vulkan_matrix_request request = {.kind = VULKAN_WEIGHT_Q4_0,
                                                      .rows = 16,
                                                      .n = shapes[i][0],
                                                      .k = shapes[i][1],
                                                      .epilogue = VULKAN_LINEAR_STORE,
                                                      .forms = VULKAN_FORM_F32};
        struct vulkan_matrix_choice choice;
        vulkan_matrix_choose(&device, &request, &choice);
        assert_int_equal(choice.tiling.path, VULKAN_MATRIX_KHR);
        assert_int_equal(choice.tiling.columns, shapes[i][2]);
    }
}

static void expect_workgroup_tile(uint32_t rows, uint32_t n, uint32_t tile_rows,
                                  uint32_t tile_columns, uint32_t invocations)
{
    struct vulkan_facts facts = device;
    facts.tier = VULKAN_NV_MATRIX2;
    const struct vulkan_matrix_request request = {.kind = VULKAN_WEIGHT_Q4_0,
                                                  .rows = rows,
                                                  .n = n,
                                                  .k = 4096,
                                                  .epilogue = VULKAN_LINEAR_STORE,
                                                  .forms = VULKAN_FORM_F32,
                                                  .scratch_bytes = 1u << 30};
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(&facts, &request, &choice);
    assert_int_equal(choice.tiling.path, VULKAN_MATRIX_NV2_UNPACKED);
    assert_int_equal(choice.tiling.rows, tile_rows);
    assert_int_equal(choice.tiling.columns, tile_columns);
    assert_int_equal(choice.product.constants.values[0], invocations);
    assert_string_equal(choice.unpack.shader, "matrix_unpack");
    assert_int_equal(choice.unpack.constants.count, 2);
    assert_int_equal(choice.unpack.constants.values[0], 256);
    assert_int_equal(choice.unpack.constants.values[1], VULKAN_WEIGHT_Q4_0);
}

/* The tiles that 132 units finish first; of equal times that of the larger tile. */
static void workgroups_tiles_take_the_least_time(void **state)
{
    (void)state;
    expect_workgroup_tile(256, 132 * 128, 128, 256, 256); /* one round of 132 */
    expect_workgroup_tile(256, 66 * 128, 128, 128, 256);  /* one round; of 64 rows two */
    expect_workgroup_tile(192, 44 * 128, 64, 128, 128);   /* one round; of 64 x 64 two */
    expect_workgroup_tile(192, 22 * 128, 64, 64, 128);    /* one round of 132 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_in_matrix_units_grow_with_the_rows),
        cmocka_unit_test(small_devices_take_fewer_columns_at_a_time),
        cmocka_unit_test(fragments_have_four_sizes),
        cmocka_unit_test(tiles_without_units_fit_every_device),
        cmocka_unit_test(small_products_take_small_tiles),
        cmocka_unit_test(workgroups_tiles_take_the_least_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
