/*
 * Attention's kernels by device, head and step: classes of contexts, the forms of the output,
 * workgroups and how far contexts are split, at the limits of each choice.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "worker/backend/vulkan/device/vulkan_attention_push.h"
#include "worker/backend/vulkan/device/vulkan_facts.h"
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"

static const struct vulkan_facts plain = {
    .subgroup_size = 32, .max_invocations = 1024, .shared_bytes = 49152};
static const struct vulkan_facts cpu = {.type = VK_PHYSICAL_DEVICE_TYPE_CPU,
                                        .subgroup_size = 8,
                                        .max_invocations = 1024,
                                        .shared_bytes = 32768};
static const struct vulkan_facts units = {.tier = VULKAN_KHR_MATRIX,
                                          .matrix_khr = true,
                                          .matrix_registers = true,
                                          .matrix_shape_count = 1,
                                          .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 16, 16}},
                                          .compute_units = 132,
                                          .subgroup_size = 32,
                                          .max_invocations = 1024,
                                          .shared_bytes = 49152};

static struct vulkan_attention_task task_of(uint32_t head_dim, bool tiles, uint32_t items)
{
    return (struct vulkan_attention_task){.shape = {.head_dim = head_dim,
                                                    .heads = 32,
                                                    .kv_heads = 8,
                                                    .window = 77,
                                                    .kv_group = 2,
                                                    .stride = 6144,
                                                    .query_offset = 1,
                                                    .key_offset = 4096,
                                                    .value_offset = 5120,
                                                    .scale = 0.5f},
                                          .tiles = tiles,
                                          .items = items,
                                          .forms = VULKAN_FORM_F32};
}

static struct vulkan_attention_choice choose(const struct vulkan_facts *facts,
                                             struct vulkan_attention_task task)
{
    return vulkan_attention_policy_choose(facts, &task);
}

static uint32_t rows_value(const struct vulkan_facts *facts, struct vulkan_attention_task task,
                           enum vulkan_attention_rows_constant constant)
{
    struct vulkan_attention_choice choice = choose(facts, task);
    assert_string_equal(choice.shader, "attention_rows");
    assert_int_equal(choice.specialization.count, VULKAN_ATTENTION_ROWS_CONSTANTS);
    return choice.specialization.values[constant];
}

/* The splits, and the memory that they need: 16 bytes for each quad of a workgroup's results. */
static void expect_splits(const struct vulkan_attention_choice *choice, uint32_t columns,
                          uint32_t items, uint32_t splits, uint64_t quads)
{
    uint64_t workgroups = (uint64_t)columns * items;
    assert_int_equal(choice->grid.x, columns);
    assert_int_equal(choice->grid.y, splits);
    assert_int_equal(choice->grid.z, items);
    assert_int_equal(choice->partial_bytes, splits > 1 ? workgroups * splits * quads * 16 : 0);
    assert_int_equal(choice->counter_bytes, splits > 1 ? workgroups * 4 : 0);
}

static void contexts_have_three_classes(void **state)
{
    (void)state;
    assert_int_equal(vulkan_attention_policy_reach(0), VULKAN_REACH_SHORT);
    assert_int_equal(vulkan_attention_policy_reach(384), VULKAN_REACH_SHORT);
    assert_int_equal(vulkan_attention_policy_reach(385), VULKAN_REACH_COMMON);
    assert_int_equal(vulkan_attention_policy_reach(16384), VULKAN_REACH_COMMON);
    assert_int_equal(vulkan_attention_policy_reach(16385), VULKAN_REACH_FAR);
}

static void heads_of_whole_blocks_have_more_forms(void **state)
{
    (void)state;
    const uint32_t halves = VULKAN_FORM_F32 | VULKAN_HALF_FORMS;
    static const uint32_t dims[] = {33, 34, 36, 48, 64, 80};
    const uint32_t expected[] = {VULKAN_FORM_F32, VULKAN_FORM_F32,         halves,
                                 halves,          halves | VULKAN_FORM_Q8, halves};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        const struct vulkan_attention_shape shape = {.head_dim = dims[i]};
        assert_int_equal(vulkan_attention_policy_forms(&shape), expected[i]);
    }
}

/* A lane loads 8 dimensions; at most a quarter of the loads may be unused. */
static void lanes_divide_a_position(void **state)
{
    (void)state;
    static const uint32_t dims[] = {8, 16, 64, 72, 80, 96, 112, 128, 256, 512};
    static const uint32_t lanes[] = {1, 2, 8, 2, 4, 4, 8, 16, 32, 32};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        uint32_t found =
            rows_value(&plain, task_of(dims[i], false, 1), VULKAN_ATTENTION_ROWS_LANES);
        if (found != lanes[i])
            fail_msg("%u dimensions: %u lanes", dims[i], found);
    }
}

