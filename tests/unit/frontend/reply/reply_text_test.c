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
    tokenizer = tiny_tokenizer_open();
    return 0;
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

static void a_list_gives_special_tokens_too(void **state)
{
    (void)state;
    uint32_t ids[] = {TINY_START, TINY_HE, 0xe2, 0x82, 0xac, TINY_END, 0xe2};
    const struct token_list tokens = {.ids = ids, .count = sizeof ids / sizeof *ids};
    struct text_buffer out = {0}, expected = {0};
    for (size_t i = 0; i < 6; i++) {
        const char *bytes;
        size_t count;
        tokenizer_token_bytes(tokenizer, ids[i], &bytes, &count);
        assert_true(count > 0);
        text_buffer_append(&expected, bytes, count);
    }
    text_buffer_append_text(&expected, "\xef\xbf\xbd");
    reply_text_write_all(tokenizer, &tokens, &out);
    assert_string_equal(out.bytes, expected.bytes);
    text_buffer_fini(&out);
    text_buffer_fini(&expected);
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

/* What the three special tokens, each followed by "he", give if these of them are shown. */
static void expect_shown(const uint32_t shown_ids[], size_t shown_count, const char *expected)
{
    static const uint32_t tokens[] = {TINY_START, TINY_HE, TINY_END, TINY_HE, TINY_IMAGE, TINY_HE};
    struct token_list shown = {0};
    struct reply_text *reply = reply_text_create(tokenizer);
    struct text_buffer out = {0};
    if (shown_count > 0)
        assert_int_equal(token_list_append(&shown, shown_ids, shown_count, 3), RESULT_OK);
    reply_text_show(reply, &shown);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        assert_int_equal(reply_text_push(reply, tokens[i], &out), 0);
    reply_text_finish(reply, &out);
    assert_string_equal(out.bytes, expected);
    text_buffer_fini(&out);
    reply_text_destroy(reply);
    token_list_fini(&shown);
}

static void shown_special_tokens_give_their_text(void **state)
{
    (void)state;
    static const uint32_t all[] = {TINY_START, TINY_END, TINY_IMAGE};
    expect_shown(NULL, 0, "hehehe");
    expect_shown(all, 1, "<|im_start|>hehehe");
    expect_shown(all + 1, 1, "he<|im_end|>hehe");
    expect_shown(all + 2, 1, "hehe<|image_pad|>he");
    expect_shown(all, 2, "<|im_start|>he<|im_end|>hehe");
    expect_shown(all + 1, 2, "he<|im_end|>he<|image_pad|>he");
    expect_shown(all, 3, "<|im_start|>he<|im_end|>he<|image_pad|>he");
}

/* The bounds of second bytes differ by first byte. */
static void only_bytes_that_cannot_continue_break_a_character_off(void **state)
{
    (void)state;
    static const struct {
        uint32_t bytes[2];
        size_t earlier; /* bytes of U+FFFD for the first */
    } cases[] = {
        {{0xc3, 0x7f}, 3}, {{0xc3, 0x80}, 0}, {{0xc3, 0xbf}, 0}, {{0xc3, 0xc0}, 3},
        {{0xe0, 0x9f}, 3}, {{0xe0, 0xa0}, 0}, {{0xed, 0x9f}, 0}, {{0xed, 0xa0}, 3},
        {{0xf0, 0x8f}, 3}, {{0xf0, 0x90}, 0}, {{0xf4, 0x8f}, 0}, {{0xf4, 0x90}, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply_text *reply = reply_text_create(tokenizer);
        struct text_buffer out = {0};
        assert_int_equal(reply_text_push(reply, cases[i].bytes[0], &out), 0);
        assert_int_equal(reply_text_push(reply, TINY_END, &out), 0); /* hidden: changes nothing */
        assert_int_equal(reply_text_push(reply, cases[i].bytes[1], &out), cases[i].earlier);
        text_buffer_fini(&out);
        reply_text_destroy(reply);
    }
}

/* The space that a tokenizer puts in front of a text is dropped once, at the beginning. */
static void a_prepended_space_is_dropped(void **state)
{
    (void)state;
    static const struct {
        uint32_t tokens[3];
        const char *always; /* a space is prepended */
        const char *never;
    } cases[] = {
        {{PIECE_SPACE_A, PIECE_SPACE_A, PIECE_A}, "a aa", " a aa"},
        {{PIECE_SPACE, PIECE_SPACE, PIECE_A}, " a", "  a"},
        {{PIECE_A, PIECE_SPACE, PIECE_A}, "a a", "a a"},
        {{PIECE_A_SPACE, PIECE_A, PIECE_SPACE_A}, "a a a", "a a a"},
        {{PIECE_START, PIECE_SPACE_A, PIECE_A}, "aa", " aa"},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct tokenizer *pieces = tiny_pieces_open(i % 2 ? "never" : "always");
        struct reply_text *reply = reply_text_create(pieces);
        struct text_buffer out = {0};
        for (size_t t = 0; t < 3; t++)
            assert_int_equal(reply_text_push(reply, cases[i / 2].tokens[t], &out), 0);
        assert_string_equal(out.bytes, i % 2 ? cases[i / 2].never : cases[i / 2].always);
        text_buffer_fini(&out);
        reply_text_destroy(reply);
        tokenizer_close(pieces);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_give_their_text_and_special_ones_none),
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(bytes_of_earlier_tokens_are_told_apart),
        cmocka_unit_test(a_character_that_never_ends_is_replaced),
        cmocka_unit_test(shown_special_tokens_give_their_text),
        cmocka_unit_test(a_list_gives_special_tokens_too),
        cmocka_unit_test(only_bytes_that_cannot_continue_break_a_character_off),
        cmocka_unit_test(a_prepended_space_is_dropped),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
