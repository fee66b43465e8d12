/*
 * Tokens become whole characters, and special tokens give no text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/reply/reply_text.h"
#include "tests/support/tiny_tokenizer.h"

static struct tokenizer *tokenizer;

static int open_tokenizer(void **state)
{
    (void)state;
    size_t json_bytes;
    char *json = tiny_tokenizer_json(&json_bytes);
    struct error_text error = {0};
    enum result result = tokenizer_open_json(json, json_bytes, &tokenizer, &error);
    free(json);
    if (result != RESULT_OK)
        print_error("%s\n", error.text);
    return result == RESULT_OK ? 0 : -1;
}

static int close_tokenizer(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    return 0;
}

static void expect_text(const uint32_t tokens[], size_t count, const char *expected)
{
    struct reply_text *reply = reply_text_create(tokenizer);
    struct text_buffer out = {0};
    for (size_t i = 0; i < count; i++)
        (void)reply_text_push(reply, tokens[i], &out);
    reply_text_finish(reply, &out);
    assert_string_equal(out.bytes, expected);
    text_buffer_fini(&out);
    reply_text_destroy(reply);
}

static void tokens_give_their_text_and_special_ones_none(void **state)
{
    (void)state;
    const uint32_t tokens[] = {TINY_HE, TINY_LL, TINY_END, 'o', TINY_START};
    expect_text(tokens, sizeof tokens / sizeof *tokens, "hello");
}

static void characters_come_whole(void **state)
{
    (void)state;
    struct reply_text *reply = reply_text_create(tokenizer);
    struct text_buffer out = {0};
    static const uint32_t euro[] = {0xe2, 0x82, 0xac};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(out.length, 0);
        (void)reply_text_push(reply, euro[i], &out);
    }
    assert_string_equal(out.bytes, "\xe2\x82\xac");
    text_buffer_fini(&out);
    reply_text_destroy(reply);
}

static void a_character_that_never_ends_is_replaced(void **state)
{
    (void)state;
    const uint32_t tokens[] = {'a', 0xe2, 0x82};
    expect_text(tokens, sizeof tokens / sizeof *tokens, "a\xef\xbf\xbd");
}

static void bytes_of_earlier_tokens_are_told_apart(void **state)
{
    (void)state;
    struct reply_text *reply = reply_text_create(tokenizer);
    struct text_buffer out = {0};
    assert_int_equal(reply_text_push(reply, 0xe2, &out), 0);
    assert_int_equal(reply_text_push(reply, TINY_HE, &out), 3);
    assert_int_equal(reply_text_push(reply, 0xe2, &out), 0);
    assert_int_equal(reply_text_push(reply, 0x82, &out), 0);
    assert_int_equal(reply_text_push(reply, 0xac, &out), 0);
    assert_string_equal(out.bytes, "\xef\xbf\xbdhe\xe2\x82\xac");
    text_buffer_fini(&out);
    reply_text_destroy(reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_give_their_text_and_special_ones_none),
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(bytes_of_earlier_tokens_are_told_apart),
        cmocka_unit_test(a_character_that_never_ends_is_replaced),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