/* Queries of a KV head share a workgroup, at most four, unless there are fewer than 16 workgroups. */
static void few_workgroups_get_fewer_heads(void **state)
{
    (void)state;
    struct vulkan_attention_task one = task_of(128, false, 1), two = task_of(128, false, 2);
    assert_int_equal(rows_value(&plain, one, VULKAN_ATTENTION_ROWS_HEAD_TILE), 2);
    assert_int_equal(rows_value(&plain, two, VULKAN_ATTENTION_ROWS_HEAD_TILE), 4);
    one.shape.kv_heads = 2; /* 16 queries share a KV head */
    two.shape.kv_heads = 2;
    assert_int_equal(rows_value(&plain, one, VULKAN_ATTENTION_ROWS_HEAD_TILE), 2);
    assert_int_equal(rows_value(&plain, two, VULKAN_ATTENTION_ROWS_HEAD_TILE), 4);
    one.shape.heads = one.shape.kv_heads = 3; /* they are alone already */
    assert_int_equal(rows_value(&plain, one, VULKAN_ATTENTION_ROWS_HEAD_TILE), 1);
    one.shape.heads = 9;
    assert_int_equal(rows_value(&plain, one, VULKAN_ATTENTION_ROWS_HEAD_TILE), 1);
    assert_int_equal(rows_value(&cpu, task_of(64, false, 1), VULKAN_ATTENTION_ROWS_HEAD_TILE), 2);
    assert_int_equal(rows_value(&cpu, task_of(128, false, 1), VULKAN_ATTENTION_ROWS_HEAD_TILE), 1);
}

/* 32 compute units unless the device tells: room for 96 workgroups. */
static void contexts_are_split_while_there_is_room(void **state)
{
    (void)state;
    static const uint32_t items[] = {1, 2, 4, 6, 7, 12, 13};
    static const uint32_t splits[] = {6, 6, 3, 2, 1, 1, 1};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        struct vulkan_attention_choice choice = choose(&plain, task_of(128, false, items[i]));
        uint32_t tiles = items[i] == 1 ? 2 : 1;
        expect_splits(&choice, 8 * tiles, items[i], splits[i], tiles == 2 ? 65 : 130);
        assert_int_equal(choice.specialization.values[VULKAN_ATTENTION_ROWS_SPLITS], splits[i]);
        assert_int_equal(choice.specialization.values[VULKAN_ATTENTION_ROWS_SPLIT_TOKENS], 32);
    }
}

/* Numbers of splits are 1, 2, 3, 4, 6, 8, 12 and so on, at most 64. */
static void numbers_of_splits_are_few(void **state)
{
    (void)state;
    static const uint32_t unit_counts[] = {5, 6, 11, 16, 22, 27, 32, 38, 43, 59, 64, 85, 86, 132};
    static const uint32_t splits[] = {1, 1, 2, 3, 4, 4, 6, 6, 8, 8, 12, 12, 16, 24};
    struct vulkan_facts facts = plain;
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        facts.compute_units = unit_counts[i];
        assert_int_equal(choose(&facts, task_of(128, false, 1)).grid.y, splits[i]);
    }
    facts.compute_units = 1000;
    struct vulkan_attention_task task = task_of(128, false, 1);
    assert_int_equal(choose(&facts, task).grid.y, 64);
    task.reach = VULKAN_REACH_FAR;
    assert_int_equal(choose(&facts, task).grid.y, 64);
    task.reach = VULKAN_REACH_SHORT; /* 384 positions are twelve times 32 */
    assert_int_equal(choose(&facts, task).grid.y, 12);
    facts.compute_units = 43;
    assert_int_equal(choose(&facts, task).grid.y, 8);
}

static void a_cpu_has_one_number_of_splits(void **state)
{
    (void)state;
    struct vulkan_attention_task task = task_of(128, true, 9);
    assert_int_equal(choose(&cpu, task).grid.y, 4);
    task.spans = true;
    assert_int_equal(choose(&cpu, task).grid.y, 1);
    assert_int_equal(choose(&cpu, task_of(128, false, 1)).grid.y, 4);
}

