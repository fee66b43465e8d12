/*
 * Images whose spans contain --quantized-kv-start, on a Vulkan device. A row of a span sees the
 * span's end, so if the start lies within the span, all its rows read codes, and those before the
 * start are written in both forms. Prompts as a whole, and in pieces beside another one, against
 * the CPU backend with the same input. Codes have few bits, so that a row that reads the wrong form
 * is far off. Rows have no features, because the backends' features differ a little and some codes
 * would too.
 *
 * The checkpoint is the tiny Gemma 3 with vision; its full attention is moved from the last layer,
 * which is never quantized, to the second. Its weights fit either.
 */
// tags: no-sanitizers native
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/tiny_folder.h"
#include "tests/support/tower_scene.h"
#include "tests/support/vulkan_fixture.h"

#define CONFIG_BYTES 4096u
#define PIECE        7u

/* Root mean square of a row's differences, as share of its largest logit. */
#define DIFFERENCE_MAX 1e-3
/* Matrix units take activations as f16, so many numbers get the neighbouring code; a row that reads
 * the wrong form is off by 0.25. */
#define UNITS_DIFFERENCE_MAX 0.1

struct spans_scene {
    struct tower_scene shown;
    struct tiny_folder folder;
    struct model_runner *judged;
    struct model_runner *cpu;
    uint32_t start;
    double most;
    uint32_t straddling; /* rows before the start that see codes */
    uint32_t early;      /* rows that see no more than the start */
    double worst;
};

/* The family's folder with another pattern of layers. */
static void make_folder(struct spans_scene *scene)
{
    static const char was[] = "\"sliding_window_pattern\": 3";
    char path[SCENE_PATH_BYTES + 32], config[CONFIG_BYTES] = {0};
    snprintf(path, sizeof path, "%s/config.json", scene->shown.path);
    FILE *file = fopen(path, "r");
    must(file && fread(config, 1, sizeof config - 1, file) > 0);
    fclose(file);
    char *at = strstr(config, was);
    must(at);
    at[strlen(was) - 1] = '2';
    tiny_folder_create(&scene->folder);
    tiny_folder_write(&scene->folder, "config.json", config);
    snprintf(path, sizeof path, "%s/model.safetensors", scene->shown.path);
    char *weights = realpath(path, NULL);
    must(weights && symlink(weights, tiny_folder_file(&scene->folder, "model.safetensors")) == 0);
    free(weights);
}

static struct model_runner *open_runner(const struct spans_scene *scene,
                                        const struct kv_quantization *quantization,
                                        const struct vulkan_settings *vulkan)
{
    const struct model_runner_options options = {.vulkan = vulkan,
                                                 .threads = 1,
                                                 .quantization = *quantization,
                                                 .sequences = 2,
                                                 .sequence_tokens = SCENE_TOKENS,
                                                 .step_rows = 2 * SCENE_TOKENS,
                                                 .feature_rows = scene->shown.feature_rows};
    return model_runner_create(scene->folder.path, &options);
}

/* Rows [from, end) of the prompt. */
static void check_rows(struct spans_scene *scene, const struct scene_prompt *prompt, uint32_t from,
                       uint32_t end, const float *judged, const float *cpu)
{
    uint32_t vocab = scene->shown.vocab;
    for (uint32_t i = from; i < end; i++, judged += vocab, cpu += vocab) {
        double difference = model_runner_row_difference(judged, cpu, vocab);
        if (!(difference <= scene->most))
            fail_msg("start %u, prompt %u, position %u, which sees %u: %g off", scene->start,
                     (uint32_t)(prompt - scene->shown.prompts), i, prompt->span_ends[i],
                     difference);
        scene->worst = fmax(scene->worst, difference);
        scene->straddling += i < scene->start && prompt->span_ends[i] > scene->start;
        scene->early += prompt->span_ends[i] <= scene->start;
    }
}

/* Both prompts from position 0, `rows` at a time or to the end of a span. */
static void check_together(struct spans_scene *scene, const struct scene_prompt *prompts[2],
                           uint32_t rows)
{
    uint32_t from[2] = {0, 0};
    while (from[0] < prompts[0]->count || from[1] < prompts[1]->count) {
        struct model_runner_part parts[2];
        uint32_t count = 0;
        for (uint32_t p = 0; p < 2; p++) {
            uint32_t end = from[p] + rows < prompts[p]->count ? from[p] + rows : prompts[p]->count;
            if (from[p] == end)
                continue;
            parts[count] = tower_scene_part(scene->cpu, prompts[p], p, from[p],
                                            prompts[p]->span_ends[end - 1]);
            parts[count++].feature_rows = NULL;
        }
        const float *judged = model_runner_step(scene->judged, parts, count);
        const float *cpu = model_runner_step(scene->cpu, parts, count);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t p = parts[i].slot, end = from[p] + parts[i].count;
            check_rows(scene, prompts[p], from[p], end, judged, cpu);
            judged += (size_t)parts[i].count * scene->shown.vocab;
            cpu += (size_t)parts[i].count * scene->shown.vocab;
            from[p] = end;
        }
    }
    for (uint32_t p = 0; p < 2; p++) {
        model_runner_reset(scene->judged, p);
        model_runner_reset(scene->cpu, p);
    }
}

static void check_tier(const struct kv_quantization *quantization, enum vulkan_tier tier,
                       double most)
{
    const struct vulkan_settings vulkan = {.tier_limit = tier, .kernels_when_needed = true};
    struct spans_scene scene = {.start = quantization->start_tokens, .most = most};
    tower_scene_read("gemma3", &scene.shown);
    make_folder(&scene);
    scene.cpu = open_runner(&scene, quantization, NULL);
    scene.judged = open_runner(&scene, quantization, &vulkan);
    const struct kv_layout *kv = &model_runner_plan(scene.cpu)->kv;
    assert_true(kv_layout_opening(kv, kv->layer_group[1]) != KV_GROUP_NONE);
    for (uint32_t p = 0; p + 1 < scene.shown.prompt_count; p++) {
        const struct scene_prompt *prompts[2] = {&scene.shown.prompts[p],
                                                 &scene.shown.prompts[p + 1]};
        check_together(&scene, prompts, SCENE_TOKENS);
        check_together(&scene, prompts, PIECE);
    }
    assert_true(scene.straddling > 10 && scene.early > 10);
    printf("up to %s, start %u: %u rows before it see codes, %u do not, at most %.1e off\n",
           vulkan_tier_name(tier), scene.start, scene.straddling, scene.early, scene.worst);
    model_runner_destroy(scene.judged);
    model_runner_destroy(scene.cpu);
    tiny_folder_destroy(&scene.folder);
    tower_scene_free(&scene.shown);
}

static void check_start(const struct vulkan_device *device,
                        const struct kv_quantization *quantization)
{
    check_tier(quantization, VULKAN_SCALAR, DIFFERENCE_MAX);
    if (device->facts.matrix_khr)
        check_tier(quantization, VULKAN_TIER_HIGHEST, UNITS_DIFFERENCE_MAX);
}

static void test_turboquant(void **state)
{
    check_start(*state, &(struct kv_quantization){KV_QUANT_TURBOQUANT, 6, 8, 0, 9});
}

static void test_uniform(void **state)
{
    check_start(*state, &(struct kv_quantization){KV_QUANT_UNIFORM, 8, 8, 0, 11});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turboquant),
        cmocka_unit_test(test_uniform),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
