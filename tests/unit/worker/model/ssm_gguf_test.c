/*
 * GGUF metadata of architectures with state space mixers: what the layers are, by lists of heads and of
 * columns; sizes; and refusals by the key's name.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/gguf_file.h"
#include "tests/support/gguf_builder.h"
#include "worker/model/family_registry.h"

#define LAYERS 3u
#define U32    4u /* types of values in GGUF */
#define BOOL   7u

struct key {
    const char *name;
    uint32_t value;
};

/* Metadata of a file of one tensor, the embedding. */
struct file {
    const char *architecture;
    const struct key *keys;   /* ends with a NULL name */
    const uint32_t *kv_heads; /* [LAYERS], or NULL */
    const uint32_t *wide;     /* [LAYERS], or NULL */
    bool no_rotation;
};

static const struct key common[] = {
    {"block_count", LAYERS},   {"context_length", 512}, {"embedding_length", 48},
    {"ssm.conv_kernel", 4},    {"ssm.state_size", 24},  {"ssm.group_count", 2},
    {"ssm.time_step_rank", 6}, {"ssm.inner_size", 96},
};
#define COMMON (sizeof common / sizeof common[0])

static struct gguf_builder builder;
static struct model_config config;
static struct error_text error;

static void add_list(const char *architecture, const char *name, const uint32_t *values)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", architecture, name);
    gguf_builder_add_key_array(&builder, key, U32, LAYERS);
    for (uint32_t i = 0; i < LAYERS; i++)
        gguf_builder_add_u32(&builder, values[i]);
}

