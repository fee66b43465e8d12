/*
 * With F32 weights neither program rounds activations, so only the order of sums differs: the best
 * token is the same at every position, and log-probabilities agree to a thousandth on average and a
 * hundredth at most. The KV cache is f32, as the reference's is.
 */
// tags: long f32-models no-sanitizers
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
        .kv_type = KV_CACHE_F32,
        .best_agrees_least = 1.0,
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
    check("build/cache/models/smollm2-135m-instruct-f32.gguf",
          "tests/golden/llama_cpp/smollm2-f32.txt");
}

static void test_gemma3(void **state)
{
    (void)state;
    /* Reference: transformers instead of llama.cpp (tests/golden/transformers/PROVENANCE.md says
     * why). */
    check("build/cache/models/gemma-3-270m-f32.gguf", "tests/golden/transformers/gemma3-f32.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
