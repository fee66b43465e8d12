/*
 * Vision towers on a Vulkan device, every family's on its tiny checkpoint: all images of a scene
 * together, one stage at a time, and each alone in one call, give the features of the reference.
 * The other rows of the pool do not change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/tower_scene.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/step/vulkan_image_encoder.h"

/* Share of the largest number. Keys and values of patches are f16, as are inputs of matrix units.
 */
#define DIFFERENCE_MAX 2e-3
#define PATCH_ROWS     2048u
#define POISON         0x7fc0beefu /* a NaN */

/* A device, and a feature pool like that of the text's program, in memory that the host can read.
 */
struct scene_tower {
    struct tower_scene scene;
    struct model *model;
    struct vulkan_program text;
    struct vulkan_buffer features;
    struct vulkan_image_encoder *vision;
    struct vulkan_image_encoder *sound; /* of a model with two towers; else NULL */
};

static void check(enum result result, const struct error_text *error)
{
    if (result != RESULT_OK)
        fail_msg("%s", error->text);
}

static uint64_t pool_words(const struct scene_tower *tower)
{
    return (uint64_t)tower->scene.feature_rows * tower->scene.feature_columns;
}

static void open_tower(struct scene_tower *tower, const struct vulkan_device *device,
                       const char *family)
{
    struct error_text error = {""};
    memset(tower, 0, sizeof *tower);
    tower_scene_read(family, &tower->scene);
    check(model_open(tower->scene.path, &tower->model, &error), &error);
    struct backend_options options = {
        .threads = 1, .vision = model_vision_plan(tower->model), .max_patch_rows = PATCH_ROWS};
    struct vulkan_program *text = &tower->text;
    text->device = device;
    text->feature_columns = tower->scene.feature_columns;
    check(vulkan_kernels_create(device, NULL, &text->kernels, &error), &error);
    check(vulkan_buffer_create(device, VULKAN_READBACK, pool_words(tower) * sizeof(float),
                               "features", &tower->features, &error),
          &error);
    text->features_address = tower->features.address;
    check(vulkan_image_encoder_create(text, &options, NULL, NULL, &tower->vision, &error), &error);
    options.vision = options.vision->sound;
    if (options.vision)
        check(vulkan_image_encoder_create(text, &options, NULL, NULL, &tower->sound, &error),
              &error);
}

static void close_tower(struct scene_tower *tower)
{
    vulkan_image_encoder_destroy(tower->sound);
    vulkan_image_encoder_destroy(tower->vision);
    vulkan_buffer_destroy(tower->text.device, &tower->features);
    vulkan_kernels_destroy(tower->text.kernels);
    model_close(tower->model);
    tower_scene_free(&tower->scene);
}

/* Every row of the pool that belongs to no image stays POISON. */
static void encode(struct scene_tower *tower, uint32_t first, uint32_t count, uint32_t stages_each)
{
    struct error_text error = {""};
    uint64_t rows = 0, left = 1;
    uint32_t *pool = tower->features.mapped;
    for (uint64_t i = 0; i < pool_words(tower); i++)
        pool[i] = POISON;
    const struct encode_batch batch = {count, tower->scene.images + first};
    bool apart = tower->sound && batch.images[0].shape.sound;
    struct vulkan_image_encoder *encoder = apart ? tower->sound : tower->vision;
    check(vulkan_image_encoder_begin(encoder, &batch, &error), &error);
    for (uint32_t i = 0; i < count; i++)
        rows += model_vision_patch_rows(model_vision(tower->model), batch.images[i].shape);
    while (left > 0)
        check(vulkan_image_encoder_run(encoder, stages_each * rows, &left, &error), &error);
    check(vulkan_image_encoder_finish(encoder, &error), &error);
}

/* Of images [first, first + count). */
static double check_features(const struct scene_tower *tower, uint32_t first, uint32_t count)
{
    const struct tower_scene *scene = &tower->scene;
    const struct model_vision *vision = model_vision(tower->model);
    uint64_t begin = (uint64_t)scene->images[first].first_feature * scene->feature_columns;
    const struct encode_image *last = &scene->images[first + count - 1];
    uint64_t end = (uint64_t)(last->first_feature +
                              model_vision_image_rows(vision, last->shape, &last->mosaic)) *
                   scene->feature_columns;
    const uint32_t *words = tower->features.mapped;
    for (uint64_t i = 0; i < pool_words(tower); i++)
        if (i < begin || i >= end)
            assert_int_equal(words[i], POISON);
    double difference = tower_scene_difference(
        scene->features + begin, (const float *)tower->features.mapped + begin, end - begin);
    if (!(difference <= DIFFERENCE_MAX))
        fail_msg("%s: features of images %u to %u differ by %g", scene->path, first, first + count,
                 difference);
    return difference;
}

/* On the driver with the validation layer, where kernels compile slowly: three families that
 * together use every kernel. */
static bool is_taken(const struct vulkan_device *device, const char *family)
{
    return vulkan_fixture_share(device) != VULKAN_SHARE_MATRIX || strcmp(family, "gemma3") == 0 ||
           strcmp(family, "gemma4") == 0 || strcmp(family, "qwen2_5_vl") == 0;
}

static void test_families(void **state)
{
    char names[SCENE_FAMILIES][SCENE_NAME_BYTES];
    uint32_t count = tower_scene_families(names);
    assert_true(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        struct scene_tower tower;
        if (!is_taken(*state, names[i]))
            continue;
        open_tower(&tower, *state, names[i]);
        uint32_t images = tower.scene.image_count;
        double together = 0, alone = 0;
        uint32_t sounds = 0;
        while (tower.sound && sounds < images && tower.scene.images[sounds].shape.sound)
            sounds++;
        for (uint32_t first = 0, end = sounds > 0 ? sounds : images; first < images;
             first = end, end = images) {
            encode(&tower, first, end - first, 1);
            double difference = check_features(&tower, first, end - first);
            together = difference > together ? difference : together;
        }
        for (uint32_t p = 0; p < images; p++) {
            const struct model_vision *vision =
                model_vision_of(model_vision(tower.model), tower.scene.images[p].shape);
            encode(&tower, p, 1, vision->stages);
            double difference = check_features(&tower, p, 1);
            alone = difference > alone ? difference : alone;
        }
        printf("%-16s together %.0e  alone %.0e\n", names[i], together, alone);
        close_tower(&tower);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
