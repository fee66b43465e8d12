/*
 * Vision models as GGUF files: the text, and the tower in a projector file. Features and logits of
 * prompts with images are those of transformers (tests/golden/towers), as for the folder of the
 * same weights: with F32 and F16 towers, and with files of older converters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/model_runner.h"
#include "tests/support/tower_scene.h"

#define FILES           "build/mmproj/"
#define DIFFERENCE_MOST 1e-4 /* as a fraction of the largest number */

static const char *const towers[] = {"mmproj.gguf", "mmproj-f16.gguf", "mmproj-swapped.gguf"};

static double check_prompts(const struct tower_scene *scene, struct model_runner *runner)
{
    double worst = 0;
    for (uint32_t p = 0; p < scene->prompt_count; p++) {
        const struct scene_prompt *prompt = &scene->prompts[p];
        struct model_runner_part part = tower_scene_part(runner, prompt, 0, 0, prompt->count);
        const float *found = model_runner_step(runner, &part, 1);
        double difference =
            tower_scene_difference(prompt->logits, found, (size_t)prompt->count * scene->vocab);
        worst = difference > worst ? difference : worst;
        model_runner_reset(runner, 0);
    }
    return worst;
}

static void run(const char *family, const char *tower)
{
    char text[256], mmproj[256];
    struct tower_scene scene;
    tower_scene_read(family, &scene);
    snprintf(text, sizeof text, FILES "%s/text.gguf", scene.name);
    snprintf(mmproj, sizeof mmproj, FILES "%s/%s", scene.name, tower);
    if (access(mmproj, F_OK) != 0) {
        tower_scene_free(&scene);
        return;
    }
    const struct model_runner_options options = {.threads = 2,
                                                 .kv_type = KV_CACHE_F32,
                                                 .sequences = 1,
                                                 .sequence_tokens = SCENE_TOKENS,
                                                 .step_rows = SCENE_TOKENS,
                                                 .feature_rows = scene.feature_rows,
                                                 .tower = mmproj};
    struct model_runner *runner = model_runner_create(text, &options);
    model_runner_encode(runner, &(const struct encode_batch){scene.image_count, scene.images});
    double logits = check_prompts(&scene, runner);
    printf("%-16s %-20s logits %.0e\n", family, tower, logits);
    if (!(logits <= DIFFERENCE_MOST))
        fail_msg("%s: logits differ by %g", mmproj, logits);
    model_runner_destroy(runner);
    tower_scene_free(&scene);
}

static void test_families(void **state)
{
    (void)state;
    char names[SCENE_FAMILIES][SCENE_NAME_BYTES];
    uint32_t count = tower_scene_families(names), found = 0;
    for (uint32_t i = 0; i < count; i++) {
        char path[SCENE_NAME_BYTES + 32];
        snprintf(path, sizeof path, FILES "%.60s", names[i]);
        found += access(path, F_OK) == 0;
        for (size_t t = 0; t < sizeof towers / sizeof towers[0]; t++)
            run(names[i], towers[t]);
    }
    assert_true(found >= 34);
}

/* A tower for another text model is refused with both of their kinds. */
static void test_other_texts(void **state)
{
    static const struct {
        const char *text, *tower, *words;
    } cases[] = {
        {"smolvlm/text.gguf", "gemma3/mmproj.gguf", "architecture llama"},
        {"gemma3/text.gguf", "gemma3/text.gguf", "general.architecture is not \"clip\""},
        {"qwen3_5/text.gguf", "qwen3_vl/mmproj.gguf", "is_deepstack_layers names 2 layers"},
        {"gemma3/text.gguf", "nowhere.gguf", "No such file"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128], tower[128];
        struct error_text error = {""};
        struct model *model;
        snprintf(text, sizeof text, FILES "%s", cases[i].text);
        snprintf(tower, sizeof tower, FILES "%s", cases[i].tower);
        must(model_open(text, &model, &error) == RESULT_OK);
        struct model_fingerprint before = model_fingerprint(model);
        assert_int_not_equal(model_open_tower(model, tower, &error), RESULT_OK);
        if (!strstr(error.text, cases[i].words) || strncmp(error.text, tower, strlen(tower)) != 0)
            fail_msg("\"%s\", not with \"%s\"", error.text, cases[i].words);
        assert_null(model_vision(model));
        struct model_fingerprint after = model_fingerprint(model);
        assert_memory_equal(&before, &after, sizeof before);
        model_close(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families),
                                       cmocka_unit_test(test_other_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
