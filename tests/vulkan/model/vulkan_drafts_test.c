/*
 * The trials of tests/model/draft_model_test.c on a Vulkan device with batch_invariant: answers are those without
 * drafts bit for bit, with draft models, layers that predict a further token and drafters of
 * inner states on the same device.
 */
// tags: no-sanitizers native
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/assistant_trial.h"
#include "tests/support/block_trial.h"
#include "tests/support/draft_trial.h"
#include "tests/support/vulkan_fixture.h"

static struct vulkan_device *device; /* some drivers may not be loaded afresh a hundred times */

static void test_draft_models(void **state)
{
    (void)state;
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/llama-f32.gguf",
                                          .other = "build/checkpoints/qwen3-f32.gguf",
                                          .on_vulkan = true});
}

static void test_layers_that_predict_a_further_token(void **state)
{
    (void)state;
    draft_trial_run(&(struct draft_trial){
        .path = "build/checkpoints/qwen3_5-ahead", .ahead = true, .on_vulkan = true});
}

static void test_drafters_of_inner_states(void **state)
{
    (void)state;
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/smollm3-f32.gguf",
                                          .drafter = "tests/golden/drafters/eagle3",
                                          .brief = true,
                                          .on_vulkan = true});
}

/* Rows pass through f16 on devices (vulkan_checkpoint_forms_test.c). */
static void test_proposals_of_blocks(void **state)
{
    (void)state;
    block_trial_run(&(struct block_trial){.on_vulkan = true, .differing = 14, .tolerance = 8e-3});
}

static void test_drafter_of_blocks(void **state)
{
    (void)state;
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/smollm3-f32.gguf",
                                          .drafter = "tests/golden/drafters/dflash",
                                          .brief = true,
                                          .on_vulkan = true});
}

static void test_proposals_of_assistants(void **state)
{
    (void)state;
    assistant_trial_run(
        &(struct assistant_trial){.on_vulkan = true, .differing = 8, .tolerance = 8e-3});
}

static void test_assistants(void **state)
{
    (void)state;
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/gemma4-f32.gguf",
                                          .drafter = "tests/golden/drafters/gemma4_assistant",
                                          .brief = true,
                                          .on_vulkan = true});
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
        cmocka_unit_test(test_draft_models),
        cmocka_unit_test(test_layers_that_predict_a_further_token),
        cmocka_unit_test(test_drafters_of_inner_states),
        cmocka_unit_test(test_proposals_of_blocks),
        cmocka_unit_test(test_drafter_of_blocks),
        cmocka_unit_test(test_proposals_of_assistants),
        cmocka_unit_test(test_assistants),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
