/*
 * Text on a checkpoint that sees, on a Vulkan device, which takes no pictures: what stands in
 * prompts before the first picture has the reference's logits, though the plan has ops that are
 * there for pictures (deepstack).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/model_runner.h"
#include "tests/support/tower_scene.h"

#define DIFFERENCE_MOST 4e-3 /* of the largest logit; vulkan_checkpoint_forms_test.c says why */

static void test_text(void **state)
{
    (void)state;
    static const struct vulkan_settings vulkan = {.tier_limit = VULKAN_NV_MATRIX2,
                                                  .kernels_when_needed = true};
    struct tower_scene scene;
    tower_scene_read("qwen3_vl", &scene);
    const struct model_runner_options options = {
        .vulkan = &vulkan, .sequences = 1, .sequence_tokens = SCENE_TOKENS, .step_rows = 16};
    struct model_runner *runner = model_runner_create(scene.path, &options);
    for (uint32_t p = 0; p < scene.prompt_count; p++) {
        const struct scene_prompt *prompt = &scene.prompts[p];
        struct model_runner_part part = {.tokens = prompt->ids};
        while (prompt->feature_rows[part.count] == ROW_FEATURE_NONE)
            part.count++;
        const float *logits = model_runner_step(runner, &part, 1);
        double difference =
            tower_scene_difference(prompt->logits, logits, (size_t)part.count * scene.vocab);
        if (!(difference <= DIFFERENCE_MOST))
            fail_msg("prompt %u differs from the reference by %g", p, difference);
        model_runner_reset(runner, 0);
    }
    model_runner_destroy(runner);
    tower_scene_free(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
