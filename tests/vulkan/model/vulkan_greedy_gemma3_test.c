/*
 * Gemma 3 270M (sliding windows, Q4_K_M) on a Vulkan device answers 10 prompts as on the CPU.
 *
 * Each model has a separate program, because a driver for the CPU takes a minute for it.
 *
 * usage: vulkan_greedy_gemma3_test [all]   `all` also decodes everything token by token
 */
// tags: no-sanitizers optimized longest
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/vulkan_agreement.h"

static bool all;

static void test_greedy_answers_are_the_cpus(void **state)
{
    (void)state;
    vulkan_agreement_check("build/cache/models/gemma-3-270m-q4_k_m.gguf",
                           "tests/golden/llama_cpp/gemma3-q4_k_m.txt", all);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_greedy_answers_are_the_cpus)};
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
