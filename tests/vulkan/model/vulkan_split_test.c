/*
 * Models whose layers are split over Vulkan devices (worker/backend/split): the logits have the bits
 * of one device, for plans of each kind, at drawn boundaries. The device is named several times, so
 * that one suffices.
 */
// tags: no-sanitizers native
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "tests/support/split_trial.h"
#include "tests/support/vulkan_fixture.h"

static struct vulkan_device *device;
static const struct vulkan_settings vulkan = {.tier_limit = VULKAN_TIER_HIGHEST,
                                              .kernels_when_needed = true};
static struct split_trial trial = {.vulkan = &vulkan, .cuts_most = 1};
static const struct kv_quantization full = {.scheme = KV_QUANT_NONE};

static int setup(void **state)
{
    (void)state;
    trial.random.state = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)trial.random.state);
    return vulkan_fixture_setup((void **)&device);
}

static int teardown(void **state)
{
    (void)state;
    return vulkan_fixture_teardown((void **)&device);
}

static void test_quantized_weights(void **state)
{
    (void)state;
    split_trial_text(&trial, "build/checkpoints/llama-q4_0.gguf", full);
}

/* The residual is the input of a product. */
static void test_norms_after_products(void **state)
{
    (void)state;
    split_trial_text(&trial, "build/checkpoints/olmo2-f32", full);
}

static void test_recurrent_state(void **state)
{
    (void)state;
    split_trial_text(&trial, "build/checkpoints/qwen3_5-f32.gguf", full);
}

/* Windows, and spans that rows see whole. */
static void test_images(void **state)
{
    (void)state;
    split_trial_images(&trial, "gemma3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantized_weights),
        cmocka_unit_test(test_norms_after_products),
        cmocka_unit_test(test_recurrent_state),
        cmocka_unit_test(test_images),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