static void workgroups_hold_a_tile_of_rows(void **state)
{
    (void)state;
    struct vulkan_attention_task task = task_of(128, true, 1);
    assert_int_equal(rows_value(&plain, task, VULKAN_ATTENTION_ROWS_HEAD_TILE), 4);
    assert_int_equal(rows_value(&plain, task, VULKAN_ATTENTION_ROWS_TILE_ROWS), 2);
    assert_int_equal(vulkan_attention_policy_tile_rows(&plain, &task.shape), 2);
    task.shape.heads = 8;
    assert_int_equal(vulkan_attention_policy_tile_rows(&plain, &task.shape), 8);
    task.shape.head_dim = 80; /* three loads a lane */
    assert_int_equal(vulkan_attention_policy_tile_rows(&plain, &task.shape), 2);
    assert_int_equal(rows_value(&plain, task_of(128, false, 1), VULKAN_ATTENTION_ROWS_TILE_ROWS),
                     1);
}

/* Four positions ahead while registers and workgroups allow, else two; one on a CPU. */
static void loads_ahead_depend_on_registers_and_room(void **state)
{
    (void)state;
    const enum vulkan_attention_rows_constant unroll = VULKAN_ATTENTION_ROWS_UNROLL;
    assert_int_equal(rows_value(&plain, task_of(128, false, 1), unroll), 4);
    assert_int_equal(rows_value(&plain, task_of(128, false, 12), unroll), 4);
    assert_int_equal(rows_value(&plain, task_of(128, false, 13), unroll), 2);
    assert_int_equal(rows_value(&plain, task_of(128, true, 1), unroll), 2); /* eight queries */
    struct vulkan_attention_task half = task_of(128, true, 1000);
    half.shape.head_dim = 16; /* two lanes: two queries */
    assert_int_equal(rows_value(&plain, half, unroll), 4);
    assert_int_equal(rows_value(&cpu, task_of(128, false, 1), unroll), 1);
}

/* 128 invocations, fewer where the sums of all subgroups exceed 4,096 floats. */
static void sums_of_subgroups_limit_the_workgroup(void **state)
{
    (void)state;
    const enum vulkan_attention_rows_constant size = VULKAN_ATTENTION_ROWS_INVOCATIONS;
    struct vulkan_facts wide = plain;
    wide.subgroup_size = 64;
    assert_int_equal(rows_value(&plain, task_of(128, false, 2), size), 128);
    assert_int_equal(rows_value(&plain, task_of(128, true, 1), size), 128);
    assert_int_equal(rows_value(&plain, task_of(256, true, 1), size), 64);
    assert_int_equal(rows_value(&plain, task_of(512, true, 1), size), 64);
    assert_int_equal(rows_value(&plain, task_of(128, true, 1), VULKAN_ATTENTION_ROWS_SUBGROUPS), 4);
    assert_int_equal(rows_value(&wide, task_of(128, true, 1), size), 128);
    assert_int_equal(rows_value(&wide, task_of(128, true, 1), VULKAN_ATTENTION_ROWS_SUBGROUPS), 2);
    wide.subgroup_size = 16;
    assert_int_equal(rows_value(&wide, task_of(128, false, 2), size), 128);
    assert_int_equal(rows_value(&cpu, task_of(64, true, 1), size), 16);
    assert_int_equal(rows_value(&cpu, task_of(64, true, 1), VULKAN_ATTENTION_ROWS_SUBGROUPS), 2);
}

static uint32_t matrix_value(const struct vulkan_facts *facts, struct vulkan_attention_task task,
                             enum vulkan_attention_matrix_constant constant)
{
    struct vulkan_attention_choice choice = choose(facts, task);
    assert_string_equal(choice.shader, "attention_matrix");
    return choice.specialization.values[constant];
}

