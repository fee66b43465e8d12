/*
 * Reading a Hugging Face directory: contents and precedence of its files, and errors that name the
 * file.
 */
// tags: threads
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "frontend/assets/model_assets.h"
#include "frontend/base/text_buffer.h"
#include "proto/limits.h"
#include "tests/support/tiny_tokenizer.h"

static const char *const files[] = {
    "config.json",         "tokenizer.json", "tokenizer_config.json", "generation_config.json",
    "chat_template.jinja", "other.jinja",    "tokenizer.model",       "added_tokens.json"};
static char folder[64];
static struct model_assets assets;
static struct error_text error;

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
}

static int setup(void **state)
{
    (void)state;
    size_t bytes;
    char *tokenizer = tiny_tokenizer_json(&bytes);
    tokenizer = realloc(tokenizer, bytes + 1);
    tokenizer[bytes] = '\0';
    strcpy(folder, "/tmp/shoal-tiny-XXXXXX");
    assert_non_null(mkdtemp(folder));
    put("config.json", "{\"model_type\":\"llama\",\"max_position_embeddings\":300}");
    put("tokenizer.json", tokenizer);
    free(tokenizer);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(path_of(files[i]));
    return rmdir(folder);
}

static enum result open_folder(const struct model_assets_options *more)
{
    struct model_assets_options options = *more;
    options.path = folder;
    error.text[0] = '\0';
    return model_assets_open(&options, &assets, &error);
}

static void must_open(void)
{
    if (open_folder(&(struct model_assets_options){0}) != RESULT_OK)
        fail_msg("%s", error.text);
}

static void refuse(enum result result, const char *words)
{
    enum result opened = open_folder(&(struct model_assets_options){0});
    if (opened != result || !strstr(error.text, words) || !strstr(error.text, folder))
        fail_msg("%s \"%s\", not %s with \"%s\"", result_name(opened), error.text,
                 result_name(result), words);
    assert_null(assets.tokenizer);
}

static bool stops_at(uint32_t id)
{
    for (uint32_t i = 0; i < assets.stop_id_count; i++)
        if (assets.stop_ids[i] == id)
            return true;
    return false;
}

static void a_minimal_folder_opens(void **state)
{
    (void)state;
    must_open();
    assert_string_equal(assets.model_id, strrchr(folder, '/') + 1);
    assert_int_equal(assets.context_tokens, 300);
    assert_null(assets.chat_template);
    assert_string_equal(assets.bos_text, "");
    assert_true(stops_at(TINY_END)); /* by its name */
    assert_true(isnan(assets.sampling.temperature));
    assert_true(assets.created_unix_s > 1600000000);
    model_assets_close(&assets);
}

static void settings_name_bos_and_eos(void **state)
{
    (void)state;
    put("tokenizer_config.json", "{\"bos_token\":\"<|im_start|>\",\"add_bos_token\":true,"
                                 "\"eos_token\":{\"content\":\"<|im_start|>\"}}");
    must_open();
    assert_string_equal(assets.bos_text, "<|im_start|>");
    assert_string_equal(assets.eos_text, "<|im_start|>");
    assert_true(stops_at(TINY_START));
    assert_true(tokenizer_adds_bos(assets.tokenizer));
    model_assets_close(&assets);
    put("tokenizer_config.json",
        "{\"bos_token\":\"<|im_start|>\",\"add_bos_token\":false,\"eos_token\":null}");
    must_open();
    assert_false(tokenizer_adds_bos(assets.tokenizer));
    assert_false(stops_at(TINY_START));
    model_assets_close(&assets);
}