/* `changed` replaces a common key of its name; a NULL name: none. */
static enum result read_with(const struct file *f, struct key changed)
{
    static const uint64_t embedding[] = {48, 1};
    const struct model_family *family;
    struct gguf_file *file;
    uint32_t own = 0;
    char key[64];
    while (f->keys[own].name)
        own++;
    gguf_builder_init(
        &builder, 1, 2 + COMMON + own + (f->kv_heads != NULL) + (f->wide != NULL) + f->no_rotation);
    gguf_builder_add_key_string(&builder, "general.architecture", f->architecture);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", f->architecture);
    gguf_builder_add_key_f32(&builder, key, 1e-5f);
    for (size_t i = 0; i < COMMON + own; i++) {
        struct key one = i < COMMON ? common[i] : f->keys[i - COMMON];
        snprintf(key, sizeof key, "%s.%s", f->architecture, one.name);
        bool other = changed.name && strcmp(changed.name, one.name) == 0;
        gguf_builder_add_key_u32(&builder, key, other ? changed.value : one.value);
    }
    if (f->kv_heads)
        add_list(f->architecture, "attention.head_count_kv", f->kv_heads);
    if (f->wide)
        add_list(f->architecture, "feed_forward_length", f->wide);
    if (f->no_rotation) {
        snprintf(key, sizeof key, "%s.rope.scaling.finetuned", f->architecture);
        gguf_builder_add_key(&builder, key, BOOL);
        gguf_builder_add_u8(&builder, 0);
    }
    gguf_builder_add_tensor(&builder, "token_embd.weight", 2, embedding, GGML_F32, 0);
    gguf_builder_add_data(&builder, 32, 48 * 4);
    if (gguf_file_open(builder.bytes, builder.byte_count, &file, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    enum result result = family_registry_read_gguf(file, &family, &config, &error);
    gguf_file_close(file);
    return result;
}

static void must_read(const struct file *f)
{
    if (read_with(f, (struct key){NULL, 0}) != RESULT_OK)
        fail_msg("%s: %s", f->architecture, error.text);
}

static void must_refuse(const struct file *f, struct key changed, const char *words)
{
    if (read_with(f, changed) == RESULT_OK)
        fail_msg("%s: %s is accepted", f->architecture, words);
    if (!strstr(error.text, words))
        fail_msg("%s: \"%s\" lacks \"%s\"", f->architecture, error.text, words);
}

static const struct key none = {NULL, 0};

static void test_mamba2(void **state)
{
    (void)state;
    static const struct key own[] = {
        {"attention.head_count", 0}, {"feed_forward_length", 0}, {NULL, 0}};
    const struct file f = {"mamba2", own, NULL, NULL, false};
    must_read(&f);
    assert_int_equal(config.layer[0].kind, LAYER_SSM);
    assert_int_equal(config.ssm.head_dim, 16);
    assert_int_equal(config.conv_channels, 96 + 2 * 2 * 24);
    assert_true(!config.ssm.rate_is_log && isinf(config.ssm.most_step));
    must_refuse(&f, (struct key){"ssm.inner_size", 97}, "ssm.inner_size");
    must_refuse(&f, (struct key){"ssm.time_step_rank", 0}, "ssm.time_step_rank");
    must_refuse(&f, (struct key){"ssm.time_step_rank", 1025}, "ssm.time_step_rank");
    must_refuse(&f, (struct key){"ssm.group_count", 4}, "groups evenly");
    must_refuse(&f, (struct key){"ssm.group_count", 0}, "ssm.group_count");
    must_refuse(&f, (struct key){"ssm.state_size", 513}, "ssm.state_size");
    must_refuse(&f, (struct key){"ssm.conv_kernel", 1}, "ssm.conv_kernel");
}

static void test_granite_hybrid(void **state)
{
    (void)state;
    static const struct key own[] = {{"attention.head_count", 4},
                                     {"feed_forward_length", 40},
                                     {"attention.key_length", 12},
                                     {NULL, 0}};
    static const struct key part[] = {{"attention.head_count", 4},
                                      {"feed_forward_length", 40},
                                      {"attention.key_length", 12},
                                      {"rope.dimension_count", 6},
                                      {NULL, 0}};
    static const uint32_t heads[] = {0, 2, 0}, uneven[] = {2, 0, 4}, nowhere[] = {0, 0, 0};
    must_read(&(const struct file){"granitehybrid", own, heads, NULL, true});
    assert_int_equal(config.layer[0].kind, LAYER_SSM);
    assert_int_equal(config.layer[1].kind, LAYER_ATTENTION);
    assert_int_equal(config.layer[1].rope, ROPE_NONE);
    assert_int_equal(config.kv_heads, 2);
    assert_int_equal(config.experts.count, 0);
    must_read(&(const struct file){"granitehybrid", own, heads, NULL, false});
    assert_int_equal(config.layer[1].rope, 0);
    must_read(&(const struct file){"granitehybrid", part, heads, NULL, true});
    must_refuse(&(const struct file){"granitehybrid", part, heads, NULL, false}, none,
                "rope.dimension_count");
    must_refuse(&(const struct file){"granitehybrid", own, uneven, NULL, true}, none,
                "head_count_kv");
    must_refuse(&(const struct file){"granitehybrid", own, nowhere, NULL, true}, none,
                "no layer attends");
}

static void test_nemotron_h(void **state)
{
    (void)state;
    static const struct key own[] = {
        {"attention.head_count", 4}, {"attention.key_length", 16}, {NULL, 0}};
    static const struct key experts[] = {{"attention.head_count", 4},
                                         {"attention.key_length", 16},
                                         {"expert_count", 5},
                                         {"expert_used_count", 2},
                                         {"expert_feed_forward_length", 24},
                                         {"expert_shared_feed_forward_length", 40},
                                         {"moe_latent_size", 32},
                                         {NULL, 0}};
    static const uint32_t heads[] = {0, 2, 0}, wide[] = {0, 0, 72}, both[] = {0, 24, 0};
    must_read(&(const struct file){"nemotron_h", own, heads, wide, false});
    assert_int_equal(config.layer[0].kind, LAYER_SSM);
    assert_int_equal(config.layer[1].kind, LAYER_ATTENTION);
    assert_int_equal(config.layer[2].kind, LAYER_FEED_FORWARD);
    assert_int_equal(config.feed_forward, 72);
    assert_int_equal(config.layer[1].rope, ROPE_NONE);
    must_refuse(&(const struct file){"nemotron_h", own, heads, both, false}, none, "both");
    must_refuse(&(const struct file){"nemotron_h", experts, heads, wide, false}, none,
                "expert_count");
    must_read(&(const struct file){"nemotron_h_moe", experts, heads, wide, false});
    assert_true(config.layer[2].experts && !config.layer[0].experts);
    assert_int_equal(config.experts.latent, 32);
    assert_int_equal(config.experts.shared, 40);
    assert_true(config.experts.sigmoid && config.experts.normalized);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mamba2),
        cmocka_unit_test(test_granite_hybrid),
        cmocka_unit_test(test_nemotron_h),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