static void matrix_units_take_tiles_that_fit(void **state)
{
    (void)state;
    struct vulkan_facts facts = units;
    struct vulkan_attention_task task = task_of(128, true, 1);
    const enum vulkan_attention_matrix_constant subgroups = VULKAN_ATTENTION_MATRIX_SUBGROUPS;
    assert_int_equal(matrix_value(&facts, task, subgroups), 8);
    assert_int_equal(matrix_value(&facts, task, VULKAN_ATTENTION_MATRIX_INVOCATIONS), 256);
    assert_int_equal(matrix_value(&facts, task, VULKAN_ATTENTION_MATRIX_HEAD_TILE), 4);
    assert_int_equal(matrix_value(&facts, task, VULKAN_ATTENTION_MATRIX_TILE_ROWS), 32);
    assert_int_equal(vulkan_attention_policy_tile_rows(&facts, &task.shape), 32);
    task.shape.heads = 17 * 8; /* at most 16 heads a workgroup, however many queries it has */
    assert_int_equal(matrix_value(&facts, task, VULKAN_ATTENTION_MATRIX_HEAD_TILE), 9);
    assert_int_equal(matrix_value(&facts, task, VULKAN_ATTENTION_MATRIX_TILE_ROWS), 14);
    task.shape.heads = 32;
    /* Keys and values of 32 positions with 8 padding dimensions, products and weights of 128
     * queries, levels of codes. */
    facts.shared_bytes = 16 * (2 * 32 * 17 + 128 * 9 + 128 * 5) + 256 + 16;
    assert_int_equal(matrix_value(&facts, task, subgroups), 8);
    facts.shared_bytes--;
    assert_int_equal(matrix_value(&facts, task, subgroups), 4);
    assert_int_equal(vulkan_attention_policy_tile_rows(&facts, &task.shape), 16);
    facts.shared_bytes = 16 * (2 * 32 * 17 + 16 * 9 + 16 * 5) + 256 + 16;
    assert_int_equal(matrix_value(&facts, task, subgroups), 1);
    task.shape.heads = 17 * 8; /* 9 and 8 */
    assert_int_equal(matrix_value(&facts, task, VULKAN_ATTENTION_MATRIX_HEAD_TILE), 9);
    assert_int_equal(choose(&facts, task).grid.x, 16);
    facts.shared_bytes--;
    assert_string_equal(choose(&facts, task).shader, "attention_rows");
}

/* Up to 16 heads of one row: four subgroups of 16 queries, or of 8, hold them. */
static void tiles_of_one_row_have_few_subgroups(void **state)
{
    (void)state;
    struct vulkan_facts facts = units;
    struct vulkan_attention_task task = task_of(128, true, 1);
    task.single = true;
    for (uint32_t heads = 1; heads <= 16; heads++) {
        task.shape.heads = 8 * heads;
        for (uint32_t rows = 8; rows <= 16; rows += 8) {
            facts.matrix_shapes[0].m = rows;
            assert_int_equal(matrix_value(&facts, task, VULKAN_ATTENTION_MATRIX_SUBGROUPS), 4);
            assert_int_equal(matrix_value(&facts, task, VULKAN_ATTENTION_MATRIX_HEAD_TILE), heads);
            assert_int_equal(matrix_value(&facts, task, VULKAN_ATTENTION_MATRIX_TILE_ROWS),
                             4 * rows / heads);
        }
    }
    facts.shared_bytes = 16 * (2 * 32 * 17 + 32 * 9 + 32 * 5) + 256 + 16; /* room for two */
    assert_int_equal(matrix_value(&facts, task, VULKAN_ATTENTION_MATRIX_SUBGROUPS), 2);
}

static void other_tiles_go_without_matrix_units(void **state)
{
    (void)state;
    struct vulkan_facts facts = units;
    assert_string_equal(choose(&units, task_of(96, false, 1)).shader, "attention_rows");
    assert_string_equal(choose(&units, task_of(256, true, 1)).shader, "attention_matrix");
    assert_string_equal(choose(&units, task_of(272, true, 1)).shader, "attention_rows");
    assert_string_equal(choose(&units, task_of(72, true, 1)).shader, "attention_rows");
    facts.type = VK_PHYSICAL_DEVICE_TYPE_CPU; /* compiles for a minute beyond 48 dimensions */
    assert_string_equal(choose(&facts, task_of(48, true, 1)).shader, "attention_matrix");
    assert_string_equal(choose(&facts, task_of(64, true, 1)).shader, "attention_rows");
    facts = units;
    facts.matrix_khr = false;
    assert_string_equal(choose(&facts, task_of(128, true, 1)).shader, "attention_rows");
    facts = units;
    facts.tier = VULKAN_DOT;
    assert_string_equal(choose(&facts, task_of(128, true, 1)).shader, "attention_rows");
    facts = units;
    facts.matrix_shapes[0].type = VULKAN_MATRIX_F16_F16;
    assert_string_equal(choose(&facts, task_of(128, true, 1)).shader, "attention_rows");
    static const struct vulkan_matrix_shape misfits[] = {
        {VULKAN_MATRIX_F16_F32, 4, 16, 16},  {VULKAN_MATRIX_F16_F32, 16, 4, 16},
        {VULKAN_MATRIX_F16_F32, 16, 16, 4},  {VULKAN_MATRIX_F16_F32, 64, 16, 16},
        {VULKAN_MATRIX_F16_F32, 16, 64, 16}, {VULKAN_MATRIX_F16_F32, 16, 16, 64}};
    for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++) {
        facts.matrix_shapes[0] = misfits[i];
        assert_string_equal(choose(&facts, task_of(128, true, 1)).shader, "attention_rows");
    }
    facts.matrix_shape_count = 2; /* the first that fits */
    facts.matrix_shapes[1] = (struct vulkan_matrix_shape){VULKAN_MATRIX_F16_F32, 8, 8, 8};
    assert_int_equal(matrix_value(&facts, task_of(128, true, 1), VULKAN_ATTENTION_MATRIX_UNIT_ROWS),
                     8);
}

