/*
 * Special tokens that spell marks of the active formats give their text; all others give none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/reply/mark_tokens.h"
#include "frontend/reply/reply_text.h"
#include "tests/support/tiny_tokenizer.h"

/* The tiny tokenizer with some words of its JSON replaced. */
static struct tokenizer *open_replaced(const char *const words[][2], size_t count)
{
    size_t json_bytes;
    char *json = tiny_tokenizer_json(&json_bytes);
    struct text_buffer text = {0};
    for (const char *at = json; *at;) {
        size_t i = 0;
        while (i < count && strncmp(at, words[i][0], strlen(words[i][0])) != 0)
            i++;
        text_buffer_append(&text, i < count ? words[i][1] : at,
                           i < count ? strlen(words[i][1]) : 1);
        at += i < count ? strlen(words[i][0]) : 1;
    }
    free(json);
    struct tokenizer *tokenizer;
    struct error_text error = {0};
    if (tokenizer_open_json(text.bytes, text.length, &tokenizer, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    text_buffer_fini(&text);
    return tokenizer;
}

static struct tokenizer *open_tokenizer(const char *start, const char *end)
{
    const char *const words[][2] = {{"<|im_start|>", start}, {"<|im_end|>", end}};
    return open_replaced(words, 2);
}

static void expect_shown(const char *start, const char *end, const struct reasoning_format *format,
                         const char *expected)
{
    struct tokenizer *tokenizer = open_tokenizer(start, end);
    struct token_list shown = {0};
    assert_int_equal(mark_tokens_find(tokenizer, format, NULL, &shown), RESULT_OK);
    struct reply_text *reply = reply_text_create(tokenizer);
    reply_text_show(reply, &shown);
    struct text_buffer out = {0};
    const uint32_t tokens[] = {TINY_START, TINY_HE, TINY_END, TINY_LL};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        (void)reply_text_push(reply, tokens[i], &out);
    reply_text_finish(reply, &out);
    assert_string_equal(out.bytes, expected);
    text_buffer_fini(&out);
    reply_text_destroy(reply);
    token_list_fini(&shown);
    tokenizer_close(tokenizer);
}

static void marks_give_their_text(void **state)
{
    (void)state;
    expect_shown("[THINK]", "[/THINK]", reasoning_format_find("mistral"), "[THINK]he[/THINK]ll");
    expect_shown("<|START_THINKING|>", "<|END_RESPONSE|>", reasoning_format_find("cohere"),
                 "<|START_THINKING|>he<|END_RESPONSE|>ll");
    expect_shown("<|channel|>", "<|call|>", reasoning_format_find("harmony"),
                 "<|channel|>he<|call|>ll");
}

static void parts_of_marks_give_their_text(void **state)
{
    (void)state;
    expect_shown("<|channel>", "<channel|>", reasoning_format_find("gemma4"),
                 "<|channel>he<channel|>ll");
}

static void other_special_tokens_give_none(void **state)
{
    (void)state;
    expect_shown("[THINK]", "</s>", reasoning_format_find("mistral"), "[THINK]hell");
    expect_shown("[THINK]", "[/THINK]", reasoning_format_find("think"), "hell");
    expect_shown("[THINK]", "[/THINK]", NULL, "hell");
}

static void tags_of_a_request_give_their_text(void **state)
{
    (void)state;
    struct reasoning_format custom;
    assert_int_equal(reasoning_format_set_custom(&custom, NULL, "<|so|>", NULL), RESULT_OK);
    expect_shown("<|so|>", "<|im_end|>", &custom, "<|so|>hell");
    assert_int_equal(reasoning_format_set_custom(&custom, NULL, "%", NULL), RESULT_OK);
    expect_shown("%", "<|im_end|>", &custom, "%hell");
}

static void marks_of_calls_are_listed(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = open_tokenizer("[TOOL_CALLS]", "</s>");
    struct token_list shown = {0};
    const struct tool_format *tools = tool_format_by_name("mistral");
    assert_int_equal(mark_tokens_find(tokenizer, NULL, tools, &shown), RESULT_OK);
    assert_int_equal(shown.count, 1);
    assert_int_equal(shown.ids[0], TINY_START);
    token_list_fini(&shown);
    tokenizer_close(tokenizer);
}

/* Token 0 is special in many published vocabularies; the byte 0 takes its place at 258. */
static void the_first_token_may_be_a_mark(void **state)
{
    (void)state;
    const char *const words[][2] = {{"<|im_start|>", "[TOOL_CALLS]"},
                                    {"\"id\":258", "\"id\":0"},
                                    {"\"\\u0100\":0,", "\"\\u0100\":258,"}};
    struct tokenizer *tokenizer = open_replaced(words, sizeof words / sizeof *words);
    struct token_list shown = {0};
    const struct tool_format *tools = tool_format_by_name("mistral");
    assert_int_equal(mark_tokens_find(tokenizer, NULL, tools, &shown), RESULT_OK);
    assert_int_equal(shown.count, 1);
    assert_int_equal(shown.ids[0], 0);
    token_list_fini(&shown);
    tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_give_their_text),
        cmocka_unit_test(parts_of_marks_give_their_text),
        cmocka_unit_test(other_special_tokens_give_none),
        cmocka_unit_test(tags_of_a_request_give_their_text),
        cmocka_unit_test(marks_of_calls_are_listed),
        cmocka_unit_test(the_first_token_may_be_a_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
