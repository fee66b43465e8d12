/*
 * On published quantized files the worker agrees with llama.cpp: fed llama.cpp's answers, it
 * prefers the same next token almost everywhere, and where it does not, the reference's two best
 * tokens are nearly equal. With 16-bit activations and an f32 KV cache, the log-probabilities of
 * the next token and of the twenty most probable ones are within a hundredth of those of
 * transformers at every position, which computes in F32 with the same file's weights.
 *
 * llama.cpp's answers come from its Vulkan backend in float mode. Its CPU backend rounds
 * activations to 8 bits, which differs from the weights' exact answers by more than these bounds
 * (tests/model/README.md has the figures).
 */
// tags: long f32-models no-sanitizers
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/reference_agreement.h"

#define SMOLLM2 "build/cache/models/smollm2-135m-instruct-q4_1.gguf"
#define GEMMA3  "build/cache/models/gemma-3-270m-q4_k_m.gguf"

static void check(const char *model, const char *reference)
{
    struct agreement_case c = {
        .model = model,
        .reference = reference,
        .activation_bits = 8,
        .best_agrees_least = 0.98,
        .disagreement_lead_most = 0.5,
        .logprob_difference_most = 0.02,
        .any_logprob_difference_most = INFINITY,
        .any_alternative_difference_most = INFINITY,
        .perplexity_ratio_most = 0.005,
    };
    reference_agreement_check(&c);
}

static void check_exactly(const char *model, const char *reference)
{
    struct agreement_case c = {
        .model = model,
        .reference = reference,
        .activation_bits = 16,
        .kv_type = KV_CACHE_F32,
        .best_agrees_least = 0.99,
        .disagreement_lead_most = 0.01,
        .logprob_difference_most = 0.001,
        .any_logprob_difference_most = 0.01,
        .any_alternative_difference_most = 0.01,
        .perplexity_ratio_most = 0.001,
    };
    reference_agreement_check(&c);
}

static void test_smollm2(void **state)
{
    (void)state;
    check(SMOLLM2, "tests/golden/llama_cpp/smollm2-q4_1.txt");
}

static void test_gemma3(void **state)
{
    (void)state;
    check(GEMMA3, "tests/golden/llama_cpp/gemma3-q4_k_m.txt");
}

static void test_smollm2_in_16_bits(void **state)
{
    (void)state;
    check_exactly(SMOLLM2, "tests/golden/transformers/smollm2-q4_1.txt");
}

static void test_gemma3_in_16_bits(void **state)
{
    (void)state;
    check_exactly(GEMMA3, "tests/golden/transformers/gemma3-q4_k_m.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_gemma3),
        cmocka_unit_test(test_smollm2_in_16_bits),
        cmocka_unit_test(test_gemma3_in_16_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
