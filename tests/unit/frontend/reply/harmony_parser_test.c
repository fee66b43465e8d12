/*
 * harmony_parser: channels, recipients and bodies; headers that are none; ends within a message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/reply/harmony_parser.h"
#include "proto/limits.h"
#include "tests/support/heard_reply.h"

#define HEADER_BYTES (2 * LIMIT_TOOL_NAME_BYTES)

static struct heard_reply heard;

static void parse_bytes(const char *text, size_t length, bool with_calls, bool truncated)
{
    struct harmony_parser *parser = harmony_parser_create(with_calls, heard_reply_sink(&heard));
    assert_non_null(parser);
    heard_reply_clear(&heard);
    harmony_parser_push(parser, text, length);
    harmony_parser_finish(parser, truncated);
    assert_false(harmony_parser_failed(parser));
    assert_int_equal(harmony_parser_count(parser), heard.call_count);
    harmony_parser_destroy(parser);
}

static void parse(const char *text)
{
    parse_bytes(text, strlen(text), true, false);
}

static void expect_texts(const char *text, const char *reasoning, const char *content)
{
    parse(text);
    if (strcmp(heard_text(&heard.reasoning), reasoning) != 0 ||
        strcmp(heard_text(&heard.content), content) != 0 || heard.call_count != 0)
        fail_msg("%s: reasoning '%s', content '%s', %zu calls", text, heard_text(&heard.reasoning),
                 heard_text(&heard.content), heard.call_count);
}

/* One call that ended, and text. */
static void expect_call(const char *text, const char *name, const char *arguments,
                        const char *content)
{
    parse(text);
    if (heard.call_count != 1)
        fail_msg("%s: %zu calls, content '%s'", text, heard.call_count, heard_text(&heard.content));
    assert_string_equal(heard.calls[0].name, name);
    assert_string_equal(heard_text(&heard.calls[0].arguments), arguments);
    assert_true(heard.calls[0].ended);
    assert_string_equal(heard_text(&heard.content), content);
}

static void only_analysis_is_reasoning(void **state)
{
    (void)state;
    expect_texts("<|channel|>analysis<|message|>r<|end|>", "r", "");
    expect_texts("<|channel|>analysis <|constrain|>x<|message|>r", "r", "");
    expect_texts("<|channel|>final<|message|>c<|return|>", "", "c");
    expect_texts("<|channel|>feedback<|message|>c", "", "c"); /* as long as analysis */
    expect_texts("<|channel|>analysiz<|message|>c", "", "c");
    expect_texts("<|channel|>analysi<|message|>c", "", "c");
    expect_texts("<|channel|>analysis2<|message|>c", "", "c");
    expect_texts("<|start|>assistant<|message|>c", "", "c");
}

static void messages_of_a_kind_are_joined_by_a_line_break(void **state)
{
    (void)state;
    expect_texts("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis"
                 "<|message|>b<|end|><|start|>assistant<|channel|>final<|message|>c<|end|>"
                 "<|channel|>final<|message|><|end|><|channel|>commentary<|message|>d",
                 "a\nb", "c\nd");
    expect_texts("text<|channel|>final<|message|>c", "", "text\nc");
}

static void recipients_stand_after_a_blank_or_a_mark(void **state)
{
    (void)state;
    expect_call("<|channel|>commentary to=functions.f<|message|>{}", "f", "{}", "");
    expect_call("<|channel|>commentary\tto=f <|constrain|>json<|message|>{}", "f", "{}", "");
    expect_call(" \nto=f<|channel|>commentary<|message|>{}", "f", "{}", "");
    expect_call("to=f\n<|channel|>commentary<|message|>{}", "f", "{}", "");
    expect_call("<|start|>to=f<|channel|>analysis<|message|>{}", "f", "{}", "");
    expect_call("<|start|>assistant to=f<|channel|>commentary<|message|>{}", "f", "{}", "");
    expect_call("<|channel|>commentary<|constrain|>to=f<|message|>{}", "f", "{}", "");
    expect_call("<|channel|>xto=g to=f<|message|>{}", "f", "{}", "");
    expect_call("<|channel|>x to=function.f<|message|>{}", "function.f", "{}", "");
    expect_texts("<|channel|>final xto=f<|message|>{}", "", "{}");
    expect_texts("<|channel|>final to= f<|message|>{}", "", "{}");
    expect_texts("<|channel|>analysis to=\x07<|message|>{}", "", "{}"); /* no name */
}

