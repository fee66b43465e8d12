/*
 * A tiny llama in every quantized form with blocks of 32 columns - MLX's groups and 4-bit floats,
 * FP8, NVFP4, GGUF's types - gives the logits that a reference computes from the dequantized weights.
 * FP8 agrees to rounding. The others are multiplied by 8-bit activations, whose error is about the
 * same in every form, and by 16-bit ones, whose error shows that the weights are right.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/quantized_forms.h"

#define EXACT_MOST   1e-4
#define ROUNDED_MOST 5e-2 /* measured: 2e-2 to 4.1e-2 */
#define FINE_MOST    3e-4 /* 16 bits; measured: 1e-4 in each of these forms */

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
    {"nvfp4", ROUNDED_MOST},
};

static void check_forms(uint32_t activation_bits, double most)
{
    static const uint32_t odd[] = {5, 1, 7, 3};
    const struct form_run how = {
        .chunks = odd, .chunk_count = 4, .activation_bits = activation_bits};
    int wrong = 0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        double difference = quantized_forms_difference("llama", forms[i].name, &how);
        bool agrees = difference <= (forms[i].most < most ? forms[i].most : most);
        print_message("%-12s differs by %.1e%s\n", forms[i].name, difference,
                      agrees ? "" : ": too much");
        wrong += !agrees;
    }
    assert_int_equal(wrong, 0);
}

static void test_forms(void **state)
{
    (void)state;
    check_forms(8, ROUNDED_MOST);
}

static void test_forms_with_fine_activations(void **state)
{
    (void)state;
    check_forms(16, FINE_MOST);
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
        cmocka_unit_test(test_forms_with_fine_activations),
        cmocka_unit_test(test_uneven_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
