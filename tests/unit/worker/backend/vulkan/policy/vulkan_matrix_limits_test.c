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

#include "tests/support/vulkan_matrix_device.h"
#include "worker/backend/vulkan/device/vulkan_facts.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

static const struct vulkan_facts device = MATRIX_DEVICE_FACTS;

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

/* --- kernels in PTX ---------------------------------------------------------------------------- */

struct ptx_case {
    enum vulkan_weight_kind kind;
    uint32_t rows, n, k;
    enum vulkan_linear_epilogue epilogue;
};

static struct vulkan_facts ptx_device(bool invariant)
{
    struct vulkan_facts facts = device;
    facts.tier = VULKAN_PTX;
    facts.matrix_registers = true;
    facts.batch_invariant = invariant;
    return facts;
}

static struct vulkan_matrix_choice ptx_choice(const struct vulkan_facts *facts,
                                              const struct ptx_case *c)
{
    const struct vulkan_matrix_request request = {.kind = c->kind,
                                                  .rows = c->rows,
                                                  .n = c->n,
                                                  .k = c->k,
                                                  .epilogue = c->epilogue,
                                                  .forms = VULKAN_FORM_F32,
                                                  .staged = true};
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choose(facts, &request, &choice);
    return choice;
}

/* The path, with `tile` rows and `splits` if that is PTX; 0: another one. */
static void expect_ptx(bool invariant, struct ptx_case c, uint32_t tile, uint32_t splits)
{
    const struct vulkan_facts facts = ptx_device(invariant);
    struct vulkan_matrix_choice choice = ptx_choice(&facts, &c);
    assert_int_equal(choice.tiling.path == VULKAN_MATRIX_PTX, tile > 0);
    assert_int_equal(vulkan_matrix_suits_ptx(&facts, c.kind, c.rows, c.k), tile > 0);
    if (tile == 0)
        return;
    assert_int_equal(choice.tiling.rows, tile);
    assert_int_equal(choice.tiling.columns, 256);
    assert_int_equal(choice.tiling.k, 128);
    assert_int_equal(choice.x_form, VULKAN_FORM_STAGED);
    assert_int_equal(choice.splits, splits);
    assert_int_equal(choice.product.constants.values[0], 512);
}