static void bodies_of_calls_are_objects(void **state)
{
    (void)state;
    static const char header[] = "<|channel|>commentary to=f<|message|>";
    expect_call("<|channel|>commentary to=f<|message|> \n{\"a\": 1}<|call|>", "f", "{\"a\": 1}",
                "");
    expect_call("<|channel|>commentary to=f<|message|><|call|>", "f", "{}", "");
    expect_call("<|channel|>commentary to=f<|message|>{}x<|call|>", "f", "{}", "x");
    expect_call("<|channel|>commentary to=f<|message|>{\"a\":\"<|message|><|constrain|><\"}", "f",
                "{\"a\":\"<|message|><|constrain|><\"}", "");
    expect_call("<|channel|>commentary to=f<|message|>{\"a\":1<|call|>", "f", "{\"a\":1}",
                "<|channel|>commentary to=f<|message|>{\"a\":1");
    expect_call("<|channel|>commentary to=f<|message|>{\"a\":1;", "f", "{\"a\":1}",
                "<|channel|>commentary to=f<|message|>{\"a\":1;");
    expect_texts("<|channel|>commentary to=f<|message|>[1]<|call|>", "",
                 "<|channel|>commentary to=f<|message|>[1]");
    parse("<|channel|>commentary to=f<|message|>{}<|call|><|channel|>commentary to=g<|message|>{}");
    assert_int_equal(heard.call_count, 2);
    assert_string_equal(heard.calls[1].name, "g");
    parse_bytes(header, strlen(header), false, false);
    assert_int_equal(heard.call_count, 0);
    parse_bytes("<|channel|>analysis to=f<|message|>{}", 37, false, false); /* no tools */
    assert_string_equal(heard_text(&heard.content), "{}");
    assert_string_equal(heard_text(&heard.reasoning), "");
}

static void text_that_begins_no_header_is_content(void **state)
{
    (void)state;
    expect_texts("hello", "", "hello");
    expect_texts(" \r\n\thello ", "", "hello ");
    expect_texts("tox", "", "tox");
    expect_texts("tx", "", "tx");
    expect_texts("a<|message|>b<|constrain|>c<|end|>", "", "a<|message|>b<|constrain|>c");
    expect_texts("<|start|>assistant<b", "", "assistant<b");
    expect_texts("<|channel|>final<|end|>", "", "<|channel|>final"); /* no message */
    expect_texts("<|channel|>final<|start|>x<|channel|>final<|message|>c", "",
                 "<|channel|>final\nc");
    expect_texts("<|end|><|return|><|call|>", "", "");
}

/* `begin`, `count` bytes, `end`. */
static void parse_long(const char *begin, size_t count, const char *end)
{
    char text[2 * HEADER_BYTES] = "";
    size_t at = strlen(begin);
    strcpy(text, begin);
    memset(text + at, 'x', count);
    strcpy(text + at + count, end);
    parse(text);
}

static void headers_are_bounded(void **state)
{
    (void)state;
    parse_long("<|start|>", HEADER_BYTES, "<|message|>c");
    assert_string_equal(heard_text(&heard.content), "c");
    parse_long("<|start|>", HEADER_BYTES + 1, "<|message|>c");
    assert_int_equal(heard.content.length, HEADER_BYTES + 1 + strlen("<|message|>c"));
    parse_long("<|channel|>", HEADER_BYTES - strlen("<|channel|>"), "<|message|>c");
    assert_string_equal(heard_text(&heard.content), "c");
    parse_long("<|channel|>", HEADER_BYTES + 1 - strlen("<|channel|>"), "<|message|>c");
    assert_int_equal(heard.content.length, HEADER_BYTES + 1 + strlen("<|message|>c"));
}

static void calls_beyond_the_bound_are_content(void **state)
{
    (void)state;
    static const char call[] = "<|channel|>x to=f<|message|>{}";
    struct text_buffer text = {0};
    for (unsigned i = 0; i <= LIMIT_TOOL_CALLS; i++)
        text_buffer_append_text(&text, call);
    parse(text.bytes);
    assert_int_equal(heard.call_count, LIMIT_TOOL_CALLS);
    assert_string_equal(heard_text(&heard.content), "{}");
    text_buffer_fini(&text);
}

