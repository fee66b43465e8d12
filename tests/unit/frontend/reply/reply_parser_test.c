/*
 * Reasoning, calls, text and stop strings of whole answers come out as the corpus says, cut at
 * every byte, in pieces of every length, and at the tokens of a real tokenizer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/utf8_stream.h"
#include "frontend/reply/mark_tokens.h"
#include "frontend/reply/reply_parser.h"
#include "frontend/reply/reply_text.h"
#include "tests/support/cut_trial.h"
#include "tests/support/event_log.h"
#include "tests/support/golden_tokenizer.h"
#include "tests/support/template_case.h"

static cJSON *cases;
static cJSON *tools; /* f(x: integer, text: string) and g() */

static int read_cases(void **state)
{
    (void)state;
    cases = template_case_read_json("tests/golden/reasoning/parsed.json");
    tools = cJSON_Parse("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
                        "\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\"},"
                        "\"text\":{\"type\":\"string\"}}}}},"
                        "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]");
    return tools ? 0 : -1;
}

static int drop_cases(void **state)
{
    (void)state;
    cJSON_Delete(cases);
    cJSON_Delete(tools);
    return 0;
}

static const char *text_of(const cJSON *item, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(item, name));
}

struct trial {
    const struct reasoning_format *reasoning;
    const struct tool_format *format;
    struct reply_parser *parser;
    struct event_log log;
    struct utf8_stream utf8;
    struct text_buffer whole;
    bool stopped;
};

static void trial_begin(void *context, const cJSON *item)
{
    struct trial *trial = context;
    *trial = (struct trial){0};
    if (text_of(item, "reasoning"))
        assert_non_null(trial->reasoning = reasoning_format_find(text_of(item, "reasoning")));
    if (text_of(item, "tools"))
        assert_non_null(trial->format = tool_format_by_name(text_of(item, "tools")));
    struct stop_string stops[LIMIT_STOP_STRINGS];
    size_t stop_count = 0;
    const cJSON *stop;
    cJSON_ArrayForEach(stop, cJSON_GetObjectItem(item, "stops")) stops[stop_count++] =
        (struct stop_string){stop->valuestring, strlen(stop->valuestring)};
    trial->parser = reply_parser_create(&(struct reply_parser_config){
        .reasoning = trial->reasoning,
        .reasoning_open = cJSON_IsTrue(cJSON_GetObjectItem(item, "open")),
        .tools = trial->format,
        .offered_tools = tools,
        .stops = stops,
        .stop_count = stop_count,
        .sink = event_log_sink(&trial->log),
    });
}

static void trial_push(void *context, const char *bytes, size_t length)
{
    struct trial *trial = context;
    utf8_stream_push(&trial->utf8, bytes, length, &trial->whole);
    trial->stopped = reply_parser_push(trial->parser, trial->whole.bytes, trial->whole.length);
    text_buffer_clear(&trial->whole);
}

static void trial_end(void *context, const cJSON *item, uint32_t tokens)
{
    struct trial *trial = context;
    const char *stop = text_of(item, "stop");
    assert_true(trial->stopped == (stop != NULL));
    reply_parser_finish(trial->parser, cJSON_IsTrue(cJSON_GetObjectItem(item, "truncated")));
    assert_false(reply_parser_failed(trial->parser));
    assert_true(
        event_log_matches(&trial->log, cJSON_GetObjectItem(item, "events"), text_of(item, "name")));
    assert_int_equal(reply_parser_calls(trial->parser), trial->log.calls);
    if (stop)
        assert_string_equal(reply_parser_stop_string(trial->parser), stop);
    struct reply_token_counts counts = reply_parser_counts(trial->parser);
    assert_int_equal(counts.reasoning + counts.tags + counts.rest, tokens);
    reply_parser_destroy(trial->parser);
    event_log_fini(&trial->log);
    text_buffer_fini(&trial->whole);
}

static void answers_parse_in_any_two_pieces(void **state)
{
    (void)state;
    struct trial trial;
    cut_trial_in_two(&(struct cut_trial){&trial, trial_begin, trial_push, trial_end}, cases);
}

static void answers_parse_in_pieces_of_any_length(void **state)
{
    (void)state;
    struct trial trial;
    cut_trial_in_pieces(&(struct cut_trial){&trial, trial_begin, trial_push, trial_end}, cases);
}

static void check_tokens(const struct tokenizer *tokenizer, const cJSON *item)
{
    struct trial trial;
    trial_begin(&trial, item);
    struct token_list shown = {0};
    assert_int_equal(mark_tokens_find(tokenizer, trial.reasoning, trial.format, &shown), RESULT_OK);
    const char *text = text_of(item, "text");
    const struct prompt_span span = {text, strlen(text), true};
    struct token_list tokens = {0};
    assert_int_equal(tokenizer_encode(tokenizer, &span, 1, 10000, NULL, &tokens), RESULT_OK);
    struct reply_text *reply = reply_text_create(tokenizer);
    reply_text_show(reply, &shown);
    for (size_t i = 0; i < tokens.count; i++) {
        text_buffer_clear(&trial.whole);
        (void)reply_text_push(reply, tokens.ids[i], &trial.whole);
        trial.stopped = reply_parser_push(trial.parser, trial.whole.bytes, trial.whole.length);
    }
    reply_text_destroy(reply);
    trial_end(&trial, item, (uint32_t)tokens.count);
    token_list_fini(&tokens);
    token_list_fini(&shown);
}