static void generation_config_gives_ends_and_sampling(void **state)
{
    (void)state;
    put("config.json", "{\"max_position_embeddings\":300,\"eos_token_id\":7}");
    must_open();
    assert_true(stops_at(7)); /* where there is no generation_config.json */
    model_assets_close(&assets);
    put("generation_config.json",
        "{\"eos_token_id\":[65,66,99999],\"do_sample\":false,\"temperature\":0.5,\"top_k\":30,"
        "\"top_p\":0.25,\"min_p\":0.125,\"repetition_penalty\":1.5}");
    must_open();
    assert_true(stops_at(65) && stops_at(66) && stops_at(TINY_END));
    assert_false(stops_at(7));
    assert_int_equal(assets.stop_id_count, 3);
    assert_true(assets.sampling.temperature == 0.5f && assets.sampling.top_p == 0.25f);
    assert_true(assets.sampling.min_p == 0.125f && assets.sampling.repetition_penalty == 1.5f);
    assert_int_equal(assets.sampling.top_k, 30);
    model_assets_close(&assets);
    put("generation_config.json", "{\"eos_token_id\":65,\"temperature\":-1,\"top_k\":-1,"
                                  "\"top_p\":\"x\",\"repetition_penalty\":null}");
    must_open();
    assert_true(stops_at(65));
    assert_true(isnan(assets.sampling.temperature) && isnan(assets.sampling.top_p));
    assert_int_equal(assets.sampling.top_k, UINT32_MAX);
    model_assets_close(&assets);
}

static void must_render(const char *wanted)
{
    struct chat_prompt prompt = {0};
    must_open();
    assert_non_null(assets.chat_template);
    cJSON *variables = cJSON_CreateObject();
    cJSON_AddArrayToObject(variables, "messages");
    static const char *const trusted[] = {NULL};
    enum result result =
        chat_template_render(assets.chat_template, variables, trusted, 0, NULL, &prompt, &error);
    if (result != RESULT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(prompt.text_bytes, strlen(wanted));
    assert_memory_equal(prompt.text, wanted, prompt.text_bytes);
    chat_prompt_fini(&prompt);
    cJSON_Delete(variables);
    model_assets_close(&assets);
}

static void templates_have_a_precedence(void **state)
{
    (void)state;
    put("tokenizer_config.json", "{\"chat_template\":\"a \\\"string\\\"\\n\\u00e9\"}");
    must_render("a \"string\"\n\xC3\xA9");
    put("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"no\"},"
                                 "{\"name\":\"default\",\"template\":\"of a list\"}]}");
    must_render("of a list");
    put("chat_template.jinja", "a file");
    must_render("a file");
    put("other.jinja", "{% broken");
    char other[128];
    snprintf(other, sizeof other, "%s", path_of("other.jinja"));
    assert_int_not_equal(open_folder(&(struct model_assets_options){.chat_template_path = other}),
                         RESULT_OK);
    unlink(path_of("chat_template.jinja"));
    put("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"no\"}]}");
    must_open();
    assert_null(assets.chat_template);
    model_assets_close(&assets);
}

static void context_comes_from_the_text_part_or_the_default(void **state)
{
    (void)state;
    put("config.json", "{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":1}}");
    must_open();
    assert_int_equal(assets.context_tokens, 131072);
    model_assets_close(&assets);
    put("config.json", "{\"text_config\":{\"max_position_embeddings\":77}}");
    must_open();
    assert_int_equal(assets.context_tokens, 77);
    model_assets_close(&assets);
}