/* Where the answer ends, and what is sent then. */
static void incomplete_headers_are_dropped_unless_they_name_a_tool(void **state)
{
    (void)state;
    expect_texts("<|channel|>fin", "", "");
    expect_texts("<|start|>", "", "");
    expect_texts("<|start|>assistant", "", "");
    expect_texts("<|start|>assistant<|cha", "", "");
    expect_texts("<|start|><", "", "");
    expect_texts("<|", "", "");
    expect_texts("<|channel|>final<", "", "");
    expect_texts("<|channel|>x to=f", "", "<|channel|>x to=f");
    expect_texts("to=f<|me", "", "to=f<|me");
    expect_texts("to=", "", "");
    expect_texts("t", "", "");
    expect_texts("<|channel|>final<|message|>c<|e", "", "c<|e");
    expect_texts("<|channel|>final<|message|>c<|end|><|", "", "c");
}

static void a_cut_call_stays_open_if_the_answer_was_truncated(void **state)
{
    (void)state;
    static const char cut[] = "<|channel|>commentary to=f<|message|>{\"a\":1";
    static const char empty[] = "<|channel|>commentary to=f<|message|> ";
    parse_bytes(cut, strlen(cut), true, true);
    assert_int_equal(heard.call_count, 1);
    assert_false(heard.calls[0].ended);
    assert_string_equal(heard_text(&heard.calls[0].arguments), "{\"a\":1");
    assert_string_equal(heard_text(&heard.content), "");
    expect_call(cut, "f", "{\"a\":1}", cut);
    parse_bytes(empty, strlen(empty), true, true);
    assert_int_equal(heard.call_count, 0);
    assert_string_equal(heard_text(&heard.content), empty);
    expect_call(empty, "f", "{}", "");
}

static void the_place_follows_the_messages(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum harmony_place place;
    } steps[] = {
        {"<|chan", HARMONY_MARKS},
        {"nel|>analysis", HARMONY_MARKS},
        {"<|message|>", HARMONY_REASONING},
        {"r", HARMONY_REASONING},
        {"<|end|>", HARMONY_MARKS},
        {"<|start|>assistant<|channel|>commentary to=f<|message|>", HARMONY_CALL},
        {"{", HARMONY_CALL},
        {"}", HARMONY_MARKS},
        {"<|call|><|channel|>final<|message|>", HARMONY_CONTENT},
        {"c<|end|>", HARMONY_MARKS},
        {"text", HARMONY_CONTENT},
    };
    struct harmony_parser *parser = harmony_parser_create(true, heard_reply_sink(&heard));
    heard_reply_clear(&heard);
    assert_int_equal(harmony_parser_place(parser), HARMONY_MARKS);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        harmony_parser_push(parser, steps[i].text, strlen(steps[i].text));
        assert_int_equal(harmony_parser_place(parser), steps[i].place);
    }
    harmony_parser_finish(parser, false);
    harmony_parser_destroy(parser);
    assert_string_equal(heard_text(&heard.content), "c\ntext");
}

/* Certain text is sent with the piece that brings it. */
static void text_is_sent_at_once(void **state)
{
    (void)state;
    static const char text[] = "<|channel|>final<|message|>a\xc3\xbc<";
    struct harmony_parser *parser = harmony_parser_create(true, heard_reply_sink(&heard));
    heard_reply_clear(&heard);
    harmony_parser_push(parser, text, strlen(text) - 2);
    assert_string_equal(heard_text(&heard.content), "a"); /* not half a character */
    harmony_parser_push(parser, text + strlen(text) - 2, 2);
    assert_string_equal(heard_text(&heard.content), "a\xc3\xbc"); /* nor half a mark */
    harmony_parser_finish(parser, false);
    assert_string_equal(heard_text(&heard.content), "a\xc3\xbc<");
    harmony_parser_destroy(parser);
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
        cmocka_unit_test(only_analysis_is_reasoning),
        cmocka_unit_test(messages_of_a_kind_are_joined_by_a_line_break),
        cmocka_unit_test(recipients_stand_after_a_blank_or_a_mark),
        cmocka_unit_test(bodies_of_calls_are_objects),
        cmocka_unit_test(text_that_begins_no_header_is_content),
        cmocka_unit_test(headers_are_bounded),
        cmocka_unit_test(calls_beyond_the_bound_are_content),
        cmocka_unit_test(incomplete_headers_are_dropped_unless_they_name_a_tool),
        cmocka_unit_test(a_cut_call_stays_open_if_the_answer_was_truncated),
        cmocka_unit_test(the_place_follows_the_messages),
        cmocka_unit_test(text_is_sent_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
