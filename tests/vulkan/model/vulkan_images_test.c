/*
 * Every family with vision, on tiny checkpoints, on a Vulkan device: prompts with images give the
 * reference's logits, as a whole, and in pieces beside another prompt: rows of images and of text
 * in one step, several rows of a sequence and single ones. The tokens that follow greedily are the reference's
 * where its two largest logits differ clearly. Text alone uses the same kernels and is
 * part of every prompt.
 *
 *   vulkan_images_test [all | FAMILY]
 *
 * A driver for the CPU compiles for seconds for each family, so without an argument only seven are tried,
 * and no projector files. Together they have every relation between steps and images: spans, features in parts and
 * positions in turns, positions in sections beside recurrent
 * state, videos, sounds, sounds beside images and videos, and rows that attend to several images.
 */
// tags: no-sanitizers native
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/model_runner.h"
#include "tests/support/tower_scene.h"

/* Share of the largest logit. The KV cache is f16, which alone causes 3e-3 in Gemma 3's spans on
 * the CPU backend too; matrix units take all inputs as f16. */
#define DIFFERENCE_MAX 8e-3
#define FILES          "build/mmproj/"
#define PIECE          9u
#define SINGLES        4u /* rows at a prompt's end that come one to a step */

/* Opens the folder, or if `text` is not NULL, that file and its projector file. */
static struct model_runner *open_runner(const struct tower_scene *scene, const char *text,
                                        const char *tower)
{
    static const struct vulkan_settings vulkan = {.tier_limit = VULKAN_TIER_HIGHEST,
                                                  .kernels_when_needed = true};
    const struct model_runner_options options = {.vulkan = &vulkan,
                                                 .sequences = 2,
                                                 .sequence_tokens = SCENE_TOKENS + SCENE_GREEDY,
                                                 .step_rows = 2 * SCENE_TOKENS,
                                                 .feature_rows = scene->feature_rows,
                                                 .tower = text ? tower : NULL};
    return model_runner_create(text ? text : scene->path, &options);
}

/* The end of a piece that begins at row `from`: `rows` later, or after the span that it would cut.
 */
static uint32_t piece_end(const struct model_runner *runner, const struct scene_prompt *prompt,
                          uint32_t from, uint32_t rows)
{
    uint32_t singles = prompt->count > SINGLES ? prompt->count - SINGLES : 0;
    if (from >= singles)
        rows = 1;
    uint32_t end = from + rows < prompt->count ? from + rows : prompt->count;
    bool whole = model_vision(model_runner_model(runner))->spans_whole;
    return whole ? prompt->span_ends[end - 1] : end;
}

static double check_rows(const struct tower_scene *scene, const struct scene_prompt *prompt,
                         uint32_t from, uint32_t end, const float *found)
{
    size_t skipped = (size_t)from * scene->vocab, count = (size_t)(end - from) * scene->vocab;
    double difference = tower_scene_difference(prompt->logits + skipped, found, count);
    if (!(difference <= DIFFERENCE_MAX))
        fail_msg("%s: logits of rows %u to %u of prompt %u differ by %g", scene->path, from, end,
                 (uint32_t)(prompt - scene->prompts), difference);
    return difference;
}

static double check_whole(struct model_runner *runner, const struct tower_scene *scene,
                          const struct scene_prompt *prompt)
{
    struct model_runner_part part = tower_scene_part(runner, prompt, 0, 0, prompt->count);
    const float *found = model_runner_step(runner, &part, 1);
    double difference = check_rows(scene, prompt, 0, prompt->count, found);
    model_runner_reset(runner, 0);
    return difference;
}

static double check_pieces(struct model_runner *runner, const struct tower_scene *scene,
                           const struct scene_prompt *prompts[2])
{
    uint32_t from[2] = {0, 0};
    double worst = 0;
    while (from[0] < prompts[0]->count || from[1] < prompts[1]->count) {
        struct model_runner_part parts[2];
        uint32_t count = 0;
        for (uint32_t p = 0; p < 2; p++)
            if (from[p] < prompts[p]->count)
                parts[count++] =
                    tower_scene_part(runner, prompts[p], p, from[p],
                                     piece_end(runner, prompts[p], from[p], (p + 1) * PIECE));
        const float *found = model_runner_step(runner, parts, count);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t p = parts[i].slot, end = from[p] + parts[i].count;
            double difference = check_rows(scene, prompts[p], from[p], end, found);
            worst = difference > worst ? difference : worst;
            found += (size_t)parts[i].count * scene->vocab;
            from[p] = end;
        }
    }
    model_runner_reset(runner, 0);
    model_runner_reset(runner, 1);
    return worst;
}

static bool is_tried(const char *which, const char *family)
{
    if (which)
        return strcmp(which, "all") == 0 || strcmp(which, family) == 0;
    return strcmp(family, "gemma3") == 0 || strcmp(family, "qwen3_vl") == 0 ||
           strcmp(family, "qwen3_5") == 0 || strcmp(family, "qwen2_5_vl_video") == 0 ||
           strcmp(family, "qwen2_5_omni") == 0 || strncmp(family, "whisper", 7) == 0 ||
           strcmp(family, "mllama") == 0;
}

static void run(const char *family, const char *text, const char *tower)
{
    struct tower_scene scene;
    double whole = 0;
    tower_scene_read(family, &scene);
    struct model_runner *runner = open_runner(&scene, text, tower);
    model_runner_encode(runner, &(const struct encode_batch){scene.image_count, scene.images});
    for (uint32_t p = 0; p < scene.prompt_count; p++) {
        double difference = check_whole(runner, &scene, &scene.prompts[p]);
        whole = difference > whole ? difference : whole;
    }
    const struct scene_prompt *together[2] = {&scene.prompts[0],
                                              &scene.prompts[scene.prompt_count - 1]};
    double pieces = check_pieces(runner, &scene, together);
    tower_scene_check_following(runner, &scene, 2 * DIFFERENCE_MAX);
    printf("%-16s %-6s whole %.0e  in pieces %.0e\n", family, text ? "GGUF" : "folder", whole,
           pieces);
    model_runner_destroy(runner);
    tower_scene_free(&scene);
}

static void test_families(void **state)
{
    const char *which = *state;
    char names[SCENE_FAMILIES][SCENE_NAME_BYTES];
    uint32_t count = tower_scene_families(names);
    assert_true(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        char text[SCENE_NAME_BYTES + 32], tower[SCENE_NAME_BYTES + 32];
        if (!is_tried(which, names[i]))
            continue;
        run(names[i], NULL, NULL);
        const char *video = strstr(names[i], "_video"); /* has the files of its family */
        int length = video ? (int)(video - names[i]) : (int)sizeof names[i];
        snprintf(text, sizeof text, FILES "%.*s/text.gguf", length, names[i]);
        snprintf(tower, sizeof tower, FILES "%.*s/mmproj.gguf", length, names[i]);
        if (which && access(tower, F_OK) == 0)
            run(names[i], text, tower);
    }
}

int main(int argc, char **argv)
{
    char *which = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_families, which)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
