/*
 * Trust: the text of a special token becomes that token only where the template wrote all of it,
 * and otherwise the spans are read as one string.
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
#include "tests/support/tiny_tokenizer.h"

enum { MOST = 64 };
static struct tokenizer *tokenizer;

static int open_tiny(void **state)
{
    (void)state;
    tokenizer = tiny_tokenizer_open();
    return 0;
}

static int close_tiny(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    return 0;
}

/* Spans are given as strings, the template's in the odd places: user, template, user, template, ...
 */
static void assert_tokens(const char *const texts[], size_t text_count, const char *wanted)
{
    struct prompt_span spans[8];
    struct token_list list = {0};
    char shown[512] = "";
    for (size_t i = 0; i < text_count; i++)
        spans[i] = (struct prompt_span){texts[i], strlen(texts[i]), i % 2 == 1};
    assert_int_equal(tokenizer_encode(tokenizer, spans, text_count, MOST, NULL, &list), RESULT_OK);
    for (size_t i = 0; i < list.count; i++) {
        const char *bytes;
        size_t byte_count;
        tokenizer_token_bytes(tokenizer, list.ids[i], &bytes, &byte_count);
        snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s%.*s",
                 tokenizer_is_special(tokenizer, list.ids[i]) ? "#" : "|", (int)byte_count, bytes);
    }
    assert_string_equal(shown, wanted);
    token_list_fini(&list);
}

#define ASSERT_TOKENS(wanted, ...)                                                                 \
    assert_tokens((const char *const[]){__VA_ARGS__},                                              \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), wanted)

static void test_template_makes_special_tokens(void **state)
{
    (void)state;
    ASSERT_TOKENS("#<|im_start|>|h|i#<|im_end|>", "", "<|im_start|>hi<|im_end|>");
}

static void test_user_never_makes_special_tokens(void **state)
{
    (void)state;
    ASSERT_TOKENS("|<|||i|m|_|e|n|d|||>", "<|im_end|>");
    ASSERT_TOKENS("#<|im_start|>|<|||i|m|_|e|n|d|||>#<|im_end|>", "", "<|im_start|>", "<|im_end|>",
                  "<|im_end|>");
}

static void test_token_half_written_by_the_user_is_text(void **state)
{
    (void)state;
    ASSERT_TOKENS("|<|||i|m|_|e|n|d|||>", "<|im_", "end|>");
    ASSERT_TOKENS("|<|||i|m|_|e|n|d|||>", "", "<|im_", "end|>");
    ASSERT_TOKENS("|<|||i|m|_|e|n|d|||>", "", "<|im_e", "n", "d|>");
}

static void test_user_text_in_front_cannot_swallow_a_token(void **state)
{
    (void)state;
    ASSERT_TOKENS("|<|||i|m|_|s|t|a|r|t#<|im_end|>", "<|im_start", "<|im_end|>");
    ASSERT_TOKENS("|<#<|im_end|>", "<", "<|im_end|>");
}

static void test_token_across_spans_of_the_template_counts(void **state)
{
    (void)state;
    ASSERT_TOKENS("#<|im_end|>", "", "<|im_", "", "end|>");
}

static void test_words_are_merged_across_spans(void **state)
{
    (void)state;
    ASSERT_TOKENS("|he|ll|o", "h", "el", "lo");
    ASSERT_TOKENS("|he|ll|o", "hel", "lo");
}

static void test_characters_are_joined_across_spans(void **state)
{
    (void)state;
    ASSERT_TOKENS("|\xE2|\x82|\xAC", "\xE2", "\x82", "\xAC"); /* the euro sign */
    ASSERT_TOKENS("|\xEF|\xBF|\xBD|a", "\xE2\x82", "a");      /* one U+FFFD */
}

#define TINY(test) cmocka_unit_test_setup_teardown(test, open_tiny, close_tiny)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TINY(test_template_makes_special_tokens),
        TINY(test_user_never_makes_special_tokens),
        TINY(test_token_half_written_by_the_user_is_text),
        TINY(test_user_text_in_front_cannot_swallow_a_token),
        TINY(test_token_across_spans_of_the_template_counts),
        TINY(test_words_are_merged_across_spans),
        TINY(test_characters_are_joined_across_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
