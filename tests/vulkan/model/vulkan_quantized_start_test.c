/*
 * --quantized-kv-start on a Vulkan device: whole tiny checkpoints through random schedules of three
 * sequences, in which rows before and after the start share steps, prompts cross it and decode
 * steps are submitted again, against the CPU backend with the same input. Codes have three and four
 * bits, so that a row that reads the wrong form is off by 2e-2 or more. Some numbers get a
 * neighbouring code on one of the backends; the bound allows for that.
 */
// tags: no-sanitizers native
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/model_runner.h"
#include "tests/support/test_random.h"
#include "tests/support/vulkan_fixture.h"

#define SLOTS     3u
#define POSITIONS 70u
#define START     37u
#define CHUNK_MAX 30u
#define STEPS     90u

/* Root mean square of a row's differences, as share of its largest logit. */
#define DIFFERENCE_MAX 8e-3

struct scene {
    struct model_runner *judged;
    struct model_runner *cpu;
    uint32_t vocab;
    struct test_random random;
    uint32_t ids[SLOTS][POSITIONS];
    uint32_t at[SLOTS]; /* positions computed */
    uint32_t early;     /* rows compared that see no more than the start */
    uint32_t late;
    double worst;
};

static void begin_anew(struct scene *scene, uint32_t slot)
{
    model_runner_reset(scene->judged, slot);
    model_runner_reset(scene->cpu, slot);
    scene->at[slot] = 0;
    for (uint32_t i = 0; i < POSITIONS; i++)
        scene->ids[slot][i] = test_random_below(&scene->random, scene->vocab);
}

/* Half of the steps are of one row of each sequence. */
static uint32_t draw_parts(struct scene *scene, struct model_runner_part parts[SLOTS])
{
    bool decodes = test_random_below(&scene->random, 2) == 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (scene->at[slot] == POSITIONS)
            begin_anew(scene, slot);
        uint32_t left = POSITIONS - scene->at[slot];
        uint32_t rows = decodes ? 1 : 1 + test_random_below(&scene->random, CHUNK_MAX);
        parts[slot] = (struct model_runner_part){.slot = slot,
                                                 .tokens = scene->ids[slot] + scene->at[slot],
                                                 .count = rows < left ? rows : left};
    }
    return SLOTS;
}

static void take_step(struct scene *scene)
{
    struct model_runner_part parts[SLOTS];
    uint32_t count = draw_parts(scene, parts);
    const float *judged = model_runner_step(scene->judged, parts, count);
    const float *cpu = model_runner_step(scene->cpu, parts, count);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        for (uint32_t r = 0; r < parts[slot].count; r++) {
            double difference = model_runner_row_difference(judged, cpu, scene->vocab);
            uint32_t position = scene->at[slot] + r;
            if (!(difference <= DIFFERENCE_MAX))
                fail_msg("slot %u, position %u: %g off", slot, position, difference);
            scene->worst = fmax(scene->worst, difference);
            scene->early += position < START;
            scene->late += position >= START;
            judged += scene->vocab;
            cpu += scene->vocab;
        }
        scene->at[slot] += parts[slot].count;
    }
}

static void check(const char *path, const struct kv_quantization *quantization)
{
    static const struct vulkan_settings vulkan = {.tier_limit = VULKAN_SCALAR,
                                                  .kernels_when_needed = true};
    struct model_runner_options options = {.threads = 1,
                                           .quantization = *quantization,
                                           .sequences = SLOTS,
                                           .sequence_tokens = POSITIONS,
                                           .step_rows = SLOTS * CHUNK_MAX};
    struct scene scene = {.random = {.state = 5}};
    scene.cpu = model_runner_create(path, &options);
    options.vulkan = &vulkan;
    scene.judged = model_runner_create(path, &options);
    scene.vocab = model_runner_plan(scene.cpu)->config.vocab_tokens;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        begin_anew(&scene, slot);
    for (uint32_t step = 0; step < STEPS; step++)
        take_step(&scene);
    assert_true(scene.early > 5 * STEPS && scene.late > 5 * STEPS);
    printf("%s: %u rows before the start and %u behind it, at most %.1e off\n", path, scene.early,
           scene.late, scene.worst);
    model_runner_destroy(scene.judged);
    model_runner_destroy(scene.cpu);
}

static void test_turboquant(void **state)
{
    (void)state;
    check("build/checkpoints/llama-f32",
          &(struct kv_quantization){KV_QUANT_TURBOQUANT, 8, 8, 0, START});
}

/* Heads rotated by a matrix, whose halves end in the middle of a 16-bit word on both sides. */
static void test_half_bits(void **state)
{
    (void)state;
    check("build/checkpoints/glm4-wide-heads",
          &(struct kv_quantization){KV_QUANT_TURBOQUANT, 7, 7, 0, START});
}

/* Norms of heads, which are written with them. */
static void test_uniform(void **state)
{
    (void)state;
    check("build/checkpoints/qwen3-f32",
          &(struct kv_quantization){KV_QUANT_UNIFORM, 8, 8, 0, START});
}

/* Four groups: a window, a quantized group, its opening and a last layer in full precision. */
static void test_windows(void **state)
{
    (void)state;
    check("build/checkpoints/gemma4_moe-f32",
          &(struct kv_quantization){KV_QUANT_TURBOQUANT, 8, 8, 0, START});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turboquant),
        cmocka_unit_test(test_half_bits),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_windows),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
