/*
 * The same drawn steps run on one device and on several. The number of rows of a step is the same in
 * both, so that a Vulkan device uses the same kernels.
 */
#include "tests/support/split_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/tower_scene.h"
#include "worker/plan/plan_split.h"

#define SLOTS     3u
#define POSITIONS 40u
#define CHUNK_MAX 19u
#define STEPS     14u

struct drawn_step {
    uint32_t counts[SLOTS]; /* 0: not in the step */
    bool begins[SLOTS];     /* at position 0 again */
};

struct schedule {
    uint32_t ids[SLOTS][POSITIONS];
    struct drawn_step steps[STEPS];
    uint32_t rows;
};

static void draw_schedule(struct schedule *schedule, struct test_random *random, uint32_t vocab)
{
    uint32_t at[SLOTS] = {0};
    *schedule = (struct schedule){.rows = 0};
    for (uint32_t s = 0; s < SLOTS; s++)
        for (uint32_t i = 0; i < POSITIONS; i++)
            schedule->ids[s][i] = test_random_below(random, vocab);
    for (uint32_t i = 0; i < STEPS; i++) {
        struct drawn_step *step = &schedule->steps[i];
        bool decodes = test_random_below(random, 3) == 0;
        for (uint32_t s = 0; s < SLOTS; s++) {
            uint32_t left = POSITIONS - at[s];
            step->begins[s] = i == 0 || left == 0;
            left = step->begins[s] ? POSITIONS : left;
            if (test_random_below(random, 4) == 0 && s > 0)
                left = 0;
            uint32_t rows = decodes ? 1 : 1 + test_random_below(random, CHUNK_MAX);
            step->counts[s] = rows < left ? rows : left;
            if (step->begins[s] && step->counts[s] == 0)
                step->begins[s] = false;
            at[s] = (step->begins[s] ? 0 : at[s]) + step->counts[s];
            schedule->rows += step->counts[s];
        }
    }
}

/* Runs the steps; returns the logits of all rows in order. */
static float *run_schedule(struct model_runner *runner, const struct schedule *schedule,
                           uint32_t vocab)
{
    float *logits = must_alloc((size_t)schedule->rows * vocab, sizeof(float));
    uint32_t at[SLOTS] = {0}, done = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        const struct drawn_step *step = &schedule->steps[i];
        struct model_runner_part parts[SLOTS];
        uint32_t count = 0, rows = 0;
        for (uint32_t s = 0; s < SLOTS; s++) {
            if (step->begins[s]) {
                model_runner_reset(runner, s);
                at[s] = 0;
            }
            if (step->counts[s] == 0)
                continue;
            parts[count++] = (struct model_runner_part){
                .slot = s, .tokens = schedule->ids[s] + at[s], .count = step->counts[s]};
            at[s] += step->counts[s];
            rows += step->counts[s];
        }
        const float *found = model_runner_step(runner, parts, count);
        memcpy(logits + (size_t)done * vocab, found, (size_t)rows * vocab * sizeof(float));
        done += rows;
    }
    must(done == schedule->rows);
    return logits;
}

static void compare(struct split_trial *trial, const char *what, const struct model_runner *split,
                    const float *found, const float *expected, uint32_t rows, uint32_t vocab)
{
    for (size_t i = 0; i < (size_t)rows * vocab; i++)
        if (memcmp(&found[i], &expected[i], sizeof(float)) != 0)
            fail_msg("%s, %s: row %zu, token %zu: %.9g, on one device %.9g", what,
                     model_runner_description(split), i / vocab, i % vocab, (double)found[i],
                     (double)expected[i]);
    trial->compared += rows;
}

static struct model_runner_options options_of(const struct split_trial *trial)
{
    return (struct model_runner_options){.vulkan = trial->vulkan,
                                         .threads = 1,
                                         .sequences = SLOTS,
                                         .sequence_tokens = POSITIONS,
                                         .step_rows = SLOTS * CHUNK_MAX};
}

/* Parts that end after these layers. */
static void set_stages(struct model_runner_options *options, const uint32_t *ends, uint32_t count)
{
    options->stage_count = count;
    for (uint32_t i = 0; i < count; i++)
        options->stages[i] =
            (struct backend_stage){.device = {options->vulkan ? DEVICE_VULKAN : DEVICE_CPU,
                                              options->vulkan ? options->vulkan->device : 0},
                                   .layers = ends[i] - (i > 0 ? ends[i - 1] : 0)};
}

/* Where the plan is cut, one trial each: at one boundary, or the last time, unless boundaries are drawn,
 * at all of them. */