/* A power of two of splits, two workgroups for each of 132 units. */
static void tiles_are_split_over_idle_units(void **state)
{
    (void)state;
    static const uint32_t items[] = {1, 2, 32, 33, 34};
    static const uint32_t splits[] = {32, 16, 2, 1, 1};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        struct vulkan_attention_choice choice = choose(&units, task_of(128, true, items[i]));
        expect_splits(&choice, 8, items[i], splits[i], 128 * 32 + 64);
        assert_int_equal(choice.specialization.values[VULKAN_ATTENTION_MATRIX_SPLITS], splits[i]);
    }
}

static struct vulkan_attention_task coded(uint32_t head_dim, enum kv_quant_scheme scheme,
                                          uint32_t half_bits, uint32_t group_dims)
{
    struct vulkan_attention_task task = task_of(head_dim, false, 1);
    task.shape.codes = (struct vulkan_kv_codes){scheme, half_bits, half_bits, group_dims};
    return task;
}

static bool takes_ptx(const struct vulkan_facts *facts, struct vulkan_attention_task task)
{
    return strncmp(choose(facts, task).shader, "attention_wgmma_", 16) == 0;
}

static void ptx_takes_tiles_of_three_sizes_of_heads(void **state)
{
    (void)state;
    struct vulkan_facts ptx = units;
    ptx.tier = VULKAN_PTX;
    static const uint32_t dims[] = {64, 80, 128};
    static const char *const names[] = {"attention_wgmma_64", "attention_wgmma_80",
                                        "attention_wgmma_128"};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        struct vulkan_attention_choice choice = choose(&ptx, task_of(dims[i], true, 40));
        assert_string_equal(choice.shader, names[i]);
        assert_int_equal(choice.specialization.count, VULKAN_ATTENTION_WGMMA_CONSTANTS);
        assert_int_equal(choice.specialization.count % 2, 0);
        assert_true(choice.specialization.values[VULKAN_ATTENTION_WGMMA_SHARED_BYTES] <= 49152);
        assert_int_equal(choice.specialization.values[VULKAN_ATTENTION_WGMMA_WINDOW], 77);
        expect_splits(&choice, 8, 40, 1, 0);
        assert_false(takes_ptx(&units, task_of(dims[i], true, 40)));
    }
    static const uint32_t others[] = {48, 72, 96, 112, 256};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(takes_ptx(&ptx, task_of(others[i], true, 40)));

    /* One tile of eight columns leaves room for 16 splits of 132; 256 lanes write a part, each
     * 4 terms and half a head of sums. */
    struct vulkan_attention_choice choice = choose(&ptx, task_of(128, true, 1));
    expect_splits(&choice, 8, 1, 16, 256 * (4 + 64) / 4);
}

static void other_tasks_go_without_ptx(void **state)
{
    (void)state;
    struct vulkan_facts ptx = units;
    ptx.tier = VULKAN_PTX;
    struct vulkan_attention_task task = task_of(128, true, 40);
    assert_true(takes_ptx(&ptx, task));
    task.single = true;
    assert_false(takes_ptx(&ptx, task));
    task = task_of(128, true, 40);
    task.shape.codes.scheme = KV_QUANT_TURBOQUANT;
    assert_false(takes_ptx(&ptx, task));

    task = task_of(128, true, 40);
    task.forms = VULKAN_FORM_F32 | VULKAN_FORM_F16;
    assert_true(takes_ptx(&ptx, task));
    task.forms = VULKAN_FORM_F32 | VULKAN_FORM_STAGED;
    assert_true(takes_ptx(&ptx, task));
    task.forms = VULKAN_FORM_F32 | VULKAN_FORM_F16 | VULKAN_FORM_STAGED;
    assert_false(takes_ptx(&ptx, task));
    task.forms = VULKAN_FORM_F32 | VULKAN_FORM_Q8;
    assert_false(takes_ptx(&ptx, task));

    ptx.batch_invariant = true;
    assert_false(takes_ptx(&ptx, task_of(128, true, 40)));
    ptx.batch_invariant = false;
    ptx.matrix_khr = false;
    ptx.matrix_shape_count = 0;
    assert_false(takes_ptx(&ptx, task_of(128, true, 40)));
}

