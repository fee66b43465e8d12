/*
 * The seed determines the schedule. Half of the chunks have one row, as in decoding. A third of the
 * chunks end with drafts, of which random ones are wrong; those before the first wrong one count.
 */
#include "tests/support/recurrent_schedule.h"

#include <math.h>
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
#define CHUNK_MAX 30u

struct scene {
    const struct recurrent_schedule_options *options;
    struct model_runner *runner;
    uint32_t vocab;
    uint32_t ids[STORIES][POSITIONS];
    float *alone[STORIES]; /* [POSITIONS, vocab] */
    struct test_random random;
    uint32_t story[SLOTS];
    uint32_t at[SLOTS];   /* positions computed */
    uint32_t kept[SLOTS]; /* after which state was kept; 0: none since the story began */
    uint32_t late[SLOTS]; /* accepted drafts of the last part */
    uint32_t drafted[SLOTS][POSITIONS]; /* tokens of the part */
    uint32_t rewound;
    uint32_t accepted;
    uint32_t refused;
    uint32_t compared;
    uint32_t begun;
    uint32_t dropped;
};

static void open_scene(struct scene *scene, const struct recurrent_schedule_options *wanted)
{
    struct model_runner_options options = {.vulkan = wanted->vulkan,
                                           .threads = wanted->threads,
                                           .sequences = SLOTS,
                                           .sequence_tokens = POSITIONS,
                                           .step_rows = SLOTS * POSITIONS};
    *scene = (struct scene){.options = wanted, .random = {.state = 77}};
    scene->runner = model_runner_create(wanted->path, &options);
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
        scene->at[slot] = POSITIONS; /* done: the next look begins a new story */
}

static void close_scene(struct scene *scene)
{
    model_runner_destroy(scene->runner);
    for (uint32_t story = 0; story < STORIES; story++)
        free(scene->alone[story]);
}

/* Restarts the slot of a sequence that is done or was dropped: at its kept state, or with a random
 * story at position 0. */
static void begin_anew(struct scene *scene, uint32_t slot)
{
    scene->dropped += scene->at[slot] < POSITIONS;
    scene->late[slot] = 0;
    if (scene->kept[slot] > 0 && scene->kept[slot] < POSITIONS &&
        test_random_below(&scene->random, 2)) {
        model_runner_rewind(scene->runner, slot);
        scene->at[slot] = scene->kept[slot];
        scene->rewound++;
        return;
    }
    scene->kept[slot] = 0;
    scene->begun++;
    model_runner_reset(scene->runner, slot);
    scene->at[slot] = 0;
    if (test_random_below(&scene->random, 3) > 0)
        scene->story[slot] = test_random_below(&scene->random, STORIES);
}

static void compare_row(const struct scene *scene, uint32_t slot, uint32_t position,
                        const float *logits, const float *alone)
{
    double largest = 0, difference = 0;
    if (memcmp(logits, alone, scene->vocab * sizeof(float)) == 0)
        return;
    for (uint32_t i = 0; i < scene->vocab; i++) {
        largest = fmax(largest, fabs((double)alone[i]));
        difference = fmax(difference, fabs((double)logits[i] - (double)alone[i]));
    }
    if (!(difference <= scene->options->difference_most * largest) ||
        scene->options->difference_most <= 0)
        fail_msg("%s: slot %u, position %u: %g off what the sequence gives alone",
                 scene->options->path, slot, position, difference / largest);
}

/* Lets the part end with drafts. Returns how many of its tokens are right. */
static uint32_t draw_drafts(struct scene *scene, struct model_runner_part *part)
{
    uint32_t *tokens = scene->drafted[part->slot];
    uint32_t right = part->count;
    memcpy(tokens, part->tokens, part->count * sizeof *tokens);
    part->tokens = tokens;
    if (part->count > 1 && test_random_below(&scene->random, 3) == 0)
        part->drafts = 1 + test_random_below(&scene->random, part->count - 1);
    for (uint32_t i = part->count - part->drafts; i < part->count; i++) {
        if (test_random_below(&scene->random, 6) > 0)
            continue;
        tokens[i] =
            (tokens[i] + 1 + test_random_below(&scene->random, scene->vocab - 1)) % scene->vocab;
        right = i < right ? i : right;
    }
    return right;
}

static void draw_keeping(struct scene *scene, struct model_runner_part *part)
{
    uint32_t advancing = scene->late[part->slot] + part->count - part->drafts;
    part->keeps_state = test_random_below(&scene->random, 3) == 0;
    if (part->keeps_state && test_random_below(&scene->random, 2))
        part->rows_after_kept = test_random_below(&scene->random, advancing);
}

static void accept(struct scene *scene, const struct model_runner_part *part, uint32_t right)
{
    uint32_t slot = part->slot, certain = part->count - part->drafts;
    if (part->keeps_state)
        scene->kept[slot] = scene->at[slot] + certain - part->rows_after_kept;
    scene->at[slot] += right;
    scene->late[slot] = right - certain;
    model_runner_accept(scene->runner, slot, right - certain);
    scene->accepted += right - certain;
    scene->refused += part->count - right;
}

static void take_step(struct scene *scene)
{
    uint32_t right[SLOTS];
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
        right[count - 1] = draw_drafts(scene, &parts[count - 1]);
        draw_keeping(scene, &parts[count - 1]);
    }
    if (count == 0)
        return;
    const float *logits = model_runner_step(scene->runner, parts, count);
    for (uint32_t part = 0; part < count; part++) {
        uint32_t slot = parts[part].slot;
        for (uint32_t r = 0; r < parts[part].count; r++, logits += scene->vocab) {
            uint32_t position = scene->at[slot] + r;
            if (r < right[part])
                compare_row(scene, slot, position, logits,
                            scene->alone[scene->story[slot]] + (size_t)position * scene->vocab);
        }
        accept(scene, &parts[part], right[part]);
        scene->compared += right[part];
    }
}

void recurrent_schedule_check(const struct recurrent_schedule_options *options)
{
    struct scene scene;
    open_scene(&scene, options);
    for (uint32_t step = 0; step < options->steps; step++)
        take_step(&scene);
    assert_true(scene.compared > 9 * options->steps);
    assert_true(scene.accepted > options->steps / 4 && scene.refused > options->steps / 4);
    assert_true(scene.begun > options->steps / 6);
    assert_true(scene.dropped > options->steps / 12);
    assert_true(scene.rewound > options->steps / 20);
    close_scene(&scene);
}
