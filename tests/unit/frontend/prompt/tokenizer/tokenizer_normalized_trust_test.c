/*
 * Trust survives normalization: a special token that is searched in normalized text (composed,
 * spaces rewritten) is found only where the template wrote all characters that it came from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/golden_tokenizer.h"

static void assert_specials(size_t wanted, const struct prompt_span spans[], size_t span_count)
{
    struct tokenizer *tokenizer = golden_tokenizer_open_variant("added_normalized");
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, spans, span_count, 1000, NULL, &list), RESULT_OK);
    size_t specials = 0;
    int32_t special = tokenizer_find_token(tokenizer, "<s>", 3);
    assert_true(special > 0 && tokenizer_is_special(tokenizer, (uint32_t)special));
    for (size_t i = 0; i < list.count; i++)
        specials += list.ids[i] == (uint32_t)special;
    assert_int_equal(specials, wanted);
    token_list_fini(&list);
    tokenizer_close(tokenizer);
}

static void test_template_text_beside_user_text(void **state)
{
    (void)state;
    const struct prompt_span spans[] = {
        {"e\xCC\x81 <s>", 7, false}, {"<s> e\xCC\x81", 7, true}, {"\xCC\x81<s>", 5, false}};
    assert_specials(1, spans, 3);
}

static void test_token_half_written_by_the_user(void **state)
{
    (void)state;
    const struct prompt_span spans[] = {
        {"e\xCC\x81 <", 5, true}, {"s", 1, false}, {"> <s>", 5, true}};
    assert_specials(1, spans, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template_text_beside_user_text),
        cmocka_unit_test(test_token_half_written_by_the_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
