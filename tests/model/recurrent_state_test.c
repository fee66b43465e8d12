/*
 * Families that keep state beside keys and values, driven by random schedules: sequences advance by
 * chunks of any size in any company, are thrown away in the middle, and begin again at position 0
 * in a slot that somebody else left (what a cancel or a preemption comes to). Each position's
 * logits have the bits that the sequence gives alone and in one piece.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/model_runner.h"
#include "tests/support/test_random.h"

#define SLOTS     3u
#define STORIES   5u /* different sequences of tokens */
#define POSITIONS 70u
#define STEPS     220u
#define CHUNK_MAX 30u

struct scene {
    struct model_runner *runner;
    uint32_t vocab;
    uint32_t ids[STORIES][POSITIONS];
    float *alone[STORIES]; /* [POSITIONS, vocab] */
    struct test_random random;
    uint32_t story[SLOTS];
    uint32_t at[SLOTS]; /* positions computed */
    uint32_t compared;
    uint32_t begun;
    uint32_t dropped;
};

static void open_scene(struct scene *scene, const char *path, uint32_t threads)
{
    struct model_runner_options options = {.threads = threads,
                                           .sequences = SLOTS,
                                           .sequence_tokens = POSITIONS,
                                           .step_rows = SLOTS * POSITIONS};
    *scene = (struct scene){.random = {.state = 77}};
    scene->runner = model_runner_create(path, &options);
    assert_true(model_runner_plan(scene->runner)->state.layers > 0);
    scene->vocab = model_runner_plan(scene->runner)->config.vocab_tokens;
    size_t floats = (size_t)POSITIONS * scene->vocab;
    for (uint32_t story = 0; story < STORIES; story++) {
        for (uint32_t i = 0; i < POSITIONS; i++)
            scene->ids[story][i] = test_random_below(&scene->random, scene->vocab);
        struct model_runner_part whole = {
            .slot = story % SLOTS, .tokens = scene->ids[story], .count = POSITIONS};
        model_runner_reset(scene->runner, whole.slot);
        scene->alone[story] = must_alloc(floats, sizeof(float));
        memcpy(scene->alone[story], model_runner_step(scene->runner, &whole, 1),
               floats * sizeof(float));
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        scene->at[slot] = POSITIONS; /* done: it begins anew */
}

static void close_scene(struct scene *scene)
{
    model_runner_destroy(scene->runner);
    for (uint32_t story = 0; story < STORIES; story++)
        free(scene->alone[story]);
}

/* A sequence that is done, or out of luck, gives its slot to another, or to itself again. */
static void begin_anew(struct scene *scene, uint32_t slot)
{
    scene->dropped += scene->at[slot] < POSITIONS;
    scene->begun++;
    model_runner_reset(scene->runner, slot);
    scene->at[slot] = 0;
    if (test_random_below(&scene->random, 3) > 0)
        scene->story[slot] = test_random_below(&scene->random, STORIES);
}

static void take_step(struct scene *scene)
{
    struct model_runner_part parts[SLOTS];
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (scene->at[slot] == POSITIONS || test_random_below(&scene->random, 12) == 0)
            begin_anew(scene, slot);
        if (test_random_below(&scene->random, 4) == 0)
            continue;
        uint32_t left = POSITIONS - scene->at[slot];
        uint32_t rows = test_random_below(&scene->random, 2)
                            ? 1
                            : 1 + test_random_below(&scene->random, CHUNK_MAX);
        parts[count++] =
            (struct model_runner_part){.slot = slot,
                                       .tokens = scene->ids[scene->story[slot]] + scene->at[slot],
                                       .count = rows < left ? rows : left};
    }
    if (count == 0)
        return;
    const float *logits = model_runner_step(scene->runner, parts, count);
    for (uint32_t part = 0; part < count; part++) {
        uint32_t slot = parts[part].slot;
        size_t floats = (size_t)parts[part].count * scene->vocab;
        const float *alone =
            scene->alone[scene->story[slot]] + (size_t)scene->at[slot] * scene->vocab;
        if (memcmp(logits, alone, floats * sizeof(float)) != 0)
            fail_msg("slot %u, positions from %u: not what the sequence gives alone", slot,
                     scene->at[slot]);
        scene->at[slot] += parts[part].count;
        scene->compared += parts[part].count;
        logits += floats;
    }
}

static void check_model(const char *path)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct scene scene;
        open_scene(&scene, path, threads);
        for (uint32_t step = 0; step < STEPS; step++)
            take_step(&scene);
        assert_true(scene.compared > 2000);
        assert_true(scene.begun > 40);
        assert_true(scene.dropped > 20);
        close_scene(&scene);
    }
}

static void test_lfm2(void **state)
{
    (void)state;
    check_model("build/checkpoints/lfm2-bf16");
}

static void test_qwen3_5(void **state)
{
    (void)state;
    check_model("build/checkpoints/qwen3_5-f16.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lfm2),
        cmocka_unit_test(test_qwen3_5),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