static void answers_parse_at_real_tokens(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = golden_tokenizer_open_published("qwen3");
    const cJSON *item;
    cJSON_ArrayForEach(item, cases) check_tokens(tokenizer, item);
    tokenizer_close(tokenizer);
}

/* `tokens` ends with NULL. */
static void expect_counts(const char *reasoning, const char *const tokens[],
                          struct reply_token_counts expected)
{
    struct event_log log = {0};
    struct reply_parser *parser = reply_parser_create(&(struct reply_parser_config){
        .reasoning = reasoning ? reasoning_format_find(reasoning) : NULL,
        .tools = tool_format_by_name("harmony"),
        .sink = event_log_sink(&log)});
    for (size_t i = 0; tokens[i]; i++)
        (void)reply_parser_push(parser, tokens[i], strlen(tokens[i]));
    (void)reply_parser_push_rest(parser, "\ufffd", 3);
    reply_parser_finish(parser, false);
    struct reply_token_counts counts = reply_parser_counts(parser);
    assert_int_equal(counts.reasoning, expected.reasoning);
    assert_int_equal(counts.tags, expected.tags);
    assert_int_equal(counts.rest, expected.rest);
    reply_parser_destroy(parser);
    event_log_fini(&log);
}

#define TOKENS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void tokens_are_counted_by_kind(void **state)
{
    (void)state;
    expect_counts(NULL, TOKENS("<think>", "a", ""), (struct reply_token_counts){.rest = 3});
    expect_counts("think", TOKENS("<think>", "a", "</think>", "b"),
                  (struct reply_token_counts){.reasoning = 1, .tags = 2, .rest = 1});
    expect_counts("harmony",
                  TOKENS("<|channel|>", "analysis", "<|message|>", "I", " think", "<|end|>",
                         "<|start|>", "assistant", "<|channel|>", "final", "<|message|>", "Hi", ""),
                  (struct reply_token_counts){.reasoning = 2, .tags = 9, .rest = 2});
    expect_counts("harmony",
                  TOKENS("<|channel|>", "analysis", "<|message|>", "f", "<|end|>", "<|start|>",
                         "assistant", "<|channel|>", "commentary", " to=f", "<|message|>", "{",
                         "}"),
                  (struct reply_token_counts){.reasoning = 1, .tags = 3, .rest = 9});
}

/* The rest of the text belongs to no token. */
static void the_rest_is_text_without_a_token(void **state)
{
    (void)state;
    static const char *const formats[] = {NULL, "think", "harmony"};
    static const char header[] = "<|channel|>final<|message|>";
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct event_log log = {0};
        struct reply_parser *parser = reply_parser_create(&(struct reply_parser_config){
            .reasoning = formats[i] ? reasoning_format_find(formats[i]) : NULL,
            .tools = tool_format_by_name("harmony"),
            .sink = event_log_sink(&log)});
        assert_false(reply_parser_push_rest(parser, NULL, 0));
        if (i == 2)
            assert_false(reply_parser_push_rest(parser, header, sizeof header - 1));
        assert_false(reply_parser_push(parser, "a", 1));
        assert_false(reply_parser_push_rest(parser, "b", 1));
        assert_false(reply_parser_push_rest(parser, NULL, 0));
        reply_parser_finish(parser, false);
        assert_int_equal(log.count, 1);
        assert_string_equal(log.entries[0].text.bytes, "ab");
        struct reply_token_counts counts = reply_parser_counts(parser);
        assert_int_equal(counts.reasoning + counts.tags, 0);
        assert_int_equal(counts.rest, 1);
        reply_parser_destroy(parser);
        event_log_fini(&log);
    }
}

/* A stop string ends the answer, whatever the same token contains after it. */
static void nothing_follows_a_stop_string(void **state)
{
    (void)state;
    static const char text[] = "aXb<tool_call>\n{\"name\":\"g\",\"arguments\":{}}\n</tool_call>c";
    const struct stop_string stop = {"X", 1};
    for (int rest = 0; rest < 2; rest++) {
        struct event_log log = {0};
        struct reply_parser *parser = reply_parser_create(
            &(struct reply_parser_config){.tools = tool_format_by_name("hermes"),
                                          .offered_tools = tools,
                                          .stops = &stop,
                                          .stop_count = 1,
                                          .sink = event_log_sink(&log)});
        assert_non_null(parser);
        assert_true(rest ? reply_parser_push_rest(parser, text, sizeof text - 1)
                         : reply_parser_push(parser, text, sizeof text - 1));
        reply_parser_finish(parser, false);
        assert_string_equal(reply_parser_stop_string(parser), "X");
        assert_int_equal(log.count, 1);
        assert_string_equal(log.entries[0].text.bytes, "a");
        reply_parser_destroy(parser);
        event_log_fini(&log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_parse_in_any_two_pieces),
        cmocka_unit_test(answers_parse_in_pieces_of_any_length),
        cmocka_unit_test(answers_parse_at_real_tokens),
        cmocka_unit_test(tokens_are_counted_by_kind),
        cmocka_unit_test(the_rest_is_text_without_a_token),
        cmocka_unit_test(nothing_follows_a_stop_string),
    };
    return cmocka_run_group_tests(tests, read_cases, drop_cases);
}
