/*
 * Recurrent state under random schedules, bit for bit, on one thread and on two
 * (tests/support/recurrent_schedule.h).
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/recurrent_schedule.h"

static void check(const char *path)
{
    for (uint32_t threads = 1; threads <= 2; threads++)
        recurrent_schedule_check(&(const struct recurrent_schedule_options){
            .path = path, .threads = threads, .steps = 220});
}

static void test_lfm2(void **state)
{
    (void)state;
    check("build/checkpoints/lfm2-bf16");
}

static void test_qwen3_5(void **state)
{
    (void)state;
    check("build/checkpoints/qwen3_5-f16.gguf");
}

static void test_mamba2(void **state)
{
    (void)state;
    check("build/checkpoints/mamba2-bf16");
}

/* Attention beside a mixer in every layer; then layers with one part each. */
static void test_hybrids(void **state)
{
    (void)state;
    check("build/checkpoints/falcon_h1-f32.gguf");
    check("build/checkpoints/nemotron_h-f16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lfm2),
        cmocka_unit_test(test_qwen3_5),
        cmocka_unit_test(test_mamba2),
        cmocka_unit_test(test_hybrids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
