/*
 * On the quantized files that users run, the worker says what llama.cpp says: fed the reference's
 * own tokens it prefers the same next token almost everywhere, and where it does not, the reference
 * itself was nearly undecided. Both programs round activations to 8 bits in their own way, which is
 * what the bounds allow for; tests/model/llama_cpp_f32_agreement_test.c allows nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/reference_agreement.h"

static void check(const char *model, const char *reference)
{
    struct agreement_case c = {
        .model = model,
        .reference = reference,
        .best_agrees_least = 0.98,
        .disagreement_gap_most = 0.5,
        .logprob_difference_most = 0.02,
        .perplexity_ratio_most = 0.005,
    };
    reference_agreement_check(&c);
}

static void test_smollm2(void **state)
{
    (void)state;
    check("build/cache/models/smollm2-135m-instruct-q4_1.gguf",
          "tests/golden/llama_cpp/smollm2-q4_1.txt");
}

static void test_gemma3(void **state)
{
    (void)state;
    check("build/cache/models/gemma-3-270m-q4_k_m.gguf",
          "tests/golden/llama_cpp/gemma3-q4_k_m.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
