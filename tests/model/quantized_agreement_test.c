/*
 * On the quantized files that users run, the worker says what llama.cpp says: fed llama.cpp's own
 * answers it prefers the same next token almost everywhere, and where it does not, the reference
 * itself was nearly undecided.
 *
 * The reference is llama.cpp's Vulkan backend told to compute in floats. Its CPU backend rounds
 * activations to 8 bits, which parts it from the weights' own answers by more than these bounds
 * (tests/model/README.md has the figures).
 */
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
        .best_agrees_least = 0.98,
        .disagreement_lead_most = 0.5,
        .logprob_difference_most = 0.02,
        .any_logprob_difference_most = INFINITY,
        .any_alternative_difference_most = INFINITY,
        .perplexity_ratio_most = 0.005,
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
