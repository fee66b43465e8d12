/*
 * Every vision family, on tiny checkpoints: the tower gives the features of the reference, and
 * prompts with images give its logits. An image's features have the same bits alone or beside
 * others, on one thread or three, in small parts or at once. So have a prompt's logits, however its
 * rows are spread over steps and whichever prompts share them. The tokens that follow prompts with
 * images greedily are the reference's.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/model_runner.h"
#include "tests/support/tower_scene.h"
#include "worker/backend/cpu/cpu_image_encoder.h"

#define DIFFERENCE_MOST 1e-4 /* as a fraction of the largest number */
#define PATCH_ROWS      2048u

/* --- the tower by itself ---------------------------------------------------------------------- */

struct lone_tower {
    struct thread_pool *pool;
    struct cpu_image_encoder vision;
    struct cpu_image_encoder sound; /* zeroed if there is no tower of sounds beside it */
};

static void open_tower(struct lone_tower *tower, const struct plan *plan, enum cpu_tier tier,
                       uint32_t threads, uint32_t feature_rows)
{
    struct error_text error = {""};
    const struct backend_options options = {
        .vision = plan, .max_patch_rows = PATCH_ROWS, .feature_rows = feature_rows};
    memset(tower, 0, sizeof *tower);
    must(thread_pool_create(threads, &tower->pool, &error) == RESULT_OK);
    if (cpu_image_encoder_init(&tower->vision, &options, cpu_kernels_choose(tier), tower->pool,
                               NULL, NULL, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    if (plan->sound && cpu_image_encoder_init_sound(&tower->sound, &tower->vision, &options,
                                                    cpu_kernels_choose(tier), tower->pool, NULL,
                                                    NULL, &error) != RESULT_OK)
        fail_msg("%s", error.text);
}

static void close_tower(struct lone_tower *tower)
{
    cpu_image_encoder_fini(&tower->sound);
    cpu_image_encoder_fini(&tower->vision);
    thread_pool_destroy(tower->pool);
}

static void encode_some(struct cpu_image_encoder *encoder, const struct encode_image *images,
                        uint32_t count, uint64_t work_each)
{
    cpu_image_encoder_begin(encoder, &(const struct encode_batch){count, images});
    while (cpu_image_encoder_run(encoder, work_each) > 0)
        continue;
}

/* Fills the pool with NaN first. Sounds come before images. */
static void encode(struct lone_tower *tower, const struct encode_image *images, uint32_t count,
                   uint64_t work_each)
{
    const struct cpu_feature_pool *features = &tower->vision.features;
    memset(features->memory.bytes, 0xff, features->memory.byte_count);
    uint32_t sounds = 0;
    while (tower->sound.program.plan && sounds < count && images[sounds].shape.sound)
        sounds++;
    if (sounds > 0)
        encode_some(&tower->sound, images, sounds, work_each);
    if (sounds < count)
        encode_some(&tower->vision, images + sounds, count - sounds, work_each);
}

static const float *rows_of(const struct lone_tower *tower, uint32_t first)
{
    return cpu_feature_pool_row(&tower->vision.features, first);
}

static size_t feature_floats(const struct tower_scene *scene)
{
    return (size_t)scene->feature_rows * scene->feature_columns;
}

/* Encodes each image alone, in a tower with another number of threads, in one part. */
static void check_company(const struct tower_scene *scene, const struct plan *plan,
                          const float *together)
{
    struct lone_tower tower;
    open_tower(&tower, plan, CPU_TIER_BEST, 3, scene->feature_rows);
    for (uint32_t i = 0; i < scene->image_count; i++) {
        const struct encode_image *image = &scene->images[i];
        size_t floats =
            (size_t)model_vision_image_rows(&plan->vision, image->shape, &image->mosaic) *
            scene->feature_columns;
        encode(&tower, image, 1, UINT64_MAX);
        assert_memory_equal(rows_of(&tower, image->first_feature),
                            together + (size_t)image->first_feature * scene->feature_columns,
                            floats * sizeof(float));
    }
    close_tower(&tower);
}

static double check_features(const struct tower_scene *scene, const struct plan *plan)
{
    static const enum cpu_tier tiers[] = {CPU_TIER_PORTABLE, CPU_TIER_BEST};
    size_t floats = feature_floats(scene);
    double difference = 0;
    assert_int_equal(model_vision_feature_columns(&plan->vision), scene->feature_columns);
    for (uint32_t i = 0; i < 2; i++) {
        struct lone_tower tower;
        open_tower(&tower, plan, tiers[i], 1, scene->feature_rows);
        encode(&tower, scene->images, scene->image_count, 1);
        difference = tower_scene_difference(scene->features, rows_of(&tower, 0), floats);
        if (!(difference <= DIFFERENCE_MOST))
            fail_msg("%s: features differ by %g", scene->path, difference);
        if (tiers[i] == CPU_TIER_BEST)
            check_company(scene, plan, rows_of(&tower, 0));
        close_tower(&tower);
    }
    return difference;
}

/* The longest sound. */
static void make_sound(const struct model_vision *vision, struct encode_image *image)
{
    uint32_t rows = 2 * vision->sound_rows + (vision->sound_ends ? 0 : 1);
    float *values = must_alloc((size_t)rows * vision->mels, sizeof *values);
    for (uint32_t i = 0; i < rows * vision->mels; i++)
        values[i] = (float)(i * i % 251) / 251.0f - 0.5f;
    *image = (struct encode_image){
        .shape = {.tiles = 1, .width = vision->mels, .height = rows, .sound = 1},
        .pixels = (const uint8_t *)values};
}

/* An image of many patches: 12 squares on each side, or the tower's fixed size, once or twice. */
static void make_image(const struct model_vision *vision, struct encode_image *image)
{
    if (vision->mels > 0) {
        make_sound(vision, image);
        return;
    }
    uint32_t most = vision->max_side > 0 ? vision->max_side : UINT32_MAX;
    uint32_t side = 12 * vision->merge_side, tiles = vision->lined ? 2 : 1;
    side = vision->fixed_side > 0 ? vision->fixed_side : side < most ? side : most;
    side = vision->canvas_tiles > 0 ? vision->canvas_side : side;
    uint32_t pixels = side / vision->merge_side * vision->merge_side * vision->patch_side;
    uint8_t *bytes = must_alloc((size_t)tiles * pixels * pixels, 3);
    for (size_t i = 0; i < (size_t)tiles * pixels * pixels * 3; i++)
        bytes[i] = (uint8_t)(i * i % 251);
    *image = (struct encode_image){.shape = {.tiles = tiles, .width = pixels, .height = pixels},
                                   .pixels = bytes,
                                   .scale = {0.01f, 0.01f, 0.01f}};
    struct feature_grid grid = model_vision_grid(vision, image->shape);
    if (tiles > 1)
        image->mosaic =
            (struct image_mosaic){1, 1, grid.height, grid.width, grid.height, grid.width};
}

/* Returns the largest part, in work units of encode_part(), and sets the number of parts. */
static uint64_t largest_part(struct lone_tower *tower, const struct encode_image *image,
                             uint64_t work, uint64_t all, uint32_t *parts)
{
    uint64_t largest = 0;
    cpu_image_encoder_begin(&tower->vision, &(const struct encode_batch){1, image});
    for (uint64_t left = all; left > 0; ++*parts) {
        uint64_t before = left;
        left = cpu_image_encoder_run(&tower->vision, work);
        assert_true(left < before);
        largest = before - left > largest ? before - left : largest;
    }
    return largest;
}

/* With minimal room in a step, a part is at most a slice of one unit. Features do not depend on the
 * room. */
static void check_parts(const char *name, const struct plan *plan)
{
    struct encode_image image;
    make_image(&plan->vision, &image);
    uint32_t rows = model_vision_patch_rows(&plan->vision, image.shape);
    uint32_t features = model_vision_image_rows(&plan->vision, image.shape, &image.mosaic);
    uint64_t all = (uint64_t)rows * plan->vision.stages;
    size_t floats = (size_t)features * model_vision_feature_columns(&plan->vision);
    float *whole = must_alloc(floats, sizeof *whole);
    struct lone_tower tower;
    open_tower(&tower, plan, CPU_TIER_BEST, 2, features);
    uint32_t one = 0, few = 0, many = 0;
    assert_int_equal(largest_part(&tower, &image, UINT64_MAX, all, &one), all);
    assert_int_equal(one, 1);
    memcpy(whole, rows_of(&tower, 0), floats * sizeof *whole);
    /* Rows of different units cost differently; in such small towers the first costs most. */
    uint64_t least = largest_part(&tower, &image, 1, all, &many);
    uint32_t slice = CPU_VISION_SLICE_ROWS + model_vision_square(&plan->vision);
    if (least > 6 * slice || many < rows / slice * plan->vision.stages)
        fail_msg("%s: %u parts of at most %lu of %lu", name, many, (unsigned long)least,
                 (unsigned long)all);
    assert_memory_equal(rows_of(&tower, 0), whole, floats * sizeof *whole);
    uint64_t wanted = all / 9;
    uint64_t most = largest_part(&tower, &image, wanted, all, &few);
    assert_true(most <= (wanted > least ? wanted : least) + 1 && few >= 9 && few < 20);
    assert_memory_equal(rows_of(&tower, 0), whole, floats * sizeof *whole);
    close_tower(&tower);
    free(whole);
    free((void *)image.pixels);
}

/* --- prompts ---------------------------------------------------------------------------------- */

static struct model_runner *open_runner(const struct tower_scene *scene)
{
    const struct model_runner_options options = {.threads = 2,
                                                 .kv_type = KV_CACHE_F32,
                                                 .sequences = 2,
                                                 .sequence_tokens = SCENE_TOKENS + SCENE_GREEDY,
                                                 .step_rows = 2 * SCENE_TOKENS,
                                                 .feature_rows = scene->feature_rows};
    return model_runner_create(scene->path, &options);
}

/* Runs the prompt in one step; logits [count, vocab]. */
static void run_whole(struct model_runner *runner, const struct tower_scene *scene,
                      const struct scene_prompt *prompt, float *logits)
{
    struct model_runner_part part = tower_scene_part(runner, prompt, 0, 0, prompt->count);
    const float *found = model_runner_step(runner, &part, 1);
    memcpy(logits, found, (size_t)prompt->count * scene->vocab * sizeof(float));
    model_runner_reset(runner, 0);
}

/* Runs the prompt in pieces of at least `least` rows, beside another prompt with steps of its own.
 * A span that the model attends to as a whole is not split. */
static void check_pieces(struct model_runner *runner, const struct tower_scene *scene,
                         const struct scene_prompt *prompt, const struct scene_prompt *other,
                         uint32_t least, const float *whole)
{
    bool spans_whole = model_vision(model_runner_model(runner))->spans_whole;
    uint32_t other_from = 0;
    for (uint32_t from = 0; from < prompt->count;) {
        uint32_t end = from + least < prompt->count ? from + least : prompt->count;
        if (spans_whole)
            end = prompt->span_ends[end - 1];
        struct model_runner_part parts[2] = {tower_scene_part(runner, prompt, 0, from, end)};
        uint32_t count = 1;
        if (other_from < other->count) {
            uint32_t other_end = spans_whole ? other->span_ends[other_from] : other_from + 1;
            parts[count++] = tower_scene_part(runner, other, 1, other_from, other_end);
            other_from = other_end;
        }
        const float *found = model_runner_step(runner, parts, count);
        assert_memory_equal(found, whole + (size_t)from * scene->vocab,
                            (size_t)(end - from) * scene->vocab * sizeof(float));
        from = end;
    }
    model_runner_reset(runner, 0);
    model_runner_reset(runner, 1);
}

static double check_prompts(const struct tower_scene *scene, struct model_runner *runner)
{
    double worst = 0;
    float *whole = must_alloc((size_t)SCENE_TOKENS * scene->vocab, sizeof *whole);
    for (uint32_t p = 0; p < scene->prompt_count; p++) {
        const struct scene_prompt *prompt = &scene->prompts[p];
        const struct scene_prompt *other = &scene->prompts[(p + 1) % scene->prompt_count];
        run_whole(runner, scene, prompt, whole);
        double difference =
            tower_scene_difference(prompt->logits, whole, (size_t)prompt->count * scene->vocab);
        if (!(difference <= DIFFERENCE_MOST))
            fail_msg("%s: logits of prompt %u differ by %g", scene->path, p, difference);
        worst = difference > worst ? difference : worst;
        check_pieces(runner, scene, prompt, other, 3, whole);
        check_pieces(runner, scene, prompt, other, 1, whole);
    }
    free(whole);
    return worst;
}

static void test_families(void **state)
{
    const char *directory = *state;
    char names[SCENE_FAMILIES][SCENE_NAME_BYTES];
    uint32_t count = tower_scene_families(names);
    assert_true(count > 0);
    uint32_t greedy = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct tower_scene scene;
        tower_scene_read(names[i], &scene);
        struct model_runner *runner = open_runner(&scene);
        const struct plan *plan = model_vision_plan(model_runner_model(runner));
        if (!plan)
            fail_msg("%s %s", names[i], model_no_vision_reason(model_runner_model(runner)));
        double features = check_features(&scene, plan);
        if (!directory)
            check_parts(names[i], plan);
        model_runner_encode(runner, &(const struct encode_batch){scene.image_count, scene.images});
        double logits = check_prompts(&scene, runner);
        tower_scene_check_following(runner, &scene, 0.0);
        greedy += scene.prompts[0].following.count;
        printf("%-16s features %.0e  logits %.0e\n", names[i], features, logits);
        model_runner_destroy(runner);
        tower_scene_free(&scene);
    }
    assert_true(directory || greedy > 0);
}

int main(int word_count, char **words)
{
    char *directory = word_count > 1 ? words[1] : NULL;
    if (directory)
        tower_scene_use_directory(directory);
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_families, directory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
