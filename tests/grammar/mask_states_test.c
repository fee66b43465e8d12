/*
 * Masks of two vocabularies equal following every token, on random states of random JSON grammars.
 * mask_states_long_test.c has five vocabularies and 2,000 states.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/grammar_states.h"

static void test_demo(void **state)
{
    (void)state;
    grammar_states_check("tests/model/demo/tokenizer.json", 1, 60);
}

static void test_llama2(void **state)
{
    (void)state;
    grammar_states_check("build/cache/tokenizers/llama2/tokenizer.json", 1, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_demo), cmocka_unit_test(test_llama2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