static void decodes_over_codes_need_whole_parts(void **state)
{
    (void)state;
    const char *codes = "attention_codes_units", *rows = "attention_rows";
    const enum kv_quant_scheme turbo = KV_QUANT_TURBOQUANT, uniform = KV_QUANT_UNIFORM;
    assert_string_equal(choose(&units, coded(64, turbo, 8, 0)).shader, codes);
    assert_string_equal(choose(&units, coded(48, turbo, 8, 0)).shader, rows);
    assert_string_equal(choose(&units, coded(80, turbo, 8, 0)).shader, codes);
    assert_string_equal(choose(&units, coded(72, turbo, 8, 0)).shader, rows);
    assert_string_equal(choose(&units, coded(96, turbo, 7, 0)).shader, codes);
    assert_string_equal(choose(&units, coded(80, turbo, 7, 0)).shader, rows);
    assert_string_equal(choose(&units, coded(128, uniform, 8, 64)).shader, codes);
    assert_string_equal(choose(&units, coded(128, uniform, 8, 32)).shader, rows);
    assert_string_equal(choose(&units, coded(128, KV_QUANT_NONE, 8, 64)).shader,
                        "attention_halves_units");
    struct vulkan_facts facts = units;
    facts.matrix_registers = false;
    assert_string_equal(choose(&facts, coded(128, turbo, 8, 0)).shader, rows);
    facts = units;
    facts.subgroup_size = 64;
    assert_string_equal(choose(&facts, coded(128, turbo, 8, 0)).shader, rows);
    facts = units;
    facts.tier = VULKAN_DOT;
    assert_string_equal(choose(&facts, coded(128, turbo, 8, 0)).shader, rows);
}

/* The constants of decodes over f16. Few workgroups have four subgroups, many have two. */
static void decodes_over_floats_read_one_block_at_a_time(void **state)
{
    (void)state;
    struct vulkan_attention_task task = coded(128, KV_QUANT_NONE, 0, 0);
    task.shape.sinks = 1;
    task.shape.soft_cap = 0.5f;
    for (int many = 0; many < 2; many++) {
        task.items = many ? 50 : 49; /* three workgroups for each of 132 units: 396 */
        struct vulkan_attention_choice choice = choose(&units, task);
        const uint32_t *values = choice.specialization.values;
        const uint32_t subgroups = many ? 2 : 4;
        assert_string_equal(choice.shader, "attention_halves_units");
        assert_int_equal(choice.specialization.count, VULKAN_ATTENTION_HALVES_CONSTANTS);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_INVOCATIONS], 32 * subgroups);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_SUBGROUPS], subgroups);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_FORMS], VULKAN_FORM_F32);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_HEAD_DIM], 128);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_GROUP_HEADS], 4);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_HEAD_TILE], 4);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_TILE_BLOCKS], 1);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_SPLIT_TOKENS], 64);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_WINDOW], 77);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_KV_GROUP], 2);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_STRIDE], 6144);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_QUERY_OFFSET], 1);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_SCALE], 0x3f000000);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_SOFT_CAP], 0x3f000000);
        assert_int_equal(values[VULKAN_ATTENTION_CODES_SINKS], 1);
    }
}

static uint32_t codes_subgroups(const struct vulkan_facts *facts, struct vulkan_attention_task task)
{
    struct vulkan_attention_choice choice = choose(facts, task);
    assert_string_equal(choice.shader, "attention_codes_units");
    uint32_t subgroups = choice.specialization.values[VULKAN_ATTENTION_CODES_SUBGROUPS];
    assert_int_equal(choice.specialization.values[VULKAN_ATTENTION_CODES_INVOCATIONS],
                     32 * subgroups);
    return subgroups;
}

