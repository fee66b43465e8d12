/*
 * Models whose layers are split over backends (worker/backend/split) on CPUs: the logits have the
 * bits of one backend, for plans of every kind, cut at every boundary and at all of them. A number
 * of parts that the model has no boundaries for, and layers that are not its layers, are refused.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/support/split_trial.h"

#define CHECKPOINT(name) "build/checkpoints/" name

static const struct kv_quantization full = {.scheme = KV_QUANT_NONE};

static int set_up(void **state)
{
    static struct split_trial trial;
    trial.random.state = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)trial.random.state);
    *state = &trial;
    return 0;
}

static void test_kinds_of_plans(void **state)
{
    static const char *const paths[] = {
        CHECKPOINT("llama-q4_0.gguf"),    CHECKPOINT("gemma3-bf16"),
        CHECKPOINT("gpt_oss-f32"),        CHECKPOINT("qwen3_moe-f32"),
        CHECKPOINT("gemma3n-f32"),        CHECKPOINT("gemma4-f32"),
        CHECKPOINT("cohere2-f32"),        CHECKPOINT("qwen3_5-f32.gguf"),
        CHECKPOINT("lfm2-bf16"),          CHECKPOINT("phi-f32"),
        CHECKPOINT("olmo2-f32"),          CHECKPOINT("deepseek_v3-f32"),
        CHECKPOINT("mamba2-f32.gguf"),    CHECKPOINT("falcon_h1-f32"),
        CHECKPOINT("nemotron_h_moe-f32"), CHECKPOINT("granitemoehybrid-f32"),
    };
    struct split_trial *trial = *state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        split_trial_text(trial, paths[i], full);
    assert_true(trial->compared > 1000);
}

static void test_quantized_keys_and_values(void **state)
{
    split_trial_text(*state, CHECKPOINT("qwen3-f32"),
                     (struct kv_quantization){KV_QUANT_UNIFORM, 8, 8, 0, 21});
    split_trial_text(*state, CHECKPOINT("gemma4_moe-f32"),
                     (struct kv_quantization){KV_QUANT_TURBOQUANT, 8, 8, 0, 21});
}

/* Spans that rows see whole, features in parts, positions in sections beside recurrent state. */
static void test_images(void **state)
{
    split_trial_images(*state, "gemma3");
    split_trial_images(*state, "qwen3_vl");
    split_trial_images(*state, "qwen3_5");
}

/* Loads a llama on CPUs with these layers; the text of the error. */
static const char *refusal(uint32_t count, const uint32_t *layers)
{
    static struct error_text error;
    struct model *model;
    struct backend_options options = {.threads = 1,
                                      .max_step_rows = 8,
                                      .max_logit_rows = 8,
                                      .kv_blocks = {4, 4, 4, 4},
                                      .stage_count = count};
    assert_int_equal(model_open(CHECKPOINT("llama-f32"), &model, &error), RESULT_OK);
    for (uint32_t i = 0; i < count; i++)
        options.stages[i] = (struct backend_stage){.device = {DEVICE_CPU, 0}, .layers = layers[i]};
    struct backend *backend = split_backend_create();
    assert_int_not_equal(
        backend->interface->load(backend, model_plan(model), &options, NULL, NULL, &error),
        RESULT_OK);
    backend->interface->destroy(backend);
    model_close(model);
    return error.text;
}

static void test_refusals(void **state)
{
    (void)state;
    const uint32_t chosen[LIMIT_SPLIT_DEVICES] = {0};
    assert_non_null(strstr(refusal(LIMIT_SPLIT_DEVICES, chosen), "can be cut into"));
    assert_non_null(strstr(refusal(2, (const uint32_t[]){1, 0}), "cannot be cut after layer"));
    assert_non_null(strstr(refusal(2, (const uint32_t[]){400, 1}), "cannot be cut after layer"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_of_plans),
        cmocka_unit_test(test_quantized_keys_and_values),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
