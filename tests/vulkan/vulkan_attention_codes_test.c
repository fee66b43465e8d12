/*
 * Decodes over quantized keys and values in matrix units, compared with attention in double over
 * the values that kv_codec decodes: schemes, bits, head sizes, groups of query heads, windows, soft
 * caps, sinks, splits, lengths around the end of a block (support/vulkan_codes_scene.h).
 *
 * The variant without units runs on every device, the one with units where their registers are
 * known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/vulkan_codes_scene.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/device/vulkan_register_probe.h"

#define TOLERANCE 2e-3 /* op_list.h: attention */

enum { USUAL = 8, MANY = 12 }; /* subgroups of a workgroup */

struct codes_case {
    struct codes_scene_case scene;
    /* Splits 0: the policy's choice, for far contexts if `subgroups` is MANY. */
    uint32_t tile_blocks, subgroups, splits;
};
static const struct codes_case cases[] = {
    {{{KV_QUANT_UNIFORM, 8, 8, 0, 0}, 128, 8, 2, 0, 0, false, 3}, 1, 2, 3},
    {{{KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, 128, 4, 1, 0, 0, true, 3}, 1, 2, 2},
    {{{KV_QUANT_UNIFORM, 16, 16, 0, 0}, 128, 3, 1, 0, 0, false, 3}, 2, 1, 1},
    {{{KV_QUANT_UNIFORM, 6, 10, 0, 0}, 64, 8, 1, 40, 0, true, 3}, 1, 4, 2},
    {{{KV_QUANT_TURBOQUANT, 8, 8, 0, 0}, 64, 12, 1, 0, 1.5f, false, 3}, 2, 2, 1},
    {{{KV_QUANT_UNIFORM, 14, 14, 0, 0}, 128, 4, 2, 0, 0, false, 3}, 1, 2, 2},
    {{{KV_QUANT_UNIFORM, 8, 16, 0, 0}, 256, 2, 1, 0, 0, false, 3}, 1, 1, 2},
    {{{KV_QUANT_TURBOQUANT, 4, 6, 0, 0}, 256, 1, 1, 0, 0, false, 3}, 1, 2, 1},
    {{{KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, 128, 8, 2, 0, 0, false, 3}, 0, MANY, 0},
    {{{KV_QUANT_UNIFORM, 4, 12, 128, 0}, 128, 2, 2, 0, 0, false, 3}, 1, 2, 1},
    {{{KV_QUANT_TURBOQUANT, 7, 7, 0, 0}, 128, 4, 1, 0, 0, false, 3}, 0, 0, 0},
    {{{KV_QUANT_TURBOQUANT, 5, 6, 0, 0}, 128, 8, 2, 40, 0, true, 3}, 1, 2, 3},
    {{{KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, 96, 3, 1, 0, 1.5f, false, 3}, 1, 1, 2},
    {{{KV_QUANT_TURBOQUANT, 7, 7, 0, 0}, 64, 9, 3, 0, 0, false, 3}, 2, 4, 1},
    {{{KV_QUANT_TURBOQUANT, 8, 6, 0, 0}, 80, 4, 1, 0, 0, false, 3}, 2, 2, 2},
    {{{KV_QUANT_TURBOQUANT, 5, 7, 0, 0}, 96, 4, 2, 0, 0, true, 3}, 1, 2, 1},
    {{{KV_QUANT_TURBOQUANT, 7, 3, 0, 0}, 384, 2, 1, 0, 0, false, 3}, 1, 2, 1},
    {{{KV_QUANT_UNIFORM, 8, 8, 0, 0}, 64, 4, 1, 0, 0, true, 3}, 2, MANY, 1},
};
#define CASES (sizeof cases / sizeof cases[0])

/* Contexts of one to 700 positions, and three rows that are no decode. */
static const struct codes_scene_part parts[] = {
    {1, 0, 0, 0},  {1, 14, 0, 0},  {1, 15, 0, 0},  {3, 4, 0, 0},
    {1, 16, 0, 0}, {1, 129, 0, 0}, {1, 699, 0, 0},
};
#define PARTS (sizeof parts / sizeof parts[0])

/* The policy's choice on a GPU with known registers, except for the case's own sizes. */
static struct vulkan_attention_choice choose(const struct codes_scene *scene,
                                             const struct codes_case *c,
                                             const struct vulkan_device *device)
{
    struct vulkan_facts facts = device->facts;
    facts.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    facts.tier = VULKAN_KHR_MATRIX;
    facts.subgroup_size = 32;
    facts.matrix_registers = true;
    struct vulkan_attention_task task = {.shape = scene->shape,
                                         .items = PARTS + 1,
                                         .forms = VULKAN_FORM_F32,
                                         .reach = c->subgroups == MANY ? VULKAN_REACH_FAR
                                                                       : VULKAN_REACH_COMMON};
    struct vulkan_attention_choice choice = vulkan_attention_policy_choose(&facts, &task);
    uint32_t *values = choice.specialization.values;
    assert_string_equal(choice.shader, "attention_codes_units");
    assert_int_equal(values[VULKAN_ATTENTION_CODES_SUBGROUPS] == MANY, c->subgroups == MANY);
    if (c->splits == 0)
        return choice;
    values[VULKAN_ATTENTION_CODES_TILE_BLOCKS] = c->tile_blocks;
    values[VULKAN_ATTENTION_CODES_SUBGROUPS] = c->subgroups;
    values[VULKAN_ATTENTION_CODES_INVOCATIONS] = 32 * c->subgroups;
    values[VULKAN_ATTENTION_CODES_SPLITS] = choice.grid.y = c->splits;
    choice.partial_bytes = (uint64_t)choice.grid.x * choice.grid.z * c->splits * 16384;
    choice.counter_bytes = (uint64_t)choice.grid.x * choice.grid.z * 4;
    return choice;
}

static void run_case(struct vulkan_trial *trial, const struct codes_case *c, const char *shader)
{
    struct codes_scene scene;
    codes_scene_init(&scene, trial, &c->scene, parts, PARTS);
    struct vulkan_attention_choice choice = choose(&scene, c, trial->device);
    choice.shader = shader;
    const float *got = codes_scene_run(&scene, &choice, NULL);
    print_message("%s %s: largest error %.2g\n", shader, codes_scene_words(&c->scene),
                  codes_scene_compare(&scene, got, false, TOLERANCE));
    codes_scene_fini(&scene);
    vulkan_trial_clear(trial);
}

static void attends_without_units(void **state)
{
    struct vulkan_trial trial;
    if (vulkan_fixture_share(*state) == VULKAN_SHARE_MATRIX)
        vulkan_fixture_skip("the driver without matrix units runs this");
    vulkan_trial_init(&trial, *state);
    for (size_t i = 0; i < CASES; i++)
        run_case(&trial, &cases[i], "attention_codes_plain");
    vulkan_trial_fini(&trial);
}

static void attends_in_units_whose_registers_are_known(void **state)
{
    struct vulkan_trial trial;
    vulkan_trial_init(&trial, *state);
    bool known = vulkan_register_probe(trial.device, trial.kernels);
    for (size_t i = 0; known && i < CASES; i++)
        run_case(&trial, &cases[i], "attention_codes_units");
    vulkan_trial_fini(&trial);
    if (!known)
        vulkan_fixture_skip("the device has no matrices in registers");
}

static const struct vulkan_facts known = {.tier = VULKAN_KHR_MATRIX,
                                          .matrix_registers = true,
                                          .subgroup_size = 32,
                                          .max_invocations = 1024,
                                          .shared_bytes = 49152,
                                          .compute_units = 132};

/* Codes that it cannot read, and devices with unknown registers, use the other kernel. */
static void leaves_the_rest_to_the_other_kernel(void **state)
{
    const struct vulkan_attention_task codes = {
        .shape = codes_scene_shape(&cases[0].scene), .items = 4, .forms = VULKAN_FORM_F32};
    (void)state;
    struct vulkan_attention_choice choice = vulkan_attention_policy_choose(&known, &codes);
    assert_string_equal(choice.shader, "attention_codes_units");
    for (uint32_t i = 0; i < 6; i++) {
        struct vulkan_facts facts = known;
        struct vulkan_attention_task task = codes;
        facts.matrix_registers = i != 0;
        facts.subgroup_size = i == 1 ? 64 : 32;
        facts.tier = i == 2 ? VULKAN_DOT : known.tier;
        task.shape.codes.group_dims = i == 3 ? 32 : 64;
        task.tiles = i == 4;
        if (i == 5) { /* half of it is no multiple of 16 */
            task.shape.head_dim = 80;
            task.shape.codes = (struct vulkan_kv_codes){KV_QUANT_TURBOQUANT, 7, 8, 80};
        }
        choice = vulkan_attention_policy_choose(&facts, &task);
        assert_string_equal(choice.shader, "attention_rows");
    }
}

/* Which of the kernel's workgroups far contexts have. */
struct far_case {
    struct codes_scene_case scene;
    uint32_t shared_bytes, max_invocations;
    uint32_t subgroups;
};

#define FAR_SCENE(scheme, key, value, head_dim, heads, window)                                     \
    {                                                                                              \
        {scheme, key, value, 0, 0}, head_dim, heads, 8, window, 0, false, 3                        \
    }
static const struct far_case far_cases[] = {
    {FAR_SCENE(KV_QUANT_TURBOQUANT, 6, 8, 128, 32, 0), 49152, 1024, MANY},
    {FAR_SCENE(KV_QUANT_UNIFORM, 8, 8, 128, 32, 0), 49152, 1024, MANY},
    {FAR_SCENE(KV_QUANT_UNIFORM, 6, 8, 64, 32, 20000), 49152, 1024, MANY},
    {FAR_SCENE(KV_QUANT_UNIFORM, 16, 16, 128, 32, 0), 49152, 1024, USUAL},
    {FAR_SCENE(KV_QUANT_UNIFORM, 8, 10, 128, 32, 0), 49152, 1024, USUAL},
    {FAR_SCENE(KV_QUANT_UNIFORM, 10, 8, 128, 32, 0), 49152, 1024, USUAL},
    {FAR_SCENE(KV_QUANT_UNIFORM, 8, 8, 128, 32, 4096), 49152, 1024, USUAL},
    {FAR_SCENE(KV_QUANT_UNIFORM, 8, 8, 256, 16, 0), 49152, 1024, USUAL},
    {FAR_SCENE(KV_QUANT_UNIFORM, 8, 8, 128, 32, 0), 49152, 256, USUAL},
    {FAR_SCENE(KV_QUANT_UNIFORM, 8, 8, 128, 64, 0), 49152, 1024, USUAL}, /* no room for more */
    {FAR_SCENE(KV_QUANT_UNIFORM, 8, 8, 128, 64, 0), 32768, 1024, USUAL / 2},
};

/* The maximum number of splits, so that scratch memory is enough. */
static void has_larger_workgroups_for_far_contexts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof far_cases / sizeof far_cases[0]; i++) {
        struct vulkan_facts facts = known;
        facts.shared_bytes = far_cases[i].shared_bytes;
        facts.max_invocations = far_cases[i].max_invocations;
        for (uint32_t items = 1; items <= 64; items++) {
            struct vulkan_attention_task task = {.shape = codes_scene_shape(&far_cases[i].scene),
                                                 .items = items,
                                                 .forms = VULKAN_FORM_F32};
            struct vulkan_attention_choice any = vulkan_attention_policy_choose(&facts, &task);
            task.reach = VULKAN_REACH_FAR;
            struct vulkan_attention_choice far = vulkan_attention_policy_choose(&facts, &task);
            uint32_t *values = far.specialization.values;
            const uint32_t *usual = any.specialization.values;
            assert_string_equal(far.shader, "attention_codes_units");
            assert_int_equal(values[VULKAN_ATTENTION_CODES_SUBGROUPS], far_cases[i].subgroups);
            assert_int_equal(values[VULKAN_ATTENTION_CODES_INVOCATIONS],
                             32 * far_cases[i].subgroups);
            assert_in_range(usual[VULKAN_ATTENTION_CODES_SUBGROUPS], 1, USUAL);
            assert_int_equal(far.partial_bytes, any.partial_bytes);
            assert_int_equal(far.counter_bytes, any.counter_bytes);
            assert_memory_equal(&far.grid, &any.grid, sizeof far.grid);
            values[VULKAN_ATTENTION_CODES_SUBGROUPS] = usual[VULKAN_ATTENTION_CODES_SUBGROUPS];
            values[VULKAN_ATTENTION_CODES_INVOCATIONS] = usual[VULKAN_ATTENTION_CODES_INVOCATIONS];
            assert_memory_equal(values, usual, far.specialization.count * sizeof *values);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_the_rest_to_the_other_kernel),
        cmocka_unit_test(has_larger_workgroups_for_far_contexts),
        cmocka_unit_test(attends_without_units),
        cmocka_unit_test(attends_in_units_whose_registers_are_known),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