static void broken_files_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *text;
        enum result result;
        const char *words;
    } cases[] = {
        {"tokenizer_config.json", "", RESULT_INVALID, "tokenizer_config.json: the file is empty"},
        {"tokenizer_config.json", "{", RESULT_INVALID, "tokenizer_config.json: no valid JSON"},
        {"tokenizer_config.json", "[]", RESULT_INVALID, "tokenizer_config.json: not an object"},
        {"tokenizer_config.json", "{\"bos_token\":1}", RESULT_INVALID, "bos_token is no token"},
        {"tokenizer_config.json", "{\"eos_token\":[]}", RESULT_INVALID, "eos_token is no token"},
        {"tokenizer_config.json", "{\"bos_token\":\"<none>\"}", RESULT_INVALID,
         "bos_token \"<none>\" is no token"},
        {"tokenizer_config.json", "{\"add_bos_token\":\"yes\"}", RESULT_INVALID, "add_bos_token"},
        {"tokenizer_config.json", "{\"chat_template\":7}", RESULT_INVALID, "chat_template"},
        {"tokenizer_config.json", "{\"chat_template\":\"{% for %}\"}", RESULT_INVALID,
         "tokenizer_config.json: chat_template"},
        {"tokenizer_config.json", "{\"chat_template\":[{\"name\":\"default\",\"template\":[]}]}",
         RESULT_INVALID, "chat_template is no text"},
        {"chat_template.jinja", "{% for %}", RESULT_INVALID, "chat_template.jinja: "},
        {"generation_config.json", "nul", RESULT_INVALID, "generation_config.json: no valid"},
        {"generation_config.json", "{\"eos_token_id\":\"x\"}", RESULT_INVALID,
         "generation_config.json: eos_token_id"},
        {"generation_config.json", "{\"eos_token_id\":[-1]}", RESULT_INVALID, "eos_token_id"},
        {"tokenizer.json", "{}", RESULT_INVALID, "tokenizer.json"},
        {"config.json", "{}", RESULT_INVALID, "config.json: key max_position_embeddings"},
        {"config.json", "{\"max_position_embeddings\":-1}", RESULT_INVALID, "config.json"},
        {"config.json", "x", RESULT_INVALID, "config.json: no valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put(cases[i].name, cases[i].text);
        refuse(cases[i].result, cases[i].words);
        teardown(NULL);
        setup(NULL);
    }
    struct text_buffer ends = {0};
    for (uint32_t id = 0; id <= LIMIT_STOP_TOKENS; id++)
        text_buffer_append_format(&ends, "%s%u", id ? "," : "{\"eos_token_id\":[", id);
    text_buffer_append_text(&ends, "]}");
    put("generation_config.json", ends.bytes);
    text_buffer_fini(&ends);
    refuse(RESULT_TOO_LARGE, "eos_token_id has over");
    teardown(NULL);
    setup(NULL);
    unlink(path_of("tokenizer.json"));
    refuse(RESULT_INVALID, "the folder has neither tokenizer.json nor tokenizer.model");
    unlink(path_of("config.json"));
    refuse(RESULT_INVALID, "the folder has no config.json");
}

static void link_model(const char *name)
{
    char here[512];
    assert_non_null(getcwd(here, sizeof here - 64));
    strcat(here, "/tests/golden/tokenizer/");
    strcat(here, name);
    assert_int_equal(symlink(here, path_of("tokenizer.model")), 0);
}

static void tokenizer_model_replaces_a_missing_tokenizer_json(void **state)
{
    (void)state;
    link_model("pieces_llama.model");
    must_open();
    assert_int_not_equal(tokenizer_vocab_tokens(assets.tokenizer), 900); /* tokenizer.json counts */
    model_assets_close(&assets);
    unlink(path_of("tokenizer.json"));
    put("tokenizer_config.json", "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
    must_open();
    assert_int_equal(tokenizer_vocab_tokens(assets.tokenizer), 900);
    assert_int_equal(tokenizer_bos_token(assets.tokenizer), 1);
    assert_true(tokenizer_adds_bos(assets.tokenizer));
    model_assets_close(&assets);
    put("added_tokens.json", "{\"<x>\":900}");
    refuse(RESULT_UNSUPPORTED, "added_tokens.json beside tokenizer.model is not read");
    unlink(path_of("added_tokens.json"));
    unlink(path_of("tokenizer.model"));
    put("tokenizer.model", "\x0a\x04\x0a\x02hi");
    refuse(RESULT_UNSUPPORTED, "tokenizer.model: model type unigram, not BPE");
}

static void folders_are_named_by_their_last_part(void **state)
{
    (void)state;
    static const char *const endings[] = {"", "/", "//", "/.", "/./"};
    char path[128];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        snprintf(path, sizeof path, "%s%s", folder, endings[i]);
        struct model_assets_options options = {.path = path};
        assert_int_equal(model_assets_open(&options, &assets, &error), RESULT_OK);
        assert_string_equal(assets.model_id, strrchr(folder, '/') + 1);
        model_assets_close(&assets);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_minimal_folder_opens),
        TEST(settings_name_bos_and_eos),
        TEST(generation_config_gives_ends_and_sampling),
        TEST(templates_have_a_precedence),
        TEST(context_comes_from_the_text_part_or_the_default),
        TEST(broken_files_are_refused_by_name),
        TEST(tokenizer_model_replaces_a_missing_tokenizer_json),
        TEST(folders_are_named_by_their_last_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
