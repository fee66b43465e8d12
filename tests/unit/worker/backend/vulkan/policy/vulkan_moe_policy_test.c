/*
 * Products of experts: which kernel takes how many pairs, and how each kernel is cut for the
 * device.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "worker/backend/vulkan/device/vulkan_facts.h"
#include "worker/backend/vulkan/policy/vulkan_moe_policy.h"

static const struct vulkan_facts plain = {
    .subgroup_size = 32, .max_invocations = 1024, .shared_bytes = 49152};
static const struct vulkan_facts matrix = {.tier = VULKAN_KHR_MATRIX,
                                           .matrix_shape_count = 1,
                                           .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 16, 16}},
                                           .subgroup_size = 32,
                                           .max_invocations = 1024,
                                           .shared_bytes = 49152};

static struct vulkan_facts with_registers(void)
{
    struct vulkan_facts facts = matrix;
    facts.matrix_registers = true;
    return facts;
}

/* 16 experts, of which a row chooses 4: `rows` / 4 pairs an expert. */
static struct vulkan_moe_request request_of(uint32_t rows)
{
    return (struct vulkan_moe_request){.kind = VULKAN_WEIGHT_Q4_0,
                                       .rows = rows,
                                       .chosen = 4,
                                       .experts = 16,
                                       .n = 768,
                                       .k = 2048,
                                       .output = VULKAN_FORM_F32};
}

static struct vulkan_moe_choice choose(const struct vulkan_facts *facts,
                                       struct vulkan_moe_request request)
{
    struct vulkan_moe_choice choice;
    memset(&choice, 0xff, sizeof choice);
    vulkan_moe_choose(facts, &request, &choice);
    return choice;
}

static enum vulkan_moe_kernel kernel_of(const struct vulkan_facts *facts,
                                        struct vulkan_moe_request request)
{
    return choose(facts, request).kernel;
}

/* dot: up to 8 rows, or 8 pairs an expert, or 4 of them where there are matrix units. */
static void pairs_of_an_expert_decide_the_kernel(void **state)
{
    (void)state;
    assert_int_equal(kernel_of(&plain, request_of(1)), VULKAN_MOE_DOT);
    assert_int_equal(kernel_of(&plain, request_of(32)), VULKAN_MOE_DOT);
    assert_int_equal(kernel_of(&plain, request_of(33)), VULKAN_MOE_PLAIN);
    assert_int_equal(kernel_of(&matrix, request_of(16)), VULKAN_MOE_DOT);
    assert_int_equal(kernel_of(&matrix, request_of(17)), VULKAN_MOE_MATRIX);
    const struct vulkan_facts registers = with_registers();
    assert_int_equal(kernel_of(&registers, request_of(8)), VULKAN_MOE_DOT);
    assert_int_equal(kernel_of(&registers, request_of(9)), VULKAN_MOE_REGISTER);
    assert_int_equal(kernel_of(&registers, request_of(384)), VULKAN_MOE_REGISTER);
    assert_int_equal(kernel_of(&registers, request_of(385)), VULKAN_MOE_MATRIX);
}

/* Beyond some pairs an expert, where the kernels in PTX have the kind and the width. */
static void ptx_takes_many_pairs(void **state)
{
    struct vulkan_facts ptx = with_registers();
    struct vulkan_moe_request request = request_of(400);
    (void)state;
    ptx.tier = VULKAN_PTX;
    assert_int_equal(kernel_of(&ptx, request_of(8)), VULKAN_MOE_DOT);
    assert_int_equal(kernel_of(&ptx, request_of(40)), VULKAN_MOE_REGISTER);
    assert_int_equal(kernel_of(&ptx, request_of(41)), VULKAN_MOE_PTX);
    struct vulkan_moe_choice stored = choose(&ptx, request);
    assert_int_equal(stored.kernel, VULKAN_MOE_PTX);
    assert_string_equal(stored.shader, "moe_wgmma_q4_0");
    assert_int_equal(stored.across, 768 / 256);
    assert_int_equal(stored.constants.count, 2);
    assert_int_equal(stored.constants.values[0], 512);
    assert_int_equal(stored.constants.values[1], 5 * (128 * 64 + 16));
    request.n = 17 * 256;
    assert_int_equal(choose(&ptx, request).across, 17);
    request.n = 9 * 128;
    request.gated = true;
    request.kind = VULKAN_WEIGHT_Q6_K;
    struct vulkan_moe_choice gated = choose(&ptx, request);
    assert_string_equal(gated.shader, "moe_wgmma_q6_k");
    assert_int_equal(gated.tile_rows, 128);
    assert_int_equal(gated.across, 9);
    request.n = 768;
    assert_int_equal(choose(&ptx, request).across, 768 / 128);
    request.kind = VULKAN_WEIGHT_Q2_K;
    assert_int_equal(kernel_of(&ptx, request), VULKAN_MOE_MATRIX);
    request = request_of(400);
    request.k = 2048 + 64;
    assert_int_equal(kernel_of(&ptx, request), VULKAN_MOE_MATRIX);
    ptx.batch_invariant = true;
    assert_int_equal(kernel_of(&ptx, request_of(400)), VULKAN_MOE_MATRIX);
}