static void ptx_takes_packed_weights_of_25_rows_and_floats_of_33(void **state)
{
    (void)state;
    static const struct {
        enum vulkan_weight_kind kind;
        uint32_t rows, tile;
    } cases[] = {
        {VULKAN_WEIGHT_Q4_0, 24, 0},   {VULKAN_WEIGHT_Q4_0, 25, 32}, {VULKAN_WEIGHT_Q4_0, 32, 32},
        {VULKAN_WEIGHT_Q4_0, 33, 64},  {VULKAN_WEIGHT_Q4_0, 64, 64}, {VULKAN_WEIGHT_Q4_0, 65, 128},
        {VULKAN_WEIGHT_F8_32, 25, 32}, {VULKAN_WEIGHT_F16, 32, 0},   {VULKAN_WEIGHT_F16, 33, 64},
        {VULKAN_WEIGHT_BF16, 65, 128}, {VULKAN_WEIGHT_Q2_K, 64, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_ptx(false, (struct ptx_case){cases[i].kind, cases[i].rows, 28672, 4096, 0},
                   cases[i].tile, 1);
    expect_ptx(false, (struct ptx_case){VULKAN_WEIGHT_Q4_0, 64, 28672, 4096 + 64, 0}, 0, 0);
    expect_ptx(true, (struct ptx_case){VULKAN_WEIGHT_Q4_0, 1, 28672, 4096, 0}, 16, 1);
    expect_ptx(true, (struct ptx_case){VULKAN_WEIGHT_Q4_0, 17, 28672, 4096, 0}, 32, 1);
    expect_ptx(true, (struct ptx_case){VULKAN_WEIGHT_F16, 1, 28672, 4096, 0}, 64, 1);
}

/* The 8B shape on 132 units: the splits that were fastest on an H200. */
static void ptx_splits_columns_for_all_units(void **state)
{
    (void)state;
    static const uint32_t rows[] = {32, 64, 128, 256, 512, 2048};
    static const struct {
        uint32_t n, k;
        enum vulkan_linear_epilogue epilogue;
        uint32_t splits[6];
    } cases[] = {{6144, 4096, VULKAN_LINEAR_STORE, {5, 5, 4, 2, 1, 1}},
                 {4096, 4096, VULKAN_LINEAR_ADD, {8, 8, 8, 4, 2, 1}},
                 {28672, 4096, VULKAN_LINEAR_GATE_SILU, {1, 1, 1, 1, 1, 1}},
                 {4096, 14336, VULKAN_LINEAR_ADD, {8, 8, 8, 4, 2, 1}}};
    static const uint32_t tiles[] = {32, 64, 128, 128, 128, 128};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t r = 0; r < 6; r++)
            expect_ptx(false,
                       (struct ptx_case){VULKAN_WEIGHT_Q4_0, rows[r], cases[i].n, cases[i].k,
                                         cases[i].epilogue},
                       tiles[r], cases[i].splits[r]);
}

/* Few columns have few splits: each has at least one step. */
static void ptx_splits_are_at_most_the_steps(void **state)
{
    (void)state;
    const struct vulkan_facts facts = ptx_device(false);
    for (uint32_t steps = 1; steps <= 40; steps++) {
        const struct ptx_case c = {VULKAN_WEIGHT_Q4_0, 64, 256, 128 * steps, VULKAN_LINEAR_STORE};
        struct vulkan_matrix_choice choice = ptx_choice(&facts, &c);
        assert_true(choice.splits <= steps && choice.splits <= 16);
        assert_true(choice.splits * choice.split_steps >= steps);
        assert_true((choice.splits - 1) * choice.split_steps < steps);
    }
}

/* A group for each split and a second kernel for their sums, or (folded) one group for all splits. */
static void ptx_splits_are_added_up_once(void **state)
{
    (void)state;
    const struct vulkan_facts facts = ptx_device(true);
    struct ptx_case c = {VULKAN_WEIGHT_Q4_0, 200, 6144, 4096, VULKAN_LINEAR_STORE};
    struct vulkan_matrix_choice few = ptx_choice(&facts, &c);
    c.rows = 2048;
    struct vulkan_matrix_choice many = ptx_choice(&facts, &c);
    assert_int_equal(few.splits, 5);
    assert_false(few.tiling.folded);
    assert_int_equal(few.product.grid.z, 5);
    assert_string_equal(few.product.shader, "linear_wgmma_q4_0_128");
    assert_int_equal(few.product.constants.values[1], 5 * (8192 + 16));
    assert_string_equal(few.sum.shader, "linear_wgmma_sum_128");
    assert_int_equal(few.sum.grid.z, 8);
    assert_int_equal(few.partial_bytes, 2ull * 24 * 5 * 128 * 256 * 4);
    assert_int_equal(few.counter_count, 0);
    assert_int_equal(many.splits, 5);
    assert_true(many.tiling.folded);
    assert_int_equal(many.product.grid.z, 1);
    assert_null(many.sum.shader);
    assert_int_equal(many.partial_bytes, 0);
    c.rows = 10;
    struct vulkan_matrix_choice ten = ptx_choice(&facts, &c);
    assert_string_equal(ten.product.shader, "linear_wgmma_q4_0_16");
    assert_int_equal(ten.product.constants.values[1], 10 * (4096 + 16));
    assert_int_equal(ten.sum.grid.z, 1);
    c.kind = VULKAN_WEIGHT_F16;
    c.rows = 2048;
    many = ptx_choice(&facts, &c);
    assert_int_equal(many.splits, 4); /* memory for partial sums is bounded */
    assert_false(many.tiling.folded);
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
        cmocka_unit_test(ptx_takes_packed_weights_of_25_rows_and_floats_of_33),
        cmocka_unit_test(ptx_splits_columns_for_all_units),
        cmocka_unit_test(ptx_splits_are_at_most_the_steps),
        cmocka_unit_test(ptx_splits_are_added_up_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
