/*
 * Masks of five published vocabularies equal following every token, on 2,000 random states of
 * random JSON grammars.
 */
// tags: long no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/grammar_states.h"

#define STATES 400u

#define VOCABULARY_TEST(name)                                                                      \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        grammar_states_check("build/cache/tokenizers/" #name "/tokenizer.json", 1000, STATES);     \
    }

VOCABULARY_TEST(gpt2)
VOCABULARY_TEST(llama2)
VOCABULARY_TEST(llama3)
VOCABULARY_TEST(qwen3)
VOCABULARY_TEST(deepseek_v3)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),        cmocka_unit_test(test_llama2),
        cmocka_unit_test(test_llama3),      cmocka_unit_test(test_qwen3),
        cmocka_unit_test(test_deepseek_v3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
