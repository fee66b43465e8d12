/*
 * Drafted tokens on real checkpoints and the CPU backend: every answer has the same tokens,
 * log-probabilities and alternatives, bit for bit, as without drafts. Random requests with random
 * sampling parameters, with f16 and quantized keys and values, full and sliding attention and a
 * mixture of experts, recurrent state; with a drafter that knows the answers and makes random mistakes, and with the
 * one that users get; with draft models of right and of wrong guesses. Pools are so small that sequences are preempted, and the prefix cache is on.
 */
// tags: long threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/draft_trial.h"

static void test_full_attention(void **state)
{
    (void)state;
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/llama-f32.gguf",
                                          .other = "build/checkpoints/qwen3-f32.gguf"});
}

static void test_sliding_windows(void **state)
{
    (void)state;
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/gemma3-f32.gguf",
                                          .other = "build/checkpoints/llama-f32.gguf"});
}

static void test_experts_and_sinks(void **state)
{
    (void)state;
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/gpt_oss-f32.gguf"});
}

static void test_quantized_cache(void **state)
{
    (void)state;
    struct kv_quantization uniform = {
        .scheme = KV_QUANT_UNIFORM, .key_half_bits = 16, .value_half_bits = 8, .group_size = 32};
    draft_trial_run(&(struct draft_trial){.path = "tests/model/demo",
                                          .other = "build/checkpoints/qwen3-f32.gguf",
                                          .quantization = uniform});
}

static void test_quantized_after_a_start(void **state)
{
    (void)state;
    struct kv_quantization turboquant = {.scheme = KV_QUANT_TURBOQUANT,
                                         .key_half_bits = 7,
                                         .value_half_bits = 8,
                                         .start_tokens = 40};
    draft_trial_run(&(struct draft_trial){.path = "tests/model/demo",
                                          .other = "build/checkpoints/gemma3-f32.gguf",
                                          .quantization = turboquant});
}

static void test_layers_that_predict_a_further_token(void **state)
{
    (void)state;
    draft_trial_run(
        &(struct draft_trial){.path = "build/checkpoints/qwen3_5-ahead", .ahead = true});
    draft_trial_run(
        &(struct draft_trial){.path = "build/checkpoints/qwen3_5_moe-ahead.gguf", .ahead = true});
    draft_trial_run(
        &(struct draft_trial){.path = "build/checkpoints/glm4_moe-ahead.gguf", .ahead = true});
    draft_trial_run(
        &(struct draft_trial){.path = "build/checkpoints/deepseek_v3-ahead", .ahead = true});
}

static void test_drafters_of_inner_states(void **state)
{
    (void)state;
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/smollm3-f32.gguf",
                                          .drafter = "tests/golden/drafters/eagle3"});
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/qwen3_5-f32",
                                          .drafter = "tests/golden/drafters/eagle3_speculator",
                                          .brief = true});
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/smollm3-f32",
                                          .drafter = "tests/golden/drafters/dflash",
                                          .brief = true});
}

/* They read caches of the model, of both kinds, quantized too. */
static void test_assistants(void **state)
{
    (void)state;
    struct kv_quantization uniform = {
        .scheme = KV_QUANT_UNIFORM, .key_half_bits = 16, .value_half_bits = 16, .group_size = 16};
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/gemma4-f32.gguf",
                                          .drafter = "tests/golden/drafters/gemma4_assistant"});
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/gemma4_moe-f32",
                                          .drafter = "tests/golden/drafters/gemma4_assistant_moe",
                                          .quantization = uniform,
                                          .brief = true});
}

/* Delta nets and convolutions; then convolutions alone; then state space mixers without attention. */
static void test_recurrent_state(void **state)
{
    (void)state;
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/qwen3_5-f32.gguf",
                                          .other = "build/checkpoints/llama-f32.gguf"});
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/lfm2-f32.gguf"});
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/mamba2-f32.gguf"});
    draft_trial_run(&(struct draft_trial){.path = "build/checkpoints/falcon_h1-f32.gguf"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_attention),
        cmocka_unit_test(test_sliding_windows),
        cmocka_unit_test(test_experts_and_sinks),
        cmocka_unit_test(test_quantized_cache),
        cmocka_unit_test(test_layers_that_predict_a_further_token),
        cmocka_unit_test(test_drafters_of_inner_states),
        cmocka_unit_test(test_assistants),
        cmocka_unit_test(test_quantized_after_a_start),
        cmocka_unit_test(test_recurrent_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
