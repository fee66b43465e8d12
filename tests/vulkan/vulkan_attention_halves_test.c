/*
 * Decodes over keys and values in f16 in matrix units whose registers are known, against attention in
 * double: head sizes, groups of query heads, windows, soft caps, splits, lengths around the end of a block,
 * over a cache whose unseen places are NaN.
 *
 * The variant without units runs on every device, the one with units where their registers are known.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/vulkan_fixture.h"
#include "tests/support/vulkan_heads_scene.h"
#include "worker/backend/vulkan/device/vulkan_register_probe.h"
#include "worker/plan/model_config.h"

#define TOLERANCE 1e-3 /* half of op_list.h's for attention: weights alone are f16 */

struct halves_case {
    uint32_t head_dim, heads, kv_heads, window;
    float soft_cap;
    uint32_t tile_blocks, subgroups, splits; /* splits 0: the policy's choice */
};
static const struct halves_case cases[] = {
    {128, 8, 2, 0, 0, 1, 2, 3},  {128, 8, 1, 0, 1.5f, 2, 1, 2}, {64, 9, 3, 40, 0, 1, 4, 1},
    {64, 12, 1, 0, 0, 2, 2, 30}, {128, 5, 1, 24, 0, 1, 2, 2},   {128, 4, 4, 0, 0, 0, 0, 0},
};
#define CASES      (sizeof cases / sizeof cases[0])
#define SLOW_CASES 3u /* on a driver for the CPU, which compiles each for seconds */

static const struct heads_scene_part parts[] = {{1, 0},  {1, 1},   {1, 15}, {3, 8},
                                                {1, 16}, {1, 300}, {1, 701}};
#define PARTS (sizeof parts / sizeof parts[0])

static struct vulkan_attention_shape shape_of(const struct halves_case *c)
{
    return (struct vulkan_attention_shape){
        .head_dim = c->head_dim,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .window = c->window,
        .kv_group = c->window > 0 ? 1 : 0,
        .stride = (c->heads + 2 * c->kv_heads) * c->head_dim,
        .key_offset = c->heads * c->head_dim,
        .value_offset = (c->heads + c->kv_heads) * c->head_dim,
        .scale = 4.0f / sqrtf((float)c->head_dim), /* as sharp as models are at most */
        .soft_cap = c->soft_cap,
        .pairing = ROPE_PAIRS_HALVES,
        .rope_dims = c->head_dim,
        .magnitude = 1.0f,
    };
}

static const struct vulkan_facts known = {.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                          .tier = VULKAN_KHR_MATRIX,
                                          .matrix_registers = true,
                                          .subgroup_size = 32,
                                          .max_invocations = 1024,
                                          .shared_bytes = 49152,
                                          .compute_units = 132};

/* The policy's choice on a GPU with known registers, except for the case's own sizes. */
static struct vulkan_attention_choice choose(const struct halves_case *c,
                                             const struct vulkan_attention_shape *shape)
{
    struct vulkan_attention_task task = {
        .shape = *shape, .items = PARTS + 1, .forms = VULKAN_FORM_F32};
    struct vulkan_attention_choice choice = vulkan_attention_policy_choose(&known, &task);
    uint32_t *values = choice.specialization.values;
    assert_string_equal(choice.shader, "attention_halves_units");
    if (c->splits == 0)
        return choice;
    values[VULKAN_ATTENTION_CODES_TILE_BLOCKS] = c->tile_blocks;
    values[VULKAN_ATTENTION_CODES_SUBGROUPS] = c->subgroups;
    values[VULKAN_ATTENTION_CODES_INVOCATIONS] = 32 * c->subgroups;
    choice.grid.y = c->splits;
    choice.partial_bytes = (uint64_t)choice.grid.x * choice.grid.z * c->splits * 16384;
    choice.counter_bytes = (uint64_t)choice.grid.x * choice.grid.z * 4;
    return choice;
}

static void attend(const struct heads_scene *scene, const struct vulkan_attention_choice *choice,
                   const struct vulkan_buffer *out)
{
    struct vulkan_attention_rows_push push = heads_scene_attention_push(scene);
    const struct vulkan_buffer *partials =
        vulkan_trial_buffer(scene->trial, NULL, choice->partial_bytes + 16);
    const struct vulkan_buffer *counters =
        vulkan_trial_buffer(scene->trial, NULL, choice->counter_bytes + 16);
    memset(counters->mapped, 0, counters->bytes);
    push.partials = partials->address;
    push.counters = counters->address;
    push.outputs = (struct vulkan_outputs_push){.f32 = out->address};
    vulkan_trial_run(scene->trial, choice->shader, &choice->specialization, &push, sizeof push,
                     choice->grid);
    for (uint64_t i = 0; i < choice->counter_bytes / 4; i++)
        assert_int_equal(((const uint32_t *)counters->mapped)[i], 0);
}

