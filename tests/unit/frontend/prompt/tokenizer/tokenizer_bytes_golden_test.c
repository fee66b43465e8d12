/*
 * Byte-level tokenizer.json files of four families give the ids that Hugging Face gives, for every
 * case of the corpus, as a user's text and as a template's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/golden_tokenizer.h"

static void check(const char *name)
{
    struct tokenizer *tokenizer = golden_tokenizer_open_published(name);
    golden_tokenizer_check("tests/golden/tokenizer", name, tokenizer);
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