/* Whole multiples of eight for each expert that has pairs, and a whole tile after the last. */
static void gathered_rows_have_room_for_every_division(void **state)
{
    (void)state;
    assert_int_equal(vulkan_moe_gathered_rows(1, 128), 8 + 128);
    assert_int_equal(vulkan_moe_gathered_rows(16, 2), 24 + 128); /* 9 and 7 take 24, 15 and 1 too */
    for (uint32_t pairs = 1; pairs < 100; pairs++) {
        uint32_t most = 0; /* one pair for all experts but one */
        for (uint32_t used = 1; used <= 10 && used <= pairs; used++) {
            uint32_t rest = pairs - (used - 1);
            uint32_t places = 8 * (used - 1) + (rest + 7) / 8 * 8;
            most = places > most ? places : most;
        }
        assert_in_range(vulkan_moe_gathered_rows(pairs, 10), most + 128, pairs + 70 + 128);
    }
}

static void kernels_take_only_shapes_that_they_support(void **state)
{
    (void)state;
    struct vulkan_facts facts = plain;
    facts.subgroup_size = 4; /* a team has eight lanes */
    assert_int_equal(kernel_of(&facts, request_of(1)), VULKAN_MOE_PLAIN);
    facts.subgroup_size = 8;
    assert_int_equal(kernel_of(&facts, request_of(1)), VULKAN_MOE_DOT);
    facts = with_registers();
    facts.subgroup_size = 64; /* registers are known for 32 lanes */
    assert_int_equal(kernel_of(&facts, request_of(40)), VULKAN_MOE_MATRIX);
    facts = with_registers();
    struct vulkan_moe_request floats = request_of(40);
    floats.kind = VULKAN_WEIGHT_F16;
    assert_int_equal(kernel_of(&facts, floats), VULKAN_MOE_MATRIX);
    floats.k = 2047; /* not whole blocks of 32 columns */
    assert_int_equal(kernel_of(&facts, floats), VULKAN_MOE_PLAIN);
    floats.rows = 1;
    assert_int_equal(kernel_of(&facts, floats), VULKAN_MOE_DOT);
    struct vulkan_moe_request codes = request_of(1);
    codes.k = 2047;
    assert_int_equal(kernel_of(&facts, codes), VULKAN_MOE_PLAIN);
}

static void few_rows_are_summed_and_routed_by_the_product(void **state)
{
    (void)state;
    assert_true(vulkan_moe_combines(VULKAN_MOE_DOT, 8));
    assert_false(vulkan_moe_combines(VULKAN_MOE_DOT, 9));
    assert_false(vulkan_moe_combines(VULKAN_MOE_MATRIX, 8));
    assert_true(vulkan_moe_routes(VULKAN_MOE_DOT, 2, 256));
    assert_false(vulkan_moe_routes(VULKAN_MOE_DOT, 3, 256));
    assert_false(vulkan_moe_routes(VULKAN_MOE_DOT, 2, 257));
    assert_false(vulkan_moe_routes(VULKAN_MOE_REGISTER, 1, 16));
}

static void dot_reads_q8_or_floats(void **state)
{
    (void)state;
    struct vulkan_moe_request request = request_of(1);
    struct vulkan_moe_choice choice = choose(&plain, request);
    assert_string_equal(choice.shader, "moe_dot");
    assert_int_equal(choice.input, VULKAN_FORM_Q8);
    assert_int_equal(choice.constants.count, VULKAN_MOE_DOT_CONSTANTS);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_WEIGHT_KIND], VULKAN_WEIGHT_Q4_0);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_FORM], VULKAN_FORM_F32);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_HAS_DOT], 0);
    request.kind = VULKAN_WEIGHT_F32;
    struct vulkan_facts packed = plain;
    packed.integer_dot = true;
    choice = choose(&packed, request);
    assert_int_equal(choice.input, VULKAN_FORM_F32);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_HAS_DOT], 1);
}