/* Sums of 4 heads for each subgroup, 8 queries in f16, 256 pairs of levels, and 288 bytes. */
static void shared_memory_limits_subgroups_over_codes(void **state)
{
    (void)state;
    struct vulkan_facts facts = units;
    struct vulkan_attention_task task = coded(128, KV_QUANT_TURBOQUANT, 8, 0);
    const uint32_t other_bytes = 8 * 128 * 2 + 256 * 4 + 288;
    facts.shared_bytes = 8 * 4 * 130 * 4 + other_bytes;
    assert_int_equal(codes_subgroups(&facts, task), 8);
    facts.shared_bytes--;
    assert_int_equal(codes_subgroups(&facts, task), 4);
    facts.shared_bytes = 4 * 130 * 4 + other_bytes;
    assert_int_equal(codes_subgroups(&facts, task), 1);
    facts.shared_bytes--;
    assert_string_equal(choose(&facts, task).shader, "attention_rows");
    /* A head that is no power of two is multiplied: one subgroup has two copies. */
    task = coded(96, KV_QUANT_TURBOQUANT, 5, 0); /* 2.5 bits: pairs of 16 and of 64 levels */
    facts.shared_bytes = 2 * 4 * 98 * 4 + 8 * 96 * 2 + (16 | 64) * 4 + 288;
    assert_int_equal(codes_subgroups(&facts, task), 2);
    facts.shared_bytes--;
    assert_string_equal(choose(&facts, task).shader, "attention_rows");
    task = coded(64, KV_QUANT_UNIFORM, 8, 64); /* no levels */
    facts.shared_bytes = 4 * 66 * 4 + 8 * 64 * 2 + 4 + 288;
    assert_int_equal(codes_subgroups(&facts, task), 1);
    facts.shared_bytes--;
    assert_string_equal(choose(&facts, task).shader, "attention_rows");
}

/* Twelve subgroups pay for far contexts of codes of at most four bits. */
static void far_contexts_of_short_codes_get_more_subgroups(void **state)
{
    (void)state;
    struct vulkan_facts facts = units;
    struct vulkan_attention_task far = coded(128, KV_QUANT_TURBOQUANT, 8, 0), task;
    far.reach = VULKAN_REACH_FAR;
    far.shape.window = 0;
    assert_int_equal(codes_subgroups(&units, far), 12);
    task = far;
    task.reach = VULKAN_REACH_COMMON;
    assert_int_equal(codes_subgroups(&units, task), 8);
    task = far;
    task.shape.window = 16384;
    assert_int_equal(codes_subgroups(&units, task), 8);
    task.shape.window = 16385;
    assert_int_equal(codes_subgroups(&units, task), 12);
    task = far;
    task.shape.codes.key_half_bits = 9;
    assert_int_equal(codes_subgroups(&units, task), 8);
    task = far;
    task.shape.codes.value_half_bits = 9;
    assert_int_equal(codes_subgroups(&units, task), 8);
    task = far;
    task.shape.head_dim = 160;
    assert_int_equal(codes_subgroups(&units, task), 8);
    facts.max_invocations = 384;
    assert_int_equal(codes_subgroups(&facts, far), 12);
    facts.max_invocations = 383;
    assert_int_equal(codes_subgroups(&facts, far), 8);
    facts = units;
    facts.shared_bytes = 12 * 4 * 130 * 4 + 8 * 128 * 2 + 256 * 4 + 288;
    assert_int_equal(codes_subgroups(&facts, far), 12);
    facts.shared_bytes--;
    assert_int_equal(codes_subgroups(&facts, far), 8);
}

/* One workgroup of eight subgroups on a unit, two of four; 128 positions or more each. */
static void contexts_of_codes_are_split_over_units(void **state)
{
    (void)state;
    struct vulkan_facts facts = units;
    struct vulkan_attention_task task = coded(128, KV_QUANT_TURBOQUANT, 8, 0);
    struct vulkan_attention_choice choice = choose(&units, task);
    expect_splits(&choice, 8, 1, 16, 4 * 32 + 2);
    assert_int_equal(choice.specialization.count, VULKAN_ATTENTION_CODES_CONSTANTS);
    assert_int_equal(choice.specialization.values[VULKAN_ATTENTION_CODES_TILE_BLOCKS], 2);
    assert_int_equal(choice.specialization.values[VULKAN_ATTENTION_CODES_GROUP_HEADS], 4);
    task.reach = VULKAN_REACH_SHORT;
    assert_int_equal(choose(&units, task).grid.y, 3);
    task.reach = VULKAN_REACH_COMMON;
    task.items = 8; /* 132 units for 64 workgroups */
    choice = choose(&units, task);
    expect_splits(&choice, 8, 8, 2, 4 * 32 + 2);
    task.items = 9;
    choice = choose(&units, task);
    expect_splits(&choice, 8, 9, 1, 4 * 32 + 2);
    facts.shared_bytes = 20000 - 1;
    task.items = 1;
    assert_int_equal(choose(&facts, task).grid.y, 32);
    task.shape.heads = 9 * 8; /* at most eight heads a workgroup: five and four */
    choice = choose(&units, task);
    assert_int_equal(choice.specialization.values[VULKAN_ATTENTION_CODES_HEAD_TILE], 5);
    expect_splits(&choice, 16, 1, 8, 5 * 32 + 3);
    task = coded(160, KV_QUANT_TURBOQUANT, 8, 0);
    choice = choose(&units, task);
    assert_int_equal(choice.specialization.values[VULKAN_ATTENTION_CODES_TILE_BLOCKS], 1);
}

