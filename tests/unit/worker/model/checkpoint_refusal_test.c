/*
 * Each kind of bad metadata is refused, with its result code and the key's name.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/tiny_checkpoint.h"

static struct tiny_checkpoint tiny;

static void test_missing_keys(void **state)
{
    (void)state;
    static const char *const required[] = {
        "general.architecture",
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    };
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        tiny_checkpoint_init_llama(&tiny, 1);
        tiny_checkpoint_drop_key(&tiny, required[i]);
        tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, required[i]);
    }
}

static void test_counts_out_of_range(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        enum result result;
    } cases[] = {
        {"llama.block_count", 0, RESULT_INVALID},
        {"llama.block_count", LIMIT_LAYERS + 1, RESULT_TOO_LARGE},
        {"llama.context_length", 0, RESULT_INVALID},
        {"llama.context_length", LIMIT_CONTEXT_TOKENS + 1, RESULT_TOO_LARGE},
        {"llama.embedding_length", 0, RESULT_INVALID},
        {"llama.embedding_length", UINT32_MAX, RESULT_TOO_LARGE},
        {"llama.feed_forward_length", 0, RESULT_INVALID},
        {"llama.feed_forward_length", UINT32_MAX, RESULT_TOO_LARGE},
        {"llama.attention.head_count", 0, RESULT_INVALID},
        {"llama.attention.head_count", UINT32_MAX, RESULT_TOO_LARGE},
        {"llama.attention.head_count_kv", 0, RESULT_INVALID},
        {"llama.attention.head_count_kv", UINT32_MAX, RESULT_TOO_LARGE},
        {"llama.attention.key_length", 0, RESULT_INVALID},
        {"llama.attention.key_length", UINT32_MAX, RESULT_TOO_LARGE},
        {"llama.rope.dimension_count", 0, RESULT_INVALID},
        {"llama.rope.dimension_count", 3, RESULT_INVALID},
        {"llama.rope.dimension_count", 6, RESULT_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_checkpoint_init_llama(&tiny, 1);
        tiny_checkpoint_set_u32(&tiny, cases[i].key, cases[i].value);
        /* compare the end of the key only: some messages name two keys */
        tiny_checkpoint_must_refuse(&tiny, cases[i].result, cases[i].key + sizeof("llama.") - 1);
    }
}

static void test_wrong_types(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_string(&tiny, "llama.block_count", "two");
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "llama.block_count");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "llama.attention.layer_norm_rms_epsilon", 1);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "rms_epsilon");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_string(&tiny, "llama.attention.head_count_kv", "2");
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "head_count_kv");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "general.architecture", 1);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "general.architecture");
}

static void test_floats_out_of_range(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        float value;
    } cases[] = {
        {"llama.attention.layer_norm_rms_epsilon", 0.0f},
        {"llama.attention.layer_norm_rms_epsilon", -1e-5f},
        {"llama.attention.layer_norm_rms_epsilon", NAN},
        {"llama.rope.freq_base", 0.0f},
        {"llama.rope.freq_base", INFINITY},
        {"llama.rope.scaling.factor", -1.0f},
        {"llama.rope.scaling.factor", 1e-9f},
        {"llama.attention.scale", 0.0f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_checkpoint_init_llama(&tiny, 1);
        tiny_checkpoint_set_f32(&tiny, cases[i].key, cases[i].value);
        tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, cases[i].key + sizeof("llama.") - 1);
    }
}

static void test_heads_that_do_not_divide(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "llama.attention.head_count_kv", 3);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "4 attention heads");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "llama.attention.head_count", 6);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "no multiple of 6 heads");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "llama.attention.value_length", 8);
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "value_length");
}

static void test_what_no_family_computes(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "llama.expert_count", 8);
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "llama.expert_count");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_f32(&tiny, "llama.logit_scale", 0.5f);
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "llama.logit_scale");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_bool(&tiny, "llama.attention.causal", 0);
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "llama.attention.causal");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_string(&tiny, "llama.final_logit_softcapping", "30");
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "llama.final_logit_softcapping");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_string(&tiny, "llama.rope.scaling.type", "axial");
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "axial");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_string(&tiny, "general.architecture", "mamba");
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "mamba");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "split.count", 2);
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "one of 2 parts");
}

static void test_neutral_values_are_fine(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "llama.expert_count", 0);
    tiny_checkpoint_set_f32(&tiny, "llama.logit_scale", 1.0f);
    tiny_checkpoint_set_bool(&tiny, "llama.attention.causal", 1);
    model_close(tiny_checkpoint_must_open(&tiny));
}

static void test_gemma3_needs_its_window(void **state)
{
    (void)state;
    tiny_checkpoint_init_gemma3(&tiny, 1);
    tiny_checkpoint_drop_key(&tiny, "gemma3.attention.sliding_window");
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "gemma3.attention.sliding_window");
    tiny_checkpoint_init_gemma3(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "gemma3.attention.sliding_window", 0);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "gemma3.attention.sliding_window");
    tiny_checkpoint_init_gemma3(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "gemma3.attention.sliding_window_pattern", 0);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "sliding_window_pattern");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_counts_out_of_range),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_floats_out_of_range),
        cmocka_unit_test(test_heads_that_do_not_divide),
        cmocka_unit_test(test_what_no_family_computes),
        cmocka_unit_test(test_neutral_values_are_fine),
        cmocka_unit_test(test_gemma3_needs_its_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