/* Up to 8 rows a workgroup takes one row's pairs; more are sorted into tiles of up to 4. */
static void dot_sorts_pairs_of_more_than_eight_rows(void **state)
{
    (void)state;
    struct vulkan_facts cpu = plain;
    cpu.type = VK_PHYSICAL_DEVICE_TYPE_CPU;
    struct vulkan_moe_choice choice = choose(&plain, request_of(8));
    assert_int_equal(choice.mode, VULKAN_MOE_PAIRS);
    assert_int_equal(choice.tile_rows, 1);
    choice = choose(&plain, request_of(9));
    assert_int_equal(choice.mode, VULKAN_MOE_GROUPS);
    assert_int_equal(choice.tile_rows, 4);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_MODE], VULKAN_MOE_GROUPS);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_TILE_ROWS], 4);
    assert_int_equal(choose(&cpu, request_of(9)).tile_rows, 2);
    struct vulkan_moe_request summed = request_of(8);
    summed.combined = summed.add = true;
    choice = choose(&plain, summed);
    assert_int_equal(choice.mode, VULKAN_MOE_ROWS);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_ADD], 1);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_EXPERTS], 0);
}

/* A lane loads ahead the blocks that it has, at most 4 of one row, 2 of a tile, 1 on a CPU. */
static void dot_loads_as_deep_as_lanes_have_blocks(void **state)
{
    (void)state;
    static const struct {
        uint32_t k, depth, tile_depth;
    } rows[] = {{256, 1, 1}, {288, 2, 2}, {512, 2, 2}, {544, 3, 2}, {768, 3, 2}, {2048, 4, 2}};
    struct vulkan_facts cpu = plain;
    cpu.type = VK_PHYSICAL_DEVICE_TYPE_CPU;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct vulkan_moe_request request = request_of(1), tile = request_of(9);
        request.k = tile.k = rows[i].k;
        struct vulkan_moe_choice choice = choose(&plain, request);
        assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_LANES], 8);
        assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_DEPTH], rows[i].depth);
        choice = choose(&plain, tile);
        assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_DEPTH], rows[i].tile_depth);
        choice = choose(&cpu, request);
        assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_DEPTH], 1);
    }
    struct vulkan_moe_request floats = request_of(1);
    floats.kind = VULKAN_WEIGHT_F32; /* four columns a load; eight of 16 bits */
    floats.k = 64;
    assert_int_equal(choose(&plain, floats).constants.values[VULKAN_MOE_DOT_DEPTH], 2);
    floats.kind = VULKAN_WEIGHT_F16;
    assert_int_equal(choose(&plain, floats).constants.values[VULKAN_MOE_DOT_DEPTH], 1);
    floats.k = 65;
    assert_int_equal(choose(&plain, floats).constants.values[VULKAN_MOE_DOT_DEPTH], 2);
}

/* Ungated, a team of 8 of the 256 invocations has one column: 32 columns a workgroup. */
static void dot_workgroups_cover_all_columns(void **state)
{
    (void)state;
    static const uint32_t columns[] = {1, 32, 33, 64, 65, 768};
    static const uint32_t across[] = {1, 1, 2, 2, 3, 24};
    struct vulkan_moe_request request = request_of(1);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        request.n = columns[i];
        assert_int_equal(choose(&plain, request).across, across[i]);
    }
    struct vulkan_facts small = plain;
    small.max_invocations = 128;
    request.n = 65;
    struct vulkan_moe_choice choice = choose(&small, request);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_INVOCATIONS], 128);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_COLUMNS], 1);
    assert_int_equal(choice.across, 5);
    request.combined = true; /* a team is a subgroup: its list is a whole row's */
    choice = choose(&plain, request);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_LANES], 32);
    assert_int_equal(choice.across, 9);
    struct vulkan_facts wide = plain;
    wide.subgroup_size = 64; /* two teams */
    choice = choose(&wide, request);
    assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_LANES], 32);
    assert_int_equal(choice.across, 9);
    wide.subgroup_size = 16;
    assert_int_equal(choose(&wide, request).constants.values[VULKAN_MOE_DOT_LANES], 16);
}

/* Gated, a workgroup has a block of q8: 32 columns. One or two rows get teams of 16 lanes in
 * workgroups of 512 where the device has them. */
