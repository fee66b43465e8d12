/*
 * On the quantized files that users run, the worker says what the weights say: fed llama.cpp's own
 * answers it prefers the same next token almost everywhere, and where it does not, the reference
 * itself was nearly undecided.
 *
 * The first reference is llama.cpp on the same weights written out as F32, where it rounds no
 * activations. The second is llama.cpp on the very file, where its own rounding to 8 bits parts it
 * from the first by more than ours does (tests/model/README.md has the figures), so those bounds
 * are wide: they catch a weight read wrongly, not a rounding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/reference_agreement.h"

#define SMOLLM2 "build/cache/models/smollm2-135m-instruct-q4_1.gguf"
#define GEMMA3  "build/cache/models/gemma-3-270m-q4_k_m.gguf"

static void check_floats(const char *model, const char *reference)
{
    struct agreement_case c = {
        .model = model,
        .reference = reference,
        .best_agrees_least = 0.98,
        .disagreement_lead_most = 0.5,
        .logprob_difference_most = 0.02,
        .perplexity_ratio_most = 0.005,
    };
    reference_agreement_check(&c);
}

static void check_same_file(const char *model, const char *reference)
{
    struct agreement_case c = {
        .model = model,
        .reference = reference,
        .best_agrees_least = 0.965,
        .disagreement_lead_most = 1.5,
        .logprob_difference_most = 0.04,
        .perplexity_ratio_most = 0.01,
    };
    reference_agreement_check(&c);
}

static void test_smollm2(void **state)
{
    (void)state;
    check_floats(SMOLLM2, "tests/golden/llama_cpp/smollm2-f32.txt");
}

static void test_gemma3(void **state)
{
    (void)state;
    check_floats(GEMMA3, "tests/golden/llama_cpp/gemma3-f32.txt");
}

static void test_smollm2_as_llama_cpp_rounds_it(void **state)
{
    (void)state;
    check_same_file(SMOLLM2, "tests/golden/llama_cpp/smollm2-q4_1.txt");
}

static void test_gemma3_as_llama_cpp_rounds_it(void **state)
{
    (void)state;
    check_same_file(GEMMA3, "tests/golden/llama_cpp/gemma3-q4_k_m.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_gemma3),
        cmocka_unit_test(test_smollm2_as_llama_cpp_rounds_it),
        cmocka_unit_test(test_gemma3_as_llama_cpp_rounds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
