/*
 * The token log: the bytes of its entries join to the text that was shown, whatever was held back
 * or cut, and an entry is not taken before its text is shown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/utf8_stream.h"
#include "frontend/reply/reply_text.h"
#include "frontend/reply/stop_matcher.h"
#include "frontend/reply/token_log.h"
#include "tests/support/test_random.h"
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

/* Appends the bytes of all that can be taken; their joined lengths never pass what is shown. */
static void take_all(struct token_log *log, struct text_buffer *joined)
{
    struct token_log_entry entry;
    while (token_log_take(log, &entry)) {
        const char *bytes;
        size_t count;
        tokenizer_token_bytes(tokenizer, entry.own.token, &bytes, &count);
        text_buffer_append(joined, bytes + entry.skipped_bytes, entry.shown_bytes);
    }
}

/* A random answer over bytes that make whole, broken and cut characters, with and without a stop
 * string, whose shown text is decoded as a reply does it. */
static void run(struct test_random *random, const char *stop_bytes)
{
    static const uint32_t tokens[] = {TINY_HE, TINY_LL, 'a',  'b',  0xc3,
                                      0xa9,    0xe2,    0x82, 0xac, TINY_END};
    const struct stop_string stop = {.bytes = stop_bytes, .length = strlen(stop_bytes)};
    struct reply_text *text = reply_text_create(tokenizer);
    struct stop_matcher stops;
    stop_matcher_init(&stops, &stop, stop.length > 0);
    struct text_buffer piece = {0};
    struct token_log *log = token_log_create(tokenizer);
    struct text_buffer shown = {0};
    struct text_buffer joined = {0};
    bool cut = false;
    for (int i = 0; i < 40 && !cut; i++) {
        uint32_t token = tokens[test_random_below(random, sizeof tokens / sizeof tokens[0])];
        size_t before = shown.length;
        token_log_push(log, (struct token_logprob){token, -1}, NULL, 0);
        text_buffer_clear(&piece);
        (void)reply_text_push(text, token, &piece);
        cut = stop_matcher_push(&stops, piece.bytes, piece.length, &shown);
        token_log_show(log, shown.length - before);
        if (cut)
            token_log_end(log, true);
        take_all(log, &joined);
    }
    if (!cut) {
        size_t before = shown.length;
        text_buffer_clear(&piece);
        reply_text_finish(text, &piece);
        (void)stop_matcher_push(&stops, piece.bytes, piece.length, &shown);
        stop_matcher_release(&stops, &shown);
        token_log_show(log, shown.length - before);
        token_log_end(log, stops.found >= 0);
        take_all(log, &joined);
    }
    /* What is no character is shown as U+FFFD. */
    struct text_buffer decoded = {0};
    struct utf8_stream utf8 = {0};
    utf8_stream_push(&utf8, joined.bytes ? joined.bytes : "", joined.length, &decoded);
    utf8_stream_finish(&utf8, &decoded);
    assert_int_equal(decoded.length, shown.length);
    assert_memory_equal(decoded.bytes, shown.bytes, shown.length);
    text_buffer_fini(&decoded);
    text_buffer_fini(&shown);
    text_buffer_fini(&joined);
    text_buffer_fini(&piece);
    stop_matcher_fini(&stops);
    token_log_destroy(log);
    reply_text_destroy(text);
}

static void bytes_join_to_the_text(void **state)
{
    (void)state;
    struct test_random random = {.state = 7};
    for (int i = 0; i < 2000; i++) {
        run(&random, "");
        run(&random, "ab");
        run(&random, "eab");
        run(&random, "\xc3\xa9"
                     "he");
    }
}

static void entries_wait_for_their_text(void **state)
{
    (void)state;
    struct token_log *log = token_log_create(tokenizer);
    struct token_log_entry entry;
    token_log_push(log, (struct token_logprob){TINY_HE, -1}, NULL, 0);
    token_log_show(log, 1);
    assert_false(token_log_take(log, &entry));
    token_log_show(log, 1);
    assert_true(token_log_take(log, &entry));
    token_log_push(log, (struct token_logprob){0xc3, -1}, NULL, 0); /* half a character */
    assert_false(token_log_take(log, &entry));
    token_log_push(log, (struct token_logprob){0xa9, -1}, NULL, 0);
    token_log_push(log, (struct token_logprob){'x', -1}, NULL, 0);
    token_log_show(log, 2);
    assert_true(token_log_take(log, &entry));
    assert_true(token_log_take(log, &entry));
    assert_int_equal(entry.own.token, 0xa9);
    assert_false(token_log_take(log, &entry));
    token_log_set_mixed(log);
    assert_true(token_log_take(log, &entry));
    assert_int_equal(entry.text_offset, 3); /* "h", "e", "é" */
    token_log_destroy(log);
}

