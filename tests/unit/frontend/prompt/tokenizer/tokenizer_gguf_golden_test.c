/*
 * The tokenizers inside the two default models' GGUF files give the ids that Hugging Face gives
 * with the publishers' settings, for every case of the corpus.
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
#include "proto/gguf_file.h"
#include "tests/support/golden_tokenizer.h"
#include "tests/support/tokenizer_corpus.h"

static void check(const char *file_name, const char *golden_name)
{
    char path[128];
    size_t file_bytes;
    struct error_text error = {""};
    struct gguf_file *gguf;
    struct tokenizer *tokenizer;
    snprintf(path, sizeof path, "build/cache/models/%s", file_name);
    char *file = corpus_read_file(path, "scripts/fetch_model", &file_bytes);
    assert_int_equal(gguf_file_open(file, file_bytes, &gguf, &error), RESULT_OK);
    if (tokenizer_open_gguf(gguf, &tokenizer, &error) != RESULT_OK)
        fail_msg("%s: %s", file_name, error.text);
    gguf_file_close(gguf);
    free(file); /* nothing of the file is needed any more */
    golden_tokenizer_check("tests/golden/tokenizer", golden_name, tokenizer);
    tokenizer_close(tokenizer);
}

static void test_smollm2(void **state)
{
    (void)state;
    check("smollm2-135m-instruct-q4_1.gguf", "smollm2-gguf");
}

static void test_gemma3(void **state)
{
    (void)state;
    check("gemma-3-270m-q4_k_m.gguf", "gemma3-gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
