/*
 * Rows of prompts over quantized keys and values, in matrix units and without, compared with
 * attention in double over the values that kv_codec decodes (support/vulkan_codes_scene.h):
 * schemes, every number of bits and half a bit more, head sizes, rotations of both kinds, groups of
 * query heads and of dimensions, windows, soft caps, sinks, spans, chunks that end in the middle of
 * a tile and begin in the middle of a block.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/support/vulkan_codes_scene.h"
#include "tests/support/vulkan_fixture.h"

#define TOLERANCE 2e-3 /* op_list.h: attention */

struct prompts_case {
    struct codes_scene_case scene;
    bool spans;
    uint32_t span; /* positions per step of units of a CPU driver; 0: the policy's */
};
static const struct prompts_case cases[] = {
    {{{KV_QUANT_UNIFORM, 16, 4, 0, 0}, 32, 8, 2, 0, 0, false, 1}, false, 0},
    {{{KV_QUANT_UNIFORM, 14, 6, 16, 0}, 32, 3, 1, 0, 0, true, 1}, true, 0},
    {{{KV_QUANT_UNIFORM, 12, 10, 0, 0}, 48, 4, 4, 40, 0, false, 1}, false, 0},
    {{{KV_QUANT_UNIFORM, 8, 8, 0, 0}, 16, 20, 1, 0, 1.5f, false, 1}, true, 0},
    {{{KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, 32, 4, 1, 0, 0, true, 1}, false, 0},
    {{{KV_QUANT_TURBOQUANT, 2, 4, 0, 0}, 16, 6, 2, 0, 0, false, 1}, true, 0},
    {{{KV_QUANT_TURBOQUANT, 8, 6, 0, 0}, 32, 12, 1, 24, 1.5f, false, 1}, false, 0},
    /* In slices, and the rotation's matrix in two parts, like heads of 128. */
    {{{KV_QUANT_TURBOQUANT, 8, 8, 0, 0}, 32, 8, 2, 0, 0, false, 1}, false, 8},
    {{{KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, 128, 8, 2, 0, 0, false, 1}, false, 0},
    {{{KV_QUANT_TURBOQUANT, 8, 8, 0, 0}, 64, 9, 3, 0, 0, true, 1}, true, 0},
    {{{KV_QUANT_TURBOQUANT, 4, 2, 0, 0}, 256, 4, 1, 0, 0, false, 1}, false, 0},
    {{{KV_QUANT_UNIFORM, 16, 16, 0, 0}, 128, 4, 1, 0, 0, false, 1}, false, 0},
    {{{KV_QUANT_UNIFORM, 8, 8, 32, 0}, 256, 4, 2, 0, 0, false, 1}, true, 0},
    {{{KV_QUANT_UNIFORM, 10, 12, 0, 0}, 80, 5, 1, 0, 0, false, 1}, false, 0},
    {{{KV_QUANT_TURBOQUANT, 7, 7, 0, 0}, 32, 6, 2, 0, 0, false, 1}, true, 0},
    {{{KV_QUANT_TURBOQUANT, 5, 6, 0, 0}, 48, 3, 1, 40, 0, true, 1}, false, 0},
    {{{KV_QUANT_TURBOQUANT, 8, 3, 0, 0}, 80, 4, 2, 0, 1.5f, false, 1}, true, 0},
};
#define CASES (sizeof cases / sizeof cases[0])

/* The one row alone belongs to another dispatch. */
static const struct codes_scene_part parts[] = {
    {37, 0, 0, 0}, {1, 12, 0, 0}, {2, 70, 0, 0}, {19, 13, 0, 0}, {130, 131, 0, 0},
};
static const struct codes_scene_part spanned[] = {
    {37, 0, 5, 33}, {1, 12, 0, 0}, {2, 70, 70, 72}, {19, 13, 20, 32}, {130, 131, 131, 190},
};
#define PARTS (sizeof parts / sizeof parts[0])

static void run_case(struct vulkan_trial *trial, const struct prompts_case *c,
                     const struct vulkan_facts *facts, const char *shader)
{
    struct codes_scene scene;
    codes_scene_init(&scene, trial, &c->scene, c->spans ? spanned : parts, PARTS);
    struct vulkan_attention_task task = {
        .shape = scene.shape, .tiles = true, .forms = VULKAN_FORM_F32, .spans = c->spans};
    const struct vulkan_buffer *tiles =
        vulkan_trial_tiles(trial, scene.sequences->mapped, PARTS,
                           vulkan_attention_policy_tile_rows(facts, &scene.shape), &task.items);
    struct vulkan_attention_choice choice = vulkan_attention_policy_choose(facts, &task);
    assert_string_equal(choice.shader, shader);
    if (c->span > 0 && facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU &&
        strcmp(shader, "attention_matrix") == 0)
        choice.specialization.values[VULKAN_ATTENTION_MATRIX_SPAN] = c->span;
    const float *got = codes_scene_run(&scene, &choice, tiles);
    print_message("%s %s%s: largest error %.2g\n", shader, codes_scene_words(&c->scene),
                  c->spans ? ", spans" : "", codes_scene_compare(&scene, got, true, TOLERANCE));
    codes_scene_fini(&scene);
    vulkan_trial_clear(trial);
}

static void attends_without_units(void **state)
{
    struct vulkan_trial trial;
    if (vulkan_fixture_share(*state) == VULKAN_SHARE_MATRIX)
        vulkan_fixture_skip("the driver without matrix units runs this");
    vulkan_trial_init(&trial, *state);
    struct vulkan_facts facts = trial.device->facts;
    facts.tier = VULKAN_SCALAR;
    for (size_t i = 0; i < CASES; i++)
        run_case(&trial, &cases[i], &facts, "attention_rows");
    vulkan_trial_fini(&trial);
}

/* On drivers for the CPU larger heads do not use units, and compiling a case takes half a minute: each
 * run takes the cases with even or those with odd numbers. */
static bool is_taken(const struct vulkan_facts *facts, size_t number, size_t half)
{
    return facts->type != VK_PHYSICAL_DEVICE_TYPE_CPU ||
           (cases[number].scene.head_dim <= 48 && number % 2 == half);
}

static void attends_in_units(void **state)
{
    struct vulkan_trial trial;
    if (vulkan_fixture_share(*state) == VULKAN_SHARE_PLAIN)
        vulkan_fixture_skip("the device has no matrix units");
    vulkan_trial_init(&trial, *state);
    const struct vulkan_facts *facts = &trial.device->facts;
    size_t half = (size_t)time(NULL) % 2;
    print_message("a CPU driver takes cases with number %% 2 == %zu\n", half);
    for (size_t i = 0; i < CASES; i++)
        if (is_taken(facts, i, half))
            run_case(&trial, &cases[i], facts, "attention_matrix");
    vulkan_trial_fini(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attends_without_units),
        cmocka_unit_test(attends_in_units),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
