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
#include "tests/support/golden_tokenizer.h"
#include "tests/support/tokenizer_corpus.h"

static void check(const char *name)
{
    struct tokenizer *tokenizer = golden_tokenizer_open_published(name);
    golden_tokenizer_check("tests/golden/tokenizer", name, tokenizer);
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
    golden_tokenizer_check("tests/golden/tokenizer", name, tokenizer);
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