static void gated_workgroups_have_a_block_of_columns(void **state)
{
    (void)state;
    struct vulkan_facts limited = plain, enough = plain, narrow = plain;
    enough.max_invocations = 512;
    limited.max_invocations = 511;
    narrow.subgroup_size = 8;
    const struct {
        const struct vulkan_facts *facts;
        uint32_t rows, lanes, invocations;
    } cases[] = {{&plain, 1, 16, 512}, {&plain, 2, 16, 512},  {&plain, 3, 8, 256},
                 {&plain, 9, 8, 256},  {&limited, 1, 8, 256}, {&enough, 1, 16, 512},
                 {&narrow, 1, 8, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vulkan_moe_request request = request_of(cases[i].rows);
        request.gated = request.softmax_all = true;
        request.activation = 1;
        request.scale = 0.5f;
        request.n = 65;
        struct vulkan_moe_choice choice = choose(cases[i].facts, request);
        const uint32_t *values = choice.constants.values;
        uint32_t scale;
        memcpy(&scale, &request.scale, sizeof scale);
        assert_int_equal(values[VULKAN_MOE_DOT_LANES], cases[i].lanes);
        assert_int_equal(values[VULKAN_MOE_DOT_INVOCATIONS], cases[i].invocations);
        assert_int_equal(values[VULKAN_MOE_DOT_COLUMNS] * cases[i].invocations / cases[i].lanes,
                         32);
        assert_int_equal(choice.across, 3);
        assert_int_equal(values[VULKAN_MOE_DOT_GATED], 1);
        assert_int_equal(values[VULKAN_MOE_DOT_ACTIVATION], 1);
        assert_int_equal(values[VULKAN_MOE_DOT_SOFTMAX_ALL], 1);
        assert_int_equal(values[VULKAN_MOE_DOT_ROUTE_SCALE], scale);
        request.gated = false;
        choice = choose(cases[i].facts, request);
        assert_int_equal(choice.constants.values[VULKAN_MOE_DOT_ACTIVATION], 0);
    }
    struct vulkan_moe_request routed = request_of(2);
    routed.gated = routed.routes = true;
    assert_int_equal(choose(&plain, routed).constants.values[VULKAN_MOE_DOT_EXPERTS], 16);
}

/* Tiles of 8 rows up to 5 pairs an expert on average, rounded up; 16 up to 12; else 32. */
static void register_tiles_hold_the_pairs_of_an_expert(void **state)
{
    (void)state;
    static const uint32_t rows[] = {9, 20, 21, 48, 49, 384};
    static const uint32_t expected[] = {8, 8, 16, 16, 32, 32};
    const struct vulkan_facts facts = with_registers();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct vulkan_moe_choice choice = choose(&facts, request_of(rows[i]));
        assert_string_equal(choice.shader, "moe_register");
        assert_int_equal(choice.input, VULKAN_FORM_F16);
        assert_int_equal(choice.mode, VULKAN_MOE_GROUPS);
        assert_int_equal(choice.tile_rows, expected[i]);
        assert_int_equal(choice.constants.values[VULKAN_LINEAR_REGISTER_ROWS], expected[i]);
    }
}

/* A workgroup has two tiles of 16 outputs: 32 columns, or 16 pairs of gate and up. Subgroups share
 * its outputs if each has three steps of 128 columns or more, at most four of them. */
static void register_workgroups_share_columns(void **state)
{
    (void)state;
    static const struct {
        uint32_t k, split;
    } rows[] = {{384, 1},  {640, 1},  {672, 2},  {768, 2}, {1408, 2},
                {1440, 4}, {1536, 4}, {3072, 4}, {8192, 4}};
    const struct vulkan_facts facts = with_registers();
    struct vulkan_moe_request request = request_of(9);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        request.k = rows[i].k;
        struct vulkan_moe_choice choice = choose(&facts, request);
        const uint32_t *values = choice.constants.values;
        assert_int_equal(choice.constants.count, VULKAN_LINEAR_REGISTER_CONSTANTS);
        assert_int_equal(values[VULKAN_LINEAR_REGISTER_SPLIT], rows[i].split);
        assert_int_equal(values[VULKAN_LINEAR_REGISTER_SUBGROUPS], rows[i].split);
        assert_int_equal(values[VULKAN_LINEAR_REGISTER_INVOCATIONS], 32 * rows[i].split);
        assert_int_equal(values[VULKAN_LINEAR_REGISTER_OUTPUT_TILES], 2);
        assert_int_equal(values[VULKAN_LINEAR_REGISTER_AHEAD], 0);
        assert_int_equal(values[VULKAN_LINEAR_REGISTER_EPILOGUE], VULKAN_LINEAR_STORE);
    }
    request.n = 65;
    assert_int_equal(choose(&facts, request).across, 3);
    request.gated = true;
    struct vulkan_moe_choice choice = choose(&facts, request);
    assert_int_equal(choice.across, 5);
    assert_int_equal(choice.constants.values[VULKAN_LINEAR_REGISTER_EPILOGUE],
                     VULKAN_LINEAR_GATE_SILU);
    request.activation = 1;
    choice = choose(&facts, request);
    assert_int_equal(choice.constants.values[VULKAN_LINEAR_REGISTER_EPILOGUE],
                     VULKAN_LINEAR_GATE_GELU);
}

