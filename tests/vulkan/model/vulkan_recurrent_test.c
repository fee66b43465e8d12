/*
 * Recurrent state on a Vulkan device under random schedules (tests/support/recurrent_schedule.h).
 * The number of rows of a step selects kernels that round differently, so logits agree within
 * rounding, and to the bit with --batch-invariant.
 */
// tags: no-sanitizers native
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/recurrent_schedule.h"
#include "tests/support/vulkan_fixture.h"

/* Share of a row's largest logit. Matrix units compute steps of several rows with activations in
 * f16: of qwen3_5's sequences alone and in one piece the worst of 70 rows differs from the CPU's by
 * 4e-3 to 6e-3, in one of five by 1.4e-2; the same rows one at a time by 1e-4. Later rows are no
 * worse, as they would be with wrong state. */
#define DIFFERENCE_MAX        4e-3
#define DIFFERENCE_MOST_UNITS 2e-2

static struct vulkan_device *device;

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

/* With --batch-invariant no bit differs, drafts included. */
static void check_invariant(const char *path)
{
    static const struct vulkan_settings vulkan = {
        .tier_limit = VULKAN_TIER_HIGHEST, .batch_invariant = true, .kernels_when_needed = true};
    if (vulkan_fixture_share(device) == VULKAN_SHARE_MATRIX)
        vulkan_fixture_skip("the driver without matrix units runs it");
    recurrent_schedule_check(&(const struct recurrent_schedule_options){
        .path = path, .vulkan = &vulkan, .threads = 1, .steps = 60});
}

static void check(const char *path)
{
    bool units = vulkan_fixture_share(device) != VULKAN_SHARE_PLAIN;
    static const struct vulkan_settings vulkan = {.tier_limit = VULKAN_TIER_HIGHEST,
                                                  .kernels_when_needed = true};
    recurrent_schedule_check(&(const struct recurrent_schedule_options){
        .path = path,
        .vulkan = &vulkan,
        .threads = 1,
        .steps = 60,
        .difference_most = units ? DIFFERENCE_MOST_UNITS : DIFFERENCE_MAX});
}

static void test_lfm2(void **state)
{
    (void)state;
    check("build/checkpoints/lfm2-f32");
}

static void test_lfm2_batch_invariant(void **state)
{
    (void)state;
    check_invariant("build/checkpoints/lfm2-f32");
}

static void test_qwen3_5_batch_invariant(void **state)
{
    (void)state;
    check_invariant("build/checkpoints/qwen3_5-f32.gguf");
}

static void test_qwen3_5(void **state)
{
    (void)state;
    check("build/checkpoints/qwen3_5-f32.gguf");
}

static void test_mamba2(void **state)
{
    (void)state;
    check("build/checkpoints/mamba2-f32.gguf");
}

static void test_mamba2_batch_invariant(void **state)
{
    (void)state;
    check_invariant("build/checkpoints/mamba2-f32");
}

static void test_hybrids(void **state)
{
    (void)state;
    check("build/checkpoints/falcon_h1-f32.gguf");
    check("build/checkpoints/nemotron_h-f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lfm2),
        cmocka_unit_test(test_qwen3_5),
        cmocka_unit_test(test_lfm2_batch_invariant),
        cmocka_unit_test(test_qwen3_5_batch_invariant),
        cmocka_unit_test(test_mamba2),
        cmocka_unit_test(test_mamba2_batch_invariant),
        cmocka_unit_test(test_hybrids),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
