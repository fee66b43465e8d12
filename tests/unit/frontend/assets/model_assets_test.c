/*
 * Opening a checkpoint: what is read, the defaults for what is absent, and errors.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/assets/model_assets.h"
#include "proto/gguf_file.h"
#include "tests/support/gguf_builder.h"

static struct gguf_builder builder;
static char folder[64];
static char path[128];

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/shoal-assets-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/My Model\"v1.gguf", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    rmdir(folder);
    return 0;
}

static void file_write(const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

/* A byte-level vocabulary of 256 bytes and one control token; `extra` more keys follow. */
static void builder_begin(uint64_t extra)
{
    gguf_builder_init(&builder, 0, 8 + extra);
    gguf_builder_add_key_string(&builder, "general.architecture", "llama");
    gguf_builder_add_key_u32(&builder, "llama.context_length", 2048);
    gguf_builder_add_key_string(&builder, "tokenizer.ggml.model", "gpt2");
    gguf_builder_add_key_string(&builder, "tokenizer.ggml.pre", "gpt-2");
    gguf_builder_add_key_array(&builder, "tokenizer.ggml.tokens", GGUF_STRING, 257);
    unsigned next = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool plain = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        unsigned code = plain ? byte : next++;
        char text[3] = {(char)(code < 128 ? code : 0xC0 | code >> 6),
                        (char)(code < 128 ? 0 : 0x80 | (code & 63)), 0};
        gguf_builder_add_string(&builder, text);
    }
    gguf_builder_add_string(&builder, "<|im_end|>");
    gguf_builder_add_key_array(&builder, "tokenizer.ggml.token_type", GGUF_INT32, 257);
    for (unsigned i = 0; i < 257; i++)
        gguf_builder_add_u32(&builder, i < 256 ? 1 : 3);
    gguf_builder_add_key_array(&builder, "tokenizer.ggml.merges", GGUF_STRING, 0);
    gguf_builder_add_key_u32(&builder, "tokenizer.ggml.eos_token_id", 256);
}

static enum result open_built(const char *name, uint32_t context, struct model_assets *assets,
                              struct error_text *error)
{
    file_write(builder.bytes, builder.byte_count);
    return model_assets_open(&(struct model_assets_options){.path = path,
                                                            .served_names = &name,
                                                            .served_name_count = name != NULL,
                                                            .context_limit = context},
                             assets, error);
}

static void a_checkpoint_gives_tokenizer_template_and_defaults(void **state)
{
    (void)state;
    struct model_assets assets;
    struct error_text error = {""};
    builder_begin(4);
    gguf_builder_add_key_string(&builder, "tokenizer.chat_template", "{{ messages }}");
    gguf_builder_add_key_f32(&builder, "general.sampling.temp", 0.25f);
    gguf_builder_add_key_u32(&builder, "general.sampling.top_k", 20);
    gguf_builder_add_key_f32(&builder, "general.sampling.top_p", 7.0f); /* nonsense */
    assert_int_equal(open_built(NULL, 0, &assets, &error), RESULT_OK);
    assert_string_equal(assets.model_id, "My-Model-v1");
    assert_int_equal(assets.context_tokens, 2048);
    assert_non_null(assets.chat_template);
    assert_string_equal(assets.eos_text, "<|im_end|>");
    assert_string_equal(assets.bos_text, "");
    assert_int_equal(assets.stop_id_count, 1);
    assert_int_equal(assets.stop_ids[0], 256);
    assert_true(assets.sampling.temperature == 0.25f);
    assert_int_equal(assets.sampling.top_k, 20);
    assert_true(isnan(assets.sampling.top_p));
    assert_true(isnan(assets.sampling.min_p));
    model_assets_close(&assets);
}

static void a_checkpoint_without_template_opens(void **state)
{
    (void)state;
    struct model_assets assets;
    struct error_text error = {""};
    builder_begin(0);
    assert_int_equal(open_built("served", 100, &assets, &error), RESULT_OK);
    assert_null(assets.chat_template);
    assert_string_equal(assets.model_id, "served");
    assert_int_equal(assets.context_tokens, 100);
    model_assets_close(&assets);
}

static void a_limit_above_the_trained_context_changes_nothing(void **state)
{
    (void)state;
    struct model_assets assets;
    struct error_text error = {""};
    builder_begin(0);
    assert_int_equal(open_built(NULL, 100000, &assets, &error), RESULT_OK);
    assert_int_equal(assets.context_tokens, 2048);
    model_assets_close(&assets);
}

static void checkpoints_that_cannot_be_served_are_refused_with_a_message(void **state)
{
    (void)state;
    struct model_assets assets;
    struct error_text error = {""};
    assert_int_equal(model_assets_open(&(struct model_assets_options){.path = "/does/not/exist"},
                                       &assets, &error),
                     RESULT_IO);
    assert_non_null(strstr(error.text, "/does/not/exist"));
    assert_int_equal(
        model_assets_open(&(struct model_assets_options){.path = "/tmp"}, &assets, &error),
        RESULT_INVALID);
    file_write("GGUFnot", 7);
    assert_int_not_equal(
        model_assets_open(&(struct model_assets_options){.path = path}, &assets, &error),
        RESULT_OK);
    assert_null(assets.tokenizer);

    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_string(&builder, "general.architecture", "llama");
    assert_int_equal(open_built(NULL, 0, &assets, &error), RESULT_INVALID);
    assert_non_null(strstr(error.text, "llama.context_length"));

    builder_begin(1);
    gguf_builder_add_key_string(&builder, "tokenizer.chat_template", "{% for %}");
    assert_int_equal(open_built(NULL, 0, &assets, &error), RESULT_INVALID);
    assert_null(assets.tokenizer);
    builder_begin(0);
    assert_int_equal(open_built("two words", 0, &assets, &error), RESULT_INVALID);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_checkpoint_gives_tokenizer_template_and_defaults),
        TEST(a_checkpoint_without_template_opens),
        TEST(a_limit_above_the_trained_context_changes_nothing),
        TEST(checkpoints_that_cannot_be_served_are_refused_with_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
