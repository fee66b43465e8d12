/*
 * Quantized forms of a tiny llama on a Vulkan device: those whose rows become types that no file
 * holds or that are made at load: MLX's codes of 4 and 8 bits, 4-bit floats, FP8, NVFP4.
 *
 * usage: vulkan_quantized_forms_test [all]   `all` adds the other forms, for GPUs: a driver for the
 * CPU compiles the kernels again for each
 */
// tags: no-sanitizers native
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/quantized_forms.h"

#define DIFFERENCE_MAX 5e-2 /* as on the CPU: activations of 8 bits */

static bool all;

static void test_forms(void **state)
{
    static const char *const forms[] = {"mlx-mixed", "mxfp4.gguf", "fp8-block", "nvfp4",
                                        "mlx2",      "mlx5",       "mlx6",      "iq4_nl.gguf"};
    static const uint32_t odd[] = {5, 1, 7, 3};
    static const struct vulkan_settings vulkan = {.tier_limit = VULKAN_TIER_HIGHEST,
                                                  .kernels_when_needed = true};
    const struct form_run how = {.vulkan = &vulkan, .chunks = odd, .chunk_count = 4};
    (void)state;
    for (size_t i = 0; i < (all ? sizeof forms / sizeof forms[0] : 4); i++) {
        double difference = quantized_forms_difference("llama", forms[i], &how);
        print_message("%-12s differs by %.1e\n", forms[i], difference);
        if (!(difference <= DIFFERENCE_MAX))
            fail_msg("%s differs from the reference by %g", forms[i], difference);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
    };
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
