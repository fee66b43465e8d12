/*
 * Stop strings are found wherever token borders fall, nothing of them is ever shown, and special
 * tokens give no text.
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

/* Pushes the bytes of `text` one token each; returns how many were pushed when a stop string ended
 * it, else 0. */
static size_t push_bytes(struct reply_text *reply, const char *text, struct text_buffer *out)
{
    for (size_t i = 0; text[i]; i++) {
        if (reply_text_push(reply, (uint8_t)text[i], out))
            return i + 1;
    }
    return 0;
}

static void expect_text(const struct text_buffer *out, const char *expected)
{
    assert_false(out->failed);
    assert_string_equal(out->bytes ? out->bytes : "", expected);
}

static void text_flows_when_no_stop_is_set(void **state)
{
    (void)state;
    struct reply_text *reply = reply_text_create(tokenizer, NULL, 0);
    struct text_buffer out = {0};
    assert_false(reply_text_push(reply, TINY_HE, &out));
    assert_false(reply_text_push(reply, TINY_LL, &out));
    assert_false(reply_text_push(reply, TINY_END, &out));
    assert_false(reply_text_push(reply, 'o', &out));
    expect_text(&out, "hello");
    reply_text_finish(reply, &out);
    expect_text(&out, "hello");
    text_buffer_fini(&out);
    reply_text_destroy(reply);
}

static void straddling_stop_is_held_back_and_cut(void **state)
{
    (void)state;
    const struct stop_string stops[] = {{"END", 3}, {"\n\n", 2}};
    struct reply_text *reply = reply_text_create(tokenizer, stops, 2);
    struct text_buffer out = {0};
    assert_int_equal(push_bytes(reply, "abcEN", &out), 0);
    expect_text(&out, "abc"); /* EN may become END */
    assert_int_equal(push_bytes(reply, "x\n", &out), 0);
    expect_text(&out, "abcENx");
    assert_int_equal(push_bytes(reply, "yEND", &out), 4);
    expect_text(&out, "abcENx\ny");
    assert_true(reply_text_push(reply, 'z', &out));
    reply_text_finish(reply, &out);
    expect_text(&out, "abcENx\ny");
    text_buffer_fini(&out);
    reply_text_destroy(reply);
}

static void earliest_of_overlapping_stops_wins(void **state)
{
    (void)state;
    const struct stop_string stops[] = {{"bcd", 3}, {"abcde", 5}, {"aab", 3}};
    struct reply_text *reply = reply_text_create(tokenizer, stops, 3);
    struct text_buffer out = {0};
    assert_int_equal(push_bytes(reply, "-aaab", &out), 5);
    expect_text(&out, "-a");
    text_buffer_fini(&out);
    reply_text_destroy(reply);
}

static void held_text_is_released_at_the_end(void **state)
{
    (void)state;
    const struct stop_string stops[] = {{"<stop>", 6}};
    struct reply_text *reply = reply_text_create(tokenizer, stops, 1);
    struct text_buffer out = {0};
    assert_int_equal(push_bytes(reply, "so <st", &out), 0);
    expect_text(&out, "so ");
    assert_false(reply_text_push(reply, 0xe2, &out)); /* a character that never ends */
    reply_text_finish(reply, &out);
    expect_text(&out, "so <st\xef\xbf\xbd");
    text_buffer_fini(&out);
    reply_text_destroy(reply);
}

/* Against the obvious definition: cut the whole text at the first stop string. */
static void random_texts_agree_with_the_definition(void **state)
{
    (void)state;
    uint32_t random = 12345;
    for (int round = 0; round < 3000; round++) {
        char text[40];
        size_t length = 0;
        for (; length < sizeof text - 1; length++) {
            random = random * 1664525u + 1013904223u;
            text[length] = (char)('a' + (random >> 24) % 3);
        }
        text[length] = '\0';
        const struct stop_string stops[] = {{"abcab", 5}, {"ccb", 3}, {"aaaa", 4}};
        size_t cut = length;
        for (size_t i = 0; i < 3; i++) {
            char stop[8] = {0};
            memcpy(stop, stops[i].bytes, stops[i].length);
            const char *found = strstr(text, stop);
            if (found && (size_t)(found - text) < cut)
                cut = (size_t)(found - text);
        }
        struct reply_text *reply = reply_text_create(tokenizer, stops, 3);
        struct text_buffer out = {0};
        (void)push_bytes(reply, text, &out);
        reply_text_finish(reply, &out);
        text[cut] = '\0';
        expect_text(&out, text);
        text_buffer_fini(&out);
        reply_text_destroy(reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_flows_when_no_stop_is_set),
        cmocka_unit_test(straddling_stop_is_held_back_and_cut),
        cmocka_unit_test(earliest_of_overlapping_stops_wins),
        cmocka_unit_test(held_text_is_released_at_the_end),
        cmocka_unit_test(random_texts_agree_with_the_definition),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
