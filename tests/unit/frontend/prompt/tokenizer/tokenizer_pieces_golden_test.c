/*
 * SentencePiece-style tokenizer.json files, and tokenizer.model files, give the ids that Hugging
 * Face gives, for every case of the corpus, as a user's text and as a template's.
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

static void check_model(const char *name)
{
    char path[128];
    size_t byte_count;
    struct error_text error = {""};
    struct tokenizer *tokenizer;
    snprintf(path, sizeof path, "tests/golden/tokenizer/%s.model", name);
    char *bytes = corpus_read_file(path, "scripts/golden/tokenizer_pieces.py", &byte_count);
    if (tokenizer_open_model(bytes, byte_count, &tokenizer, &error) != RESULT_OK)
        fail_msg("%s: %s", name, error.text);
    free(bytes);
    corpus_check("tests/golden/tokenizer", name, encode, tokenizer);
    tokenizer_close(tokenizer);
}

static void test_models(void **state)
{
    (void)state;
    check_model("pieces_llama");
    check_model("pieces_gemma");
}

static void test_llama2(void **state)
{
    (void)state;
    check("llama2");
}

static void test_gemma3(void **state)
{
    (void)state;
    check("gemma3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_llama2),
        cmocka_unit_test(test_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