/* A subgroup takes a head; values and keys have heads too. */
static void heads_are_dealt_to_subgroups(void **state)
{
    (void)state;
    struct vulkan_heads_task task = {.parts = VULKAN_HEADS_ROPE | VULKAN_HEADS_WRITE,
                                     .rows = 5,
                                     .head_dim = 128,
                                     .heads = 10,
                                     .kv_heads = 3,
                                     .pairing = 1,
                                     .rope_dims = 64,
                                     .kv_group = 2};
    struct vulkan_heads_choice choice = vulkan_attention_policy_heads(&plain, &task);
    const uint32_t *values = choice.specialization.values;
    assert_string_equal(choice.shader, "rope_kv_write");
    assert_int_equal(choice.specialization.count, VULKAN_ROPE_KV_WRITE_CONSTANTS);
    assert_int_equal(values[VULKAN_ROPE_KV_WRITE_INVOCATIONS], 128);
    assert_int_equal(values[VULKAN_ROPE_KV_WRITE_SUBGROUPS], 4);
    assert_int_equal(choice.grid.x, 4);
    assert_int_equal(choice.grid.y, 5);
    assert_int_equal(choice.grid.z, 1);
    task.heads = 11;
    assert_int_equal(vulkan_attention_policy_heads(&plain, &task).grid.x, 5);
    struct vulkan_facts wide = plain;
    wide.subgroup_size = 256;
    choice = vulkan_attention_policy_heads(&wide, &task);
    assert_int_equal(choice.specialization.values[VULKAN_ROPE_KV_WRITE_INVOCATIONS], 256);
    assert_int_equal(choice.grid.x, 17);
}

static void one_row_reads_ahead(void **state)
{
    (void)state;
    const struct vulkan_attention_task task = task_of(128, false, 1);
    struct vulkan_heads_choice choice;
    assert_true(vulkan_attention_policy_ahead(&plain, &task.shape, 1, &choice));
    assert_string_equal(choice.shader, "kv_ahead");
    assert_int_equal(choice.specialization.count, VULKAN_KV_AHEAD_CONSTANTS);
    assert_int_equal(choice.specialization.values[VULKAN_KV_AHEAD_BLOCK_BYTES], 8 * 16 * 128 * 2);
    assert_int_equal(choice.specialization.values[VULKAN_KV_AHEAD_WINDOW], 77);
    assert_int_equal(choice.specialization.values[VULKAN_KV_AHEAD_KV_GROUP], 2);
    assert_int_equal(choice.grid.x, 64);
    assert_int_equal(choice.grid.y, 1);
    assert_int_equal(choice.grid.z, 1);
    assert_false(vulkan_attention_policy_ahead(&plain, &task.shape, 2, &choice));
    assert_false(vulkan_attention_policy_ahead(&cpu, &task.shape, 1, &choice));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_have_three_classes),
        cmocka_unit_test(heads_of_whole_blocks_have_more_forms),
        cmocka_unit_test(lanes_divide_a_position),
        cmocka_unit_test(few_workgroups_get_fewer_heads),
        cmocka_unit_test(contexts_are_split_while_there_is_room),
        cmocka_unit_test(numbers_of_splits_are_few),
        cmocka_unit_test(a_cpu_has_one_number_of_splits),
        cmocka_unit_test(workgroups_hold_a_tile_of_rows),
        cmocka_unit_test(loads_ahead_depend_on_registers_and_room),
        cmocka_unit_test(sums_of_subgroups_limit_the_workgroup),
        cmocka_unit_test(matrix_units_take_tiles_that_fit),
        cmocka_unit_test(tiles_of_one_row_have_few_subgroups),
        cmocka_unit_test(other_tiles_go_without_matrix_units),
        cmocka_unit_test(tiles_are_split_over_idle_units),
        cmocka_unit_test(ptx_takes_tiles_of_three_sizes_of_heads),
        cmocka_unit_test(other_tasks_go_without_ptx),
        cmocka_unit_test(decodes_over_codes_need_whole_parts),
        cmocka_unit_test(decodes_over_floats_read_one_block_at_a_time),
        cmocka_unit_test(shared_memory_limits_subgroups_over_codes),
        cmocka_unit_test(far_contexts_of_short_codes_get_more_subgroups),
        cmocka_unit_test(contexts_of_codes_are_split_over_units),
        cmocka_unit_test(heads_are_dealt_to_subgroups),
        cmocka_unit_test(one_row_reads_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