/* Tiles of 64 columns, of a gated product over the columns of the gate and the up. */
static void matrix_tiles_cover_all_columns(void **state)
{
    (void)state;
    struct vulkan_moe_request request = request_of(64);
    request.output = VULKAN_FORM_F16;
    for (uint32_t gated = 0; gated < 2; gated++) {
        request.gated = gated != 0;
        for (request.n = 128; request.n <= 1152; request.n += 128) {
            struct vulkan_moe_choice choice = choose(&matrix, request);
            assert_int_equal(choice.kernel, VULKAN_MOE_MATRIX);
            assert_string_equal(choice.shader, "moe_matrix");
            assert_int_equal(choice.tile_rows, 16);
            assert_int_equal(choice.across, (1 + gated) * request.n / 64);
        }
    }
}

/* Four subgroups of two columns each; tiles of up to 16 rows. One row has four columns each. */
static void plain_products_cover_all_columns(void **state)
{
    (void)state;
    struct vulkan_facts facts = plain, narrow = plain;
    narrow.subgroup_size = 4;
    facts.max_invocations = 64;
    struct vulkan_moe_request request = request_of(33), few = request_of(9);
    request.n = few.n = 65;
    struct vulkan_moe_choice choice = choose(&plain, request);
    assert_string_equal(choice.shader, "moe_linear");
    assert_int_equal(choice.input, VULKAN_FORM_F32);
    assert_int_equal(choice.constants.count, VULKAN_MOE_LINEAR_CONSTANTS);
    assert_int_equal(choice.constants.values[VULKAN_MOE_LINEAR_INVOCATIONS], 128);
    assert_int_equal(choice.constants.values[VULKAN_MOE_LINEAR_OUTPUTS], 2);
    assert_int_equal(choice.tile_rows, 16);
    assert_int_equal(choice.across, 9);
    choice = choose(&facts, request); /* two subgroups */
    assert_int_equal(choice.constants.values[VULKAN_MOE_LINEAR_INVOCATIONS], 64);
    assert_int_equal(choice.across, 17);
    assert_int_equal(choose(&narrow, few).tile_rows, 16);
    few.rows = 8;
    assert_int_equal(choose(&narrow, few).tile_rows, 8);
    few.rows = 2;
    assert_int_equal(choose(&narrow, few).constants.values[VULKAN_MOE_LINEAR_OUTPUTS], 2);
    few.rows = 1;
    choice = choose(&narrow, few);
    assert_int_equal(choice.tile_rows, 1);
    assert_int_equal(choice.constants.values[VULKAN_MOE_LINEAR_OUTPUTS], 4);
    assert_int_equal(choice.across, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_of_an_expert_decide_the_kernel),
        cmocka_unit_test(ptx_takes_many_pairs),
        cmocka_unit_test(gathered_rows_have_room_for_every_division),
        cmocka_unit_test(kernels_take_only_shapes_that_they_support),
        cmocka_unit_test(few_rows_are_summed_and_routed_by_the_product),
        cmocka_unit_test(dot_reads_q8_or_floats),
        cmocka_unit_test(dot_sorts_pairs_of_more_than_eight_rows),
        cmocka_unit_test(dot_loads_as_deep_as_lanes_have_blocks),
        cmocka_unit_test(dot_workgroups_cover_all_columns),
        cmocka_unit_test(gated_workgroups_have_a_block_of_columns),
        cmocka_unit_test(register_tiles_hold_the_pairs_of_an_expert),
        cmocka_unit_test(register_workgroups_share_columns),
        cmocka_unit_test(matrix_tiles_cover_all_columns),
        cmocka_unit_test(plain_products_cover_all_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
