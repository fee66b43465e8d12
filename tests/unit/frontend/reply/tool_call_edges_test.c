/*
 * Answers next to the edge of a rule: short names, ends within a mark, blanks between calls, values
 * without quotes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "frontend/reply/harmony_parser.h"
#include "frontend/reply/tool_call_parser.h"
#include "proto/limits.h"
#include "tests/support/heard_reply.h"

#define HERMES_CALL "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"

static struct heard_reply heard;

static void parse_harmony(const char *text)
{
    struct harmony_parser *parser = harmony_parser_create(true, heard_reply_sink(&heard));
    heard_reply_clear(&heard);
    harmony_parser_push(parser, text, strlen(text));
    harmony_parser_finish(parser, false);
    assert_false(harmony_parser_failed(parser));
    harmony_parser_destroy(parser);
}

static void parse(const char *format, const cJSON *tools, const char *text)
{
    struct tool_call_parser *parser =
        tool_call_parser_create(tool_format_by_name(format), tools, heard_reply_sink(&heard));
    heard_reply_clear(&heard);
    tool_call_parser_push(parser, text, strlen(text));
    tool_call_parser_finish(parser, false);
    assert_false(tool_call_parser_failed(parser));
    tool_call_parser_destroy(parser);
}

/* A recipient of "functions." alone is a name; with one more byte it is the prefix of a name. */
static void harmony_names_follow_their_prefix(void **state)
{
    (void)state;
    parse_harmony("<|channel|>commentary to=functions.<|message|>{}<|call|>");
    assert_int_equal(heard.call_count, 1);
    assert_string_equal(heard.calls[0].name, "functions.");
    parse_harmony("<|channel|>commentary to=functions.f<|message|>{}<|call|>");
    assert_int_equal(heard.call_count, 1);
    assert_string_equal(heard.calls[0].name, "f");
}

static void the_begin_of_a_mark_at_the_end_is_text(void **state)
{
    (void)state;
    parse_harmony("<|channel|>final<|message|>a<");
    assert_string_equal(heard_text(&heard.content), "a<");
    parse_harmony("<");
    assert_string_equal(heard_text(&heard.content), "<");
    parse_harmony("<|channel|>final<|message|>a<|e");
    assert_string_equal(heard_text(&heard.content), "a<|e");
}

static void unknown_names_of_one_letter_are_text(void **state)
{
    (void)state;
    cJSON *tools = cJSON_Parse("[{\"type\": \"function\", \"function\": {\"name\": \"g\"}}]");
    assert_non_null(tools);
    static const char *const answers[][2] = {
        {"pythonic", "[%s(a=1)]"},
        {"pythonic", "{\"name\": \"%s\", \"arguments\": {\"a\": 1}}"},
        {"llama3", "{\"name\": \"%s\", \"parameters\": {\"a\": 1}}"},
        {"functionary", "%s\n{\"a\": 1}"},
        {"functionary", "text>>>%s\n{\"a\": 1}"},
        {"functionary_v2", "%s\n<|content|>{\"a\": 1}"},
    };
    char text[128];
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        (void)snprintf(text, sizeof text, answers[i][1], "f");
        parse(answers[i][0], tools, text);
        assert_int_equal(heard.call_count, 0);
        assert_string_equal(heard_text(&heard.content), text);
        (void)snprintf(text, sizeof text, answers[i][1], "g");
        parse(answers[i][0], tools, text);
        assert_int_equal(heard.call_count, 1);
        assert_string_equal(heard.calls[0].name, "g");
    }
    cJSON_Delete(tools);
}

/* Between texts; blanks between a call and its closing mark belong to the call. */
static void blanks_between_calls_stay(void **state)
{
    (void)state;
    parse("hermes", NULL, "x\n" HERMES_CALL "\n\n" HERMES_CALL "y");
    assert_int_equal(heard.call_count, 2);
    assert_string_equal(heard_text(&heard.content), "x\n\n\ny");
}

/* Marks that go on with a block are text after its closing mark. */
static void a_closed_block_does_not_go_on(void **state)
{
    (void)state;
    static const char first[] = "<|python_tag|>{\"name\": \"f\"}";
    static const char next[] = "; {\"name\": \"g\"}";
    char text[128];
    (void)snprintf(text, sizeof text, "%s%s", first, next);
    parse("llama3", NULL, text);
    assert_int_equal(heard.call_count, 2);
    assert_string_equal(heard_text(&heard.content), "");
    (void)snprintf(text, sizeof text, "%s</function>%s", first, next);
    parse("llama3", NULL, text);
    assert_int_equal(heard.call_count, 1);
    assert_string_equal(heard_text(&heard.content), next);
}

/* After a call, the beginning of its closing mark ends with it; that of another mark is text. */
static void a_mark_begun_after_a_call_is_text_unless_it_closes(void **state)
{
    (void)state;
    parse("hermes", NULL, HERMES_CALL "<tool_c");
    assert_int_equal(heard.call_count, 1);
    assert_string_equal(heard_text(&heard.content), "<tool_c");
    parse("hermes", NULL, HERMES_CALL "</tool_c");
    assert_int_equal(heard.call_count, 1);
    assert_string_equal(heard_text(&heard.content), "");
    parse("hermes", NULL, "a</tool_c");
    assert_string_equal(heard_text(&heard.content), "a</tool_c");
}

static void values_without_quotes_are_strings(void **state)
{
    (void)state;
    static const char *const answers[][2] = {
        {"gemma4", "<|tool_call>call:f{a:two words}<tool_call|>"},
        {"function_gemma", "<start_function_call>call:f{a:two words}<end_function_call>"},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        parse(answers[i][0], NULL, answers[i][1]);
        assert_int_equal(heard.call_count, 1);
        assert_string_equal(heard_text(&heard.calls[0].arguments), "{\"a\":\"two words\"}");
        assert_string_equal(heard_text(&heard.content), "");
    }
}

/* The call was announced before its key: it ends, and its text is content. */
static void long_keys_break_the_call(void **state)
{
    (void)state;
    for (unsigned extra = 0; extra < 2; extra++) {
        struct text_buffer text = {0};
        text_buffer_append_text(&text, "<tool_call><function=f><parameter=");
        for (unsigned i = 0; i < LIMIT_TOOL_NAME_BYTES + extra; i++)
            text_buffer_append(&text, "k", 1);
        text_buffer_append_text(&text, ">v</parameter></function></tool_call>");
        parse("qwen3_coder", NULL, text.bytes);
        assert_int_equal(heard.call_count, 1);
        assert_true(heard.calls[0].ended);
        assert_int_equal(heard.calls[0].arguments.length,
                         extra ? strlen("{}") : LIMIT_TOOL_NAME_BYTES + strlen("{\"\":\"v\"}"));
        assert_string_equal(heard_text(&heard.content), extra ? text.bytes : "");
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
        cmocka_unit_test(harmony_names_follow_their_prefix),
        cmocka_unit_test(the_begin_of_a_mark_at_the_end_is_text),
        cmocka_unit_test(unknown_names_of_one_letter_are_text),
        cmocka_unit_test(blanks_between_calls_stay),
        cmocka_unit_test(a_closed_block_does_not_go_on),
        cmocka_unit_test(a_mark_begun_after_a_call_is_text_unless_it_closes),
        cmocka_unit_test(values_without_quotes_are_strings),
        cmocka_unit_test(long_keys_break_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