/* Of rows that are their sequence's only one. */
static double largest_error(const struct heads_scene *scene, const float *got)
{
    uint32_t columns = scene->shape.heads * scene->shape.head_dim;
    double *expected = calloc(columns, sizeof *expected), worst = 0.0;
    for (uint32_t row = 0; row < scene->rows; row++) {
        if (scene->parts[heads_scene_part_of(scene, row)].rows > 1)
            continue;
        double largest = 0.0;
        heads_scene_attend(scene, row, expected);
        for (uint32_t i = 0; i < columns; i++)
            largest = fmax(largest, fabs(expected[i]));
        for (uint32_t i = 0; i < columns; i++) {
            double error = fabs((double)got[(size_t)row * columns + i] - expected[i]) / largest;
            if (!(error <= TOLERANCE))
                fail_msg("row %u at %u: %.9g, not %.9g", row, i,
                         (double)got[(size_t)row * columns + i], expected[i]);
            worst = fmax(worst, error);
        }
    }
    free(expected);
    return worst;
}

static void run_case(struct vulkan_trial *trial, const struct halves_case *c, const char *shader)
{
    struct test_random random = {7};
    const struct vulkan_attention_shape shape = shape_of(c);
    struct heads_scene *scene = heads_scene_create(trial, &random, &shape, false, parts, PARTS);
    struct vulkan_attention_choice choice = choose(c, &shape);
    const struct vulkan_buffer *out = vulkan_trial_buffer(
        trial, NULL, (uint64_t)scene->rows * shape.heads * shape.head_dim * sizeof(float));
    heads_scene_write_rows(scene);
    choice.shader = shader;
    attend(scene, &choice, out);
    print_message("%s %u/%u of %u: largest error %.2g\n", shader, c->heads, c->kv_heads,
                  c->head_dim, largest_error(scene, out->mapped));
    heads_scene_destroy(scene);
    vulkan_trial_clear(trial);
}

static void attends_without_units(void **state)
{
    struct vulkan_trial trial;
    if (vulkan_fixture_share(*state) == VULKAN_SHARE_MATRIX)
        vulkan_fixture_skip("the driver without matrix units runs this");
    vulkan_trial_init(&trial, *state);
    for (size_t i = 0; i < SLOW_CASES; i++)
        run_case(&trial, &cases[i], "attention_halves_plain");
    vulkan_trial_fini(&trial);
}

static void attends_in_units_whose_registers_are_known(void **state)
{
    struct vulkan_trial trial;
    vulkan_trial_init(&trial, *state);
    bool is_known = vulkan_register_probe(trial.device, trial.kernels);
    for (size_t i = 0; is_known && i < CASES; i++)
        run_case(&trial, &cases[i], "attention_halves_units");
    vulkan_trial_fini(&trial);
    if (!is_known)
        vulkan_fixture_skip("the device has no matrices in registers");
}

/* Few sequences write their keys as they attend, in the other kernel; so do heads that it cannot take. */
static void leaves_the_rest_to_the_other_kernel(void **state)
{
    const struct vulkan_attention_task usual = {
        .shape = shape_of(&cases[0]), .items = 20, .forms = VULKAN_FORM_F32};
    (void)state;
    for (uint32_t kv_heads = 1; kv_heads <= 8; kv_heads *= 2) {
        struct vulkan_attention_shape shape = usual.shape;
        shape.kv_heads = kv_heads;
        assert_false(vulkan_attention_policy_fuses(&known, &shape, 72 / kv_heads));
        assert_true(vulkan_attention_policy_fuses(&known, &shape, 72 / kv_heads - 1));
    }
    for (uint32_t i = 0; i < 5; i++) {
        struct vulkan_facts facts = known;
        struct vulkan_attention_task task = usual;
        facts.matrix_registers = i != 0;
        facts.subgroup_size = i == 1 ? 64 : 32;
        facts.tier = i == 2 ? VULKAN_DOT : known.tier;
        task.shape.head_dim = i == 3 ? 96 : 128;
        task.fuse = i == 4 ? VULKAN_ATTENTION_FUSE_ROPE : 0;
        struct vulkan_attention_choice choice = vulkan_attention_policy_choose(&facts, &task);
        assert_string_equal(choice.shader, "attention_rows");
        assert_true(i == 4 || vulkan_attention_policy_fuses(&facts, &task.shape, 72));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_the_rest_to_the_other_kernel),
        cmocka_unit_test(attends_without_units),
        cmocka_unit_test(attends_in_units_whose_registers_are_known),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
