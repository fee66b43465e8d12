/*
 * Hostile answers: bounds end in text, nothing is lost, and the time for a long answer grows with
 * its length alone. A bound on time would depend on the machine, so lengths are such that anything
 * quadratic would never end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/text_buffer.h"
#include "frontend/reply/harmony_parser.h"
#include "frontend/reply/tool_call_parser.h"
#include "proto/limits.h"
#include "tests/support/heard_reply.h"

static struct heard_reply heard;

static void parse(const char *name, const struct text_buffer *text)
{
    const struct tool_format *format = tool_format_by_name(name);
    assert_false(text->failed);
    heard_reply_clear(&heard);
    if (tool_format_is_harmony(format)) {
        struct harmony_parser *parser = harmony_parser_create(true, heard_reply_sink(&heard));
        harmony_parser_push(parser, text->bytes, text->length);
        harmony_parser_finish(parser, false);
        assert_false(harmony_parser_failed(parser));
        harmony_parser_destroy(parser);
        return;
    }
    struct tool_call_parser *parser =
        tool_call_parser_create(format, NULL, heard_reply_sink(&heard));
    tool_call_parser_push(parser, text->bytes, text->length);
    tool_call_parser_finish(parser, false);
    assert_false(tool_call_parser_failed(parser));
    tool_call_parser_destroy(parser);
}

static void calls_beyond_the_bound_are_text(void **state)
{
    (void)state;
    static const char call[] = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    struct text_buffer text = {0};
    for (unsigned i = 0; i < LIMIT_TOOL_CALLS + 2; i++)
        text_buffer_append_text(&text, call);
    parse("hermes", &text);
    assert_int_equal(heard.call_count, LIMIT_TOOL_CALLS);
    assert_int_equal(heard.content.length, 2 * strlen(call));
    text_buffer_fini(&text);
}

static void calls_beyond_their_size_are_text(void **state)
{
    (void)state;
    struct text_buffer text = {0};
    text_buffer_append_text(&text, "[TOOL_CALLS]f[ARGS]{\"a\": \"");
    while (text.length < LIMIT_TOOL_CALL_BYTES + 1000)
        text_buffer_append_text(&text, "0123456789abcdef");
    text_buffer_append_text(&text, "\"}");
    parse("mistral_v11", &text);
    assert_int_equal(heard.call_count, 1);
    assert_true(heard.calls[0].ended);
    assert_int_equal(heard.content.length, text.length);
    assert_memory_equal(heard.content.bytes, text.bytes, text.length);
    text_buffer_fini(&text);
}

static void long_names_are_no_names(void **state)
{
    (void)state;
    static const char *const around[][3] = {
        {"hermes", "<tool_call>{\"name\": \"", "\", \"arguments\": {}}</tool_call>"},
        {"mistral_v11", "[TOOL_CALLS]", "[ARGS]{}"},
        {"qwen3_coder", "<tool_call><function=", "></function></tool_call>"},
        {"gemma4", "<|tool_call>call:", "{}<tool_call|>"},
    };
    for (size_t f = 0; f < sizeof around / sizeof around[0]; f++) {
        for (unsigned extra = 0; extra < 2; extra++) {
            struct text_buffer text = {0};
            text_buffer_append_text(&text, around[f][1]);
            for (unsigned i = 0; i < LIMIT_TOOL_NAME_BYTES + extra; i++)
                text_buffer_append(&text, "n", 1);
            text_buffer_append_text(&text, around[f][2]);
            parse(around[f][0], &text);
            assert_int_equal(heard.call_count, 1 - extra);
            if (extra) {
                assert_string_equal(heard.content.bytes, text.bytes);
            }
            text_buffer_fini(&text);
        }
    }
}

/* Texts that make parsers look back: 64 kB of each, for every format. */
static void long_answers_take_linear_time(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "<",
        " ",
        "<tool_call>",
        "<tool_call>                                                        ",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a",
        "<tool_call>f<arg_key>k</arg_key><arg_value></arg",
        "<function=f><parameter=p>\n<parameter=",
        "<|tool_call>call:f{a:<|\"|><|\"",
        "[TOOL_CALLS]nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
        "[f(a='''''",
        "<|channel|>commentary to=functions.f<|message|>{",
        "<|start|>assistant<|channel|>",
        "<｜tool▁calls▁begin｜>   <｜tool▁call▁begin｜>function",
    };
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
        struct text_buffer text = {0};
        while (text.length < 64 * 1024)
            text_buffer_append_text(&text, pieces[p]);
        for (size_t f = 0; tool_format_at(f); f++)
            parse(tool_format_name(tool_format_at(f)), &text);
        text_buffer_fini(&text);
    }
}

static int forget(void **state)
{
    (void)state;
    heard_reply_fini(&heard);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_beyond_the_bound_are_text),
        cmocka_unit_test(calls_beyond_their_size_are_text),
        cmocka_unit_test(long_names_are_no_names),
        cmocka_unit_test(long_answers_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
