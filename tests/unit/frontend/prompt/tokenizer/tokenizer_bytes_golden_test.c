/*
 * Byte-level tokenizer.json files of four families give the ids that Hugging Face gives, for every
 * case of the corpus, as a user's text and as a template's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "tests/support/tokenizer_corpus.h"

static size_t encode(void *tokenizer, const char *bytes, size_t byte_count, bool is_template,
                     uint32_t **ids)
{
    struct prompt_span span = {bytes, byte_count, is_template};
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, &span, 1, SIZE_MAX, &list), RESULT_OK);
    *ids = list.ids;
    return list.count;
}

static void check(const char *name)
{
    char path[128];
    size_t json_bytes;
    struct error_text error = {""};
    struct tokenizer *tokenizer;
    snprintf(path, sizeof path, "build/cache/tokenizers/%s/tokenizer.json", name);
    char *json = corpus_read_file(path, "scripts/fetch_tokenizers", &json_bytes);
    if (tokenizer_open_json(json, json_bytes, &tokenizer, &error) != RESULT_OK)
        fail_msg("%s: %s", name, error.text);
    free(json);
    corpus_check("tests/golden/tokenizer", name, encode, tokenizer);
    tokenizer_close(tokenizer);
}

static void test_gpt2(void **state)
{
    (void)state;
    check("gpt2");
}

static void test_llama3(void **state)
{
    (void)state;
    check("llama3");
}

static void test_qwen3(void **state)
{
    (void)state;
    check("qwen3");
}

static void test_deepseek_v3(void **state)
{
    (void)state;
    check("deepseek_v3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_qwen3),
        cmocka_unit_test(test_deepseek_v3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
