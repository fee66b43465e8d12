/*
 * --batch-invariant: the logits of every row have the same bits whether its sequence is alone and in
 * one piece, alone token by token, or one of sixteen that advance by random chunks and are dropped
 * and begun again, as after a preemption or a worker's death. Kinds of plans: full attention,
 * windows, quantized keys and values with a start, mixtures of experts, recurrent state, and
 * quantized weights.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/model_runner.h"
#include "tests/support/test_random.h"
#include "tests/support/vulkan_fixture.h"

#define SLOTS     16u
#define POSITIONS 40u
#define START     21u /* of quantized keys and values */
#define CHUNK_MAX 20u
#define STEPS     20u

static struct vulkan_device *device;

struct scene {
    const char *path;
    struct model_runner *runner;
    uint32_t vocab;
    struct test_random random;
    uint32_t ids[SLOTS][POSITIONS];
    float *alone[SLOTS]; /* [POSITIONS, vocab] */
    uint32_t at[SLOTS];  /* positions computed */
    uint32_t compared;
    uint32_t dropped;
};

static void compare(struct scene *scene, uint32_t slot, uint32_t count, const float *logits)
{
    for (uint32_t r = 0; r < count; r++) {
        const float *alone = scene->alone[slot] + (size_t)(scene->at[slot] + r) * scene->vocab;
        for (uint32_t t = 0; t < scene->vocab; t++)
            if (memcmp(&logits[r * scene->vocab + t], &alone[t], sizeof(float)) != 0)
                fail_msg("%s: slot %u, position %u of a part of %u, token %u: %.9g, alone %.9g",
                         scene->path, slot, scene->at[slot] + r, count, t,
                         (double)logits[r * scene->vocab + t], (double)alone[t]);
    }
    scene->compared += count;
}

/* In one piece, and some token by token too. */
static void run_alone(struct scene *scene, uint32_t slot)
{
    size_t floats = (size_t)POSITIONS * scene->vocab;
    const struct model_runner_part whole = {
        .slot = slot, .tokens = scene->ids[slot], .count = POSITIONS};
    scene->alone[slot] = must_alloc(floats, sizeof(float));
    memcpy(scene->alone[slot], model_runner_step(scene->runner, &whole, 1), floats * sizeof(float));
    model_runner_reset(scene->runner, slot);
    if (slot % 16 != 0)
        return;
    for (scene->at[slot] = 0; scene->at[slot] < POSITIONS; scene->at[slot]++) {
        const struct model_runner_part one = {
            .slot = slot, .tokens = scene->ids[slot] + scene->at[slot], .count = 1};
        compare(scene, slot, 1, model_runner_step(scene->runner, &one, 1));
    }
}

static void begin_anew(struct scene *scene, uint32_t slot)
{
    scene->dropped += scene->at[slot] < POSITIONS;
    model_runner_reset(scene->runner, slot);
    scene->at[slot] = 0;
}

/* A third of the steps are decodes alone, whose commands are submitted again. */
static void take_step(struct scene *scene)
{
    struct model_runner_part parts[SLOTS];
    uint32_t count = 0;
    bool decodes = test_random_below(&scene->random, 3) == 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (scene->at[slot] == POSITIONS || test_random_below(&scene->random, 20) == 0)
            begin_anew(scene, slot);
        if (test_random_below(&scene->random, 4) == 0)
            continue;
        bool single = decodes || test_random_below(&scene->random, 2) == 0;
        uint32_t left = POSITIONS - scene->at[slot];
        uint32_t rows = single ? 1 : 1 + test_random_below(&scene->random, CHUNK_MAX);
        parts[count++] = (struct model_runner_part){.slot = slot,
                                                    .tokens = scene->ids[slot] + scene->at[slot],
                                                    .count = rows < left ? rows : left};
    }
    if (count == 0)
        return;
    const float *logits = model_runner_step(scene->runner, parts, count);
    for (uint32_t i = 0; i < count; i++) {
        compare(scene, parts[i].slot, parts[i].count, logits);
        scene->at[parts[i].slot] += parts[i].count;
        logits += (size_t)parts[i].count * scene->vocab;
    }
}

static void check(const char *path, struct kv_quantization quantization)
{
    static const struct vulkan_settings vulkan = {
        .tier_limit = VULKAN_TIER_HIGHEST, .batch_invariant = true, .kernels_when_needed = true};
    const struct model_runner_options options = {.vulkan = &vulkan,
                                                 .threads = 1,
                                                 .quantization = quantization,
                                                 .sequences = SLOTS,
                                                 .sequence_tokens = POSITIONS,
                                                 .step_rows = SLOTS * CHUNK_MAX};
    struct scene scene = {.path = path, .random = {.state = 20}};
    scene.runner = model_runner_create(path, &options);
    scene.vocab = model_runner_plan(scene.runner)->config.vocab_tokens;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        for (uint32_t i = 0; i < POSITIONS; i++)
            scene.ids[slot][i] = test_random_below(&scene.random, scene.vocab);
        scene.at[slot] = POSITIONS;
        run_alone(&scene, slot);
    }
    for (uint32_t step = 0; step < STEPS; step++)
        take_step(&scene);
    assert_true(scene.compared > 20 * STEPS && scene.dropped > STEPS / 6);
    printf("%s: %u rows, %u sequences dropped, no bit differs\n", path, scene.compared,
           scene.dropped);
    model_runner_destroy(scene.runner);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        free(scene.alone[slot]);
}

static const struct kv_quantization full = {.scheme = KV_QUANT_NONE};

static void test_full_attention(void **state)
{
    (void)state;
    check("build/checkpoints/llama-f32", full);
}

static void test_quantized_weights(void **state)
{
    (void)state;
    check("build/checkpoints/llama-q4_0.gguf", full);
}

/* Windows, experts, and codes after a start. */
static void test_windows_experts_and_codes(void **state)
{
    (void)state;
    check("build/checkpoints/gemma4_moe-f32",
          (struct kv_quantization){KV_QUANT_TURBOQUANT, 8, 8, 0, START});
}

static void skip_with_units(void)
{
    if (vulkan_fixture_share(device) == VULKAN_SHARE_MATRIX)
        vulkan_fixture_skip("the driver without matrix units runs it");
}

static void test_uniform_codes(void **state)
{
    (void)state;
    skip_with_units();
    check("build/checkpoints/qwen3-f32",
          (struct kv_quantization){KV_QUANT_UNIFORM, 8, 8, 0, START});
}

static void test_recurrent_state(void **state)
{
    (void)state;
    skip_with_units();
    check("build/checkpoints/qwen3_5-f32.gguf", full);
}

static void test_short_convolutions(void **state)
{
    (void)state;
    skip_with_units();
    check("build/checkpoints/lfm2-f32", full);
}

static int setup(void **state)
{
    (void)state;
    return vulkan_fixture_setup((void **)&device);
}

static int teardown(void **state)
{
    (void)state;
    return vulkan_fixture_teardown((void **)&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_attention),
        cmocka_unit_test(test_quantized_weights),
        cmocka_unit_test(test_windows_experts_and_codes),
        cmocka_unit_test(test_uniform_codes),
        cmocka_unit_test(test_recurrent_state),
        cmocka_unit_test(test_short_convolutions),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
