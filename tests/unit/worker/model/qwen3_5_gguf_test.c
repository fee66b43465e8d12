/*
 * qwen35moe's GGUF metadata: the values read, required keys, and refused numbers. The width of a
 * layer without experts is not stated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/gguf_file.h"
#include "tests/support/gguf_builder.h"
#include "worker/model/family_registry.h"

#define KEYS (sizeof whole / sizeof whole[0])

static const struct key {
    const char *name;
    uint32_t value;
} whole[] = {
    {"block_count", 5},
    {"nextn_predict_layers", 1},
    {"context_length", 512},
    {"embedding_length", 48},
    {"attention.head_count", 4},
    {"attention.head_count_kv", 2},
    {"attention.key_length", 16},
    {"ssm.conv_kernel", 4},
    {"ssm.state_size", 24},
    {"ssm.group_count", 2},
    {"ssm.time_step_rank", 4},
    {"ssm.inner_size", 96},
    {"rope.dimension_count", 4},
    {"expert_count", 7},
    {"expert_used_count", 3},
    {"expert_feed_forward_length", 24},
    {"expert_shared_feed_forward_length", 40},
};

static struct gguf_builder builder;
static struct model_config config;
static struct error_text error;

/* Complete metadata, with `name` set to another value, or left out if that is NULL. */
static enum result read_with(const char *name, const uint32_t *value)
{
    static const uint64_t embedding[] = {48, 1};
    const struct model_family *family;
    struct gguf_file *file;
    gguf_builder_init(&builder, 1, KEYS + 2 - (name && !value));
    gguf_builder_add_key_string(&builder, "general.architecture", "qwen35moe");
    gguf_builder_add_key_f32(&builder, "qwen35moe.attention.layer_norm_rms_epsilon", 1e-6f);
    for (size_t i = 0; i < KEYS; i++) {
        char key[64];
        bool other = name && strcmp(name, whole[i].name) == 0;
        snprintf(key, sizeof key, "qwen35moe.%s", whole[i].name);
        if (!other || value)
            gguf_builder_add_key_u32(&builder, key, other ? *value : whole[i].value);
    }
    gguf_builder_add_tensor(&builder, "token_embd.weight", 2, embedding, GGML_F32, 0);
    gguf_builder_add_data(&builder, 32, 48 * 4);
    if (gguf_file_open(builder.bytes, builder.byte_count, &file, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    enum result result = family_registry_read_gguf(file, &family, &config, &error);
    gguf_file_close(file);
    return result;
}

static void must_refuse(const char *name, const uint32_t *value, const char *words)
{
    if (read_with(name, value) == RESULT_OK)
        fail_msg("%s is accepted", name);
    if (!strstr(error.text, words))
        fail_msg("%s: \"%s\" lacks \"%s\"", name, error.text, words);
}

static void test_whole(void **state)
{
    (void)state;
    if (read_with(NULL, NULL) != RESULT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(config.layers, 4);
    assert_int_equal(config.ahead_layers, 1);
    assert_int_equal(config.feed_forward, 40);
    assert_int_equal(config.experts.count, 7);
    assert_int_equal(config.experts.chosen, 3);
    assert_int_equal(config.experts.feed_forward, 24);
    assert_true(config.experts.normalized);
    for (uint32_t layer = 0; layer < 4; layer++) {
        assert_true(config.layer[layer].experts);
        assert_int_equal(config.layer[layer].kind == LAYER_ATTENTION, layer == 3);
    }
    assert_true(config.delta.heads_alternate && !config.delta.rate_is_log);
}

static void test_missing_keys(void **state)
{
    (void)state;
    must_refuse("expert_count", NULL, "expert_count");
    must_refuse("expert_used_count", NULL, "expert_used_count");
    must_refuse("expert_feed_forward_length", NULL, "expert_feed_forward_length");
    must_refuse("expert_shared_feed_forward_length", NULL, "expert_shared_feed_forward_length");
    must_refuse("ssm.inner_size", NULL, "ssm.inner_size");
}

static void test_refused_numbers(void **state)
{
    (void)state;
    const uint32_t none = 0, two = 2, five = 5, many = 1u << 31;
    must_refuse("expert_count", &none, "expert_count");
    must_refuse("expert_count", &two, "3 experts of 2");
    must_refuse("expert_count", &many, "expert_count");
    must_refuse("expert_used_count", &many, "expert_used_count");
    must_refuse("expert_feed_forward_length", &none, "expert_feed_forward_length");
    must_refuse("expert_shared_feed_forward_length", &many, "expert_shared_feed_forward_length");
    must_refuse("nextn_predict_layers", &five, "nextn_predict_layers");
    must_refuse("ssm.inner_size", &five, "ssm.inner_size 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_refused_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
