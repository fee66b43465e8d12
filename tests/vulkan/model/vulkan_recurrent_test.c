/*
 * Recurrent state on a Vulkan device under random schedules (tests/support/recurrent_schedule.h).
 * How many rows share a step chooses kernels that round differently, so logits agree as closely as
 * rounding allows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/recurrent_schedule.h"

static void check(const char *path)
{
    static const struct vulkan_settings vulkan = {.tier_limit = VULKAN_NV_MATRIX2,
                                                  .kernels_when_needed = true};
    recurrent_schedule_check(&(const struct recurrent_schedule_options){
        .path = path, .vulkan = &vulkan, .threads = 1, .steps = 60, .difference_most = 4e-3});
}

static void test_lfm2(void **state)
{
    (void)state;
    check("build/checkpoints/lfm2-f32");
}

static void test_qwen3_5(void **state)
{
    (void)state;
    check("build/checkpoints/qwen3_5-f32.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lfm2),
        cmocka_unit_test(test_qwen3_5),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