static void json_has_tokens_bytes_and_alternatives(void **state)
{
    (void)state;
    const struct token_logprob alternatives[] = {{'b', -0.5f}, {TINY_END, -INFINITY}};
    struct token_log *log = token_log_create(tokenizer);
    struct text_buffer out = {0};
    token_log_push(log, (struct token_logprob){'a', -0.25f}, alternatives, 2);
    token_log_push(log, (struct token_logprob){0xff, -2}, NULL, 0);
    token_log_end(log, false);
    assert_int_equal(token_log_write(log, &out), 2);
    assert_string_equal(
        out.bytes,
        "{\"token\":\"a\",\"logprob\":-0.25,\"bytes\":[97],\"top_logprobs\":[{\"token\":\"b\","
        "\"logprob\":-0.5,\"bytes\":[98]},{\"token\":\"<|im_end|>\",\"logprob\":-9999,\"bytes\":["
        "60,124,105,109,95,101,110,100,124,62]}]},{\"token\":\"\xef\xbf\xbd\",\"logprob\":-2,"
        "\"bytes\":[255],\"top_logprobs\":[]}");
    text_buffer_fini(&out);
    token_log_destroy(log);
}

/* A space that the tokenizer put in front of the text belongs to no entry. */
static void a_prepended_space_is_skipped(void **state)
{
    (void)state;
    static const struct {
        const char *scheme;
        uint32_t tokens[2];
        size_t skipped, shown;
    } cases[] = {
        {"always", {PIECE_SPACE_A, PIECE_SPACE_A}, 1, 1},
        {"always", {PIECE_A, PIECE_SPACE_A}, 0, 1},
        {"never", {PIECE_SPACE_A, PIECE_SPACE_A}, 0, 2},
        {"never", {PIECE_A, PIECE_SPACE_A}, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tokenizer *pieces = tiny_pieces_open(cases[i].scheme);
        struct token_log *log = token_log_create(pieces);
        struct token_log_entry entry;
        for (size_t t = 0; t < 2; t++)
            token_log_push(log, (struct token_logprob){cases[i].tokens[t], -1}, NULL, 0);
        token_log_show(log, cases[i].shown + 2);
        assert_true(token_log_take(log, &entry));
        assert_int_equal(entry.skipped_bytes, cases[i].skipped);
        assert_int_equal(entry.shown_bytes, cases[i].shown);
        assert_true(token_log_take(log, &entry));
        assert_int_equal(entry.skipped_bytes, 0);
        assert_int_equal(entry.shown_bytes, 2);
        assert_int_equal(entry.text_offset, cases[i].shown);
        token_log_destroy(log);
        tokenizer_close(pieces);
    }
}

/* The bytes of the entry, and what is left of a token whose first byte was skipped. */
static void skipped_bytes_are_not_written(void **state)
{
    (void)state;
    struct tokenizer *pieces = tiny_pieces_open("always");
    const struct token_logprob alternative = {PIECE_SPACE_A, -1};
    struct text_buffer out = {0};
    for (int cut = 0; cut < 2; cut++) {
        struct token_log *log = token_log_create(pieces);
        token_log_push(log, (struct token_logprob){PIECE_SPACE_A, -2}, &alternative, 1);
        token_log_push(log, (struct token_logprob){PIECE_A_SPACE, -3}, NULL, 0);
        token_log_show(log, cut ? 2 : 3);
        token_log_end(log, true);
        text_buffer_clear(&out);
        assert_int_equal(token_log_write(log, &out), 2);
        assert_string_equal(
            out.bytes, cut ? "{\"token\":\"a\",\"logprob\":-2,\"bytes\":[97],\"top_logprobs\":[{"
                             "\"token\":\" a\","
                             "\"logprob\":-1,\"bytes\":[32,97]}]},{\"token\":\"a\",\"logprob\":-3,"
                             "\"bytes\":[97],"
                             "\"top_logprobs\":[]}"
                           : "{\"token\":\"a\",\"logprob\":-2,\"bytes\":[97],\"top_logprobs\":[{"
                             "\"token\":\" a\","
                             "\"logprob\":-1,\"bytes\":[32,97]}]},{\"token\":\"a \",\"logprob\":-3,"
                             "\"bytes\":[97,32],\"top_logprobs\":[]}");
        token_log_destroy(log);
    }
    text_buffer_fini(&out);
    tokenizer_close(pieces);
}

/* The tiny tokenizer with a token of the last two bytes of U+20AC and an "a". */
static struct tokenizer *open_with_end_of_character(void)
{
    static const char merged[] = "\"ll\":257},\"merges\":[\"h e\",\"l l\"]}}";
    size_t bytes;
    char *json = tiny_tokenizer_json(&bytes);
    char *at = strstr(json, merged);
    struct text_buffer text = {0};
    struct tokenizer *opened = NULL;
    struct error_text error = {""};
    assert_non_null(at);
    text_buffer_append(&text, json, (size_t)(at - json));
    text_buffer_append_text(&text, "\"\\u0124\\u00aca\":257},\"merges\":[\"h e\"]}}");
    if (tokenizer_open_json(text.bytes, text.length, &opened, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    text_buffer_fini(&text);
    free(json);
    return opened;
}

static void a_cut_after_a_character_keeps_its_last_bytes(void **state)
{
    (void)state;
    struct tokenizer *other = open_with_end_of_character();
    struct token_log_entry entry;
    for (size_t shown = 3; shown <= 4; shown++) {
        struct token_log *log = token_log_create(other);
        token_log_push(log, (struct token_logprob){0xe2, -1}, NULL, 0);
        token_log_push(log, (struct token_logprob){257, -1}, NULL, 0);
        token_log_push(log, (struct token_logprob){'b', -1}, NULL, 0);
        token_log_show(log, shown);
        token_log_end(log, true);
        assert_true(token_log_take(log, &entry));
        assert_int_equal(entry.shown_bytes, 1);
        assert_true(token_log_take(log, &entry));
        assert_int_equal(entry.shown_bytes, shown - 1);
        assert_false(token_log_take(log, &entry));
        token_log_destroy(log);
    }
    tokenizer_close(other);
}

/* A piece whose first byte is skipped and whose first character has three. */
static void a_cut_after_skipped_bytes_keeps_whole_characters(void **state)
{
    (void)state;
    static const char json[] =
        "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":"
        "\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"always\",\"split\":true},"
        "\"post_processor\":null,\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
        "\"prepend_scheme\":\"always\",\"split\":true},\"model\":{\"type\":\"BPE\",\"dropout\":"
        "null,"
        "\"unk_token\":\"<unk>\",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
        "\"fuse_unk\":false,\"byte_fallback\":false,\"vocab\":{\"<unk>\":0,\"\\u2581\\u20aca\":1},"
        "\"merges\":[]}}";
    struct tokenizer *pieces = NULL;
    struct token_log_entry entry;
    struct error_text error = {""};
    if (tokenizer_open_json(json, strlen(json), &pieces, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    struct token_log *log = token_log_create(pieces);
    token_log_push(log, (struct token_logprob){1, -1}, NULL, 0);
    token_log_show(log, 3);
    token_log_end(log, true);
    assert_true(token_log_take(log, &entry));
    assert_int_equal(entry.skipped_bytes, 1);
    assert_int_equal(entry.shown_bytes, 3);
    token_log_destroy(log);
    tokenizer_close(pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_join_to_the_text),
        cmocka_unit_test(entries_wait_for_their_text),
        cmocka_unit_test(json_has_tokens_bytes_and_alternatives),
        cmocka_unit_test(a_prepended_space_is_skipped),
        cmocka_unit_test(skipped_bytes_are_not_written),
        cmocka_unit_test(a_cut_after_a_character_keeps_its_last_bytes),
        cmocka_unit_test(a_cut_after_skipped_bytes_keeps_whole_characters),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
