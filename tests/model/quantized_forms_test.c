/*
 * A tiny llama in every quantized form with blocks of 32 columns - MLX's groups and 4-bit floats,
 * FP8, GGUF's types - gives the logits that a reference computes from the dequantized weights.
 * Forms whose weights become BF16 agree to rounding. The others are multiplied by 8-bit
 * activations, whose error is about the same in every form.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/quantized_forms.h"

#define EXACT_MOST   1e-4
#define ROUNDED_MOST 4e-2 /* measured: 2e-2 in each of these forms */

static const struct form {
    const char *name;
    double most;
} forms[] = {
    {"mlx2", ROUNDED_MOST},      {"mlx3", ROUNDED_MOST},        {"mlx4", ROUNDED_MOST},
    {"mlx5", ROUNDED_MOST},      {"mlx6", ROUNDED_MOST},        {"mlx8", ROUNDED_MOST},
    {"mlx-fp4", ROUNDED_MOST},   {"mlx-mixed", ROUNDED_MOST},   {"fp8-block", EXACT_MOST},
    {"fp8-channel", EXACT_MOST}, {"fp8-tensor", EXACT_MOST},    {"q4_0.gguf", ROUNDED_MOST},
    {"q4_1.gguf", ROUNDED_MOST}, {"q5_0.gguf", ROUNDED_MOST},   {"q5_1.gguf", ROUNDED_MOST},
    {"q8_0.gguf", ROUNDED_MOST}, {"iq4_nl.gguf", ROUNDED_MOST}, {"mxfp4.gguf", ROUNDED_MOST},
};

static void test_forms(void **state)
{
    static const uint32_t odd[] = {5, 1, 7, 3};
    static const struct form_run how = {.chunks = odd, .chunk_count = 4};
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        double difference = quantized_forms_difference("llama", forms[i].name, &how);
        bool agrees = difference <= forms[i].most;
        print_message("%-12s differs by %.1e%s\n", forms[i].name, difference,
                      agrees ? "" : ": too much");
        wrong += !agrees;
    }
    assert_int_equal(wrong, 0);
}

/* Experts stored one by one, one of which needs a wider type: all use that type. */
static void test_uneven_experts(void **state)
{
    static const uint32_t odd[] = {5, 1, 7, 3};
    static const struct form_run how = {.chunks = odd, .chunk_count = 4};
    (void)state;
    double difference = quantized_forms_difference("qwen3_moe", "mlx-experts", &how);
    print_message("qwen3_moe mlx-experts differs by %.1e\n", difference);
    assert_true(difference <= ROUNDED_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_uneven_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