struct divisions {
    uint32_t cut_count;
    struct plan_cut cuts[LIMIT_LAYERS];
    uint32_t layers;
    uint32_t done;
    uint32_t wanted;
};

static struct divisions divisions_of(const struct split_trial *trial, const struct plan *plan)
{
    struct divisions divisions = {.layers = plan->config.layers};
    divisions.cut_count = plan_split_cuts(plan, divisions.cuts);
    divisions.wanted = divisions.cut_count;
    if (trial->cuts_most > 0 && trial->cuts_most < divisions.wanted)
        divisions.wanted = trial->cuts_most;
    must(divisions.cut_count > 0);
    return divisions;
}

/* Sets the stages of the next trial; false: all are done. */
static bool next_division(struct split_trial *trial, struct divisions *divisions,
                          struct model_runner_options *options)
{
    uint32_t ends[LIMIT_SPLIT_DEVICES], count = 0;
    bool drawn = trial->cuts_most > 0;
    if (divisions->done == divisions->wanted + !drawn)
        return false;
    uint32_t chosen =
        drawn ? test_random_below(&trial->random, divisions->cut_count) : divisions->done;
    for (uint32_t i = 0; i < divisions->cut_count && count + 1 < LIMIT_SPLIT_DEVICES; i++)
        if (divisions->done == divisions->wanted || i == chosen)
            ends[count++] = divisions->cuts[i].layers;
    ends[count++] = divisions->layers;
    set_stages(options, ends, count);
    divisions->done++;
    return true;
}

void split_trial_text(struct split_trial *trial, const char *path,
                      struct kv_quantization quantization)
{
    struct model_runner_options options = options_of(trial);
    struct schedule schedule;
    options.quantization = quantization;
    struct model_runner *runner = model_runner_create(path, &options);
    uint32_t vocab = model_runner_plan(runner)->config.vocab_tokens;
    struct divisions divisions = divisions_of(trial, model_runner_plan(runner));
    draw_schedule(&schedule, &trial->random, vocab);
    float *expected = run_schedule(runner, &schedule, vocab);
    model_runner_destroy(runner);
    while (next_division(trial, &divisions, &options)) {
        runner = model_runner_create(path, &options);
        float *found = run_schedule(runner, &schedule, vocab);
        compare(trial, path, runner, found, expected, schedule.rows, vocab);
        model_runner_destroy(runner);
        free(found);
    }
    printf("%s: cut at %u boundaries\n", path, divisions.cut_count);
    free(expected);
}

/* --- images ----------------------------------------------------------------------------------- */

/* Prompt after prompt in two pieces; the second begins after a span. Returns all logits. */
static float *run_prompts(struct model_runner *runner, const struct tower_scene *scene,
                          uint32_t *rows)
{
    float *logits = must_alloc((size_t)SCENE_PROMPTS * SCENE_TOKENS * scene->vocab, sizeof(float));
    *rows = 0;
    model_runner_encode(runner, &(struct encode_batch){scene->image_count, scene->images});
    for (uint32_t p = 0; p < scene->prompt_count; p++) {
        const struct scene_prompt *prompt = &scene->prompts[p];
        uint32_t middle = prompt->span_ends[prompt->count / 2];
        for (uint32_t from = 0, end = middle; from < prompt->count;
             from = end, end = prompt->count) {
            struct model_runner_part part = tower_scene_part(runner, prompt, 0, from, end);
            const float *found = model_runner_step(runner, &part, 1);
            memcpy(logits + (size_t)*rows * scene->vocab, found,
                   (size_t)(end - from) * scene->vocab * sizeof(float));
            *rows += end - from;
        }
        model_runner_reset(runner, 0);
    }
    return logits;
}

void split_trial_images(struct split_trial *trial, const char *family)
{
    static struct tower_scene scene;
    struct model_runner_options options = options_of(trial);
    uint32_t rows, expected_rows;
    tower_scene_read(family, &scene);
    options.sequence_tokens = options.step_rows = SCENE_TOKENS;
    options.feature_rows = scene.feature_rows;
    struct model_runner *runner = model_runner_create(scene.path, &options);
    struct divisions divisions = divisions_of(trial, model_runner_plan(runner));
    float *expected = run_prompts(runner, &scene, &expected_rows);
    model_runner_destroy(runner);
    while (next_division(trial, &divisions, &options)) {
        runner = model_runner_create(scene.path, &options);
        float *found = run_prompts(runner, &scene, &rows);
        must(rows == expected_rows);
        compare(trial, family, runner, found, expected, rows, scene.vocab);
        model_runner_destroy(runner);
        free(found);
    }
    printf("%s: cut at %u boundaries\n", family, divisions.cut_count);
    free(expected);
    tower_scene_free(&scene);
}
