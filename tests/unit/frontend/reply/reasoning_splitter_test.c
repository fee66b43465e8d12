/*
 * Every answer of the corpus is split as it says, cut at every byte, in pieces of every length, and
 * at the tokens of real tokenizers; nothing but tags and white space vanishes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/utf8_stream.h"
#include "frontend/reply/mark_tokens.h"
#include "frontend/reply/reasoning_splitter.h"
#include "frontend/reply/reply_text.h"
#include "tests/support/cut_trial.h"
#include "tests/support/event_log.h"
#include "tests/support/golden_tokenizer.h"
#include "tests/support/template_case.h"

static cJSON *cases;

static int read_cases(void **state)
{
    (void)state;
    cases = template_case_read_json("tests/golden/reasoning/answers.json");
    return 0;
}

static int drop_cases(void **state)
{
    (void)state;
    cJSON_Delete(cases);
    return 0;
}

static const char *text_of(const cJSON *item, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(item, name));
    assert_non_null(text);
    return text;
}

static struct reasoning_format format_of(const cJSON *item)
{
    const cJSON *tags = cJSON_GetObjectItem(item, "tags");
    const struct reasoning_format *row = reasoning_format_find(text_of(item, "format"));
    assert_true(row || tags);
    struct reasoning_format format;
    if (!tags)
        return *row;
    assert_int_equal(reasoning_format_set_custom(&format, NULL,
                                                 cJSON_GetStringValue(cJSON_GetArrayItem(tags, 0)),
                                                 cJSON_GetStringValue(cJSON_GetArrayItem(tags, 1))),
                     RESULT_OK);
    return format;
}

struct trial {
    struct reasoning_format format;
    struct reasoning_splitter *splitter;
    struct event_log log;
    struct utf8_stream utf8; /* pieces may end within a character, as tokens do */
    struct text_buffer whole;
};

static void trial_begin(void *context, const cJSON *item)
{
    struct trial *trial = context;
    const char *marks[REASONING_CALL_MARKS];
    size_t count = 0;
    const cJSON *mark;
    cJSON_ArrayForEach(mark, cJSON_GetObjectItem(item, "call_marks")) marks[count++] =
        cJSON_GetStringValue(mark);
    *trial = (struct trial){.format = format_of(item)};
    trial->splitter = reasoning_splitter_create(&(struct reasoning_splitter_config){
        .format = &trial->format,
        .open = cJSON_IsTrue(cJSON_GetObjectItem(item, "open")),
        .call_marks = marks,
        .call_mark_count = count,
        .sink = event_log_sink(&trial->log),
    });
}

static void trial_push(void *context, const char *bytes, size_t length)
{
    struct trial *trial = context;
    utf8_stream_push(&trial->utf8, bytes, length, &trial->whole);
    reasoning_splitter_push(trial->splitter, trial->whole.bytes, trial->whole.length, true);
    text_buffer_clear(&trial->whole);
}

/* Whether `told` is `text` without white space and without some of the tags in it. */
static bool accounts_for(const char *text, const char *told, const struct reasoning_format *format)
{
    const char *const *lists[] = {format->opening, format->closing, format->frames};
    for (size_t list = 0; list < 3; list++) {
        for (size_t i = 0; i < REASONING_TAGS && lists[list][i]; i++) {
            size_t length = strlen(lists[list][i]);
            if (strncmp(text, lists[list][i], length) == 0 &&
                accounts_for(text + length, told, format))
                return true;
        }
    }
    if (*text && strchr(" \t\r\n", *text))
        return accounts_for(text + 1, told, format);
    if (*told && strchr(" \t\r\n", *told))
        return accounts_for(text, told + 1, format);
    return *text == *told && (!*text || accounts_for(text + 1, told + 1, format));
}

/* Nothing but tags and white space vanished. */
static void check_account(const struct trial *trial, const cJSON *item)
{
    struct text_buffer told = {0};
    for (size_t i = 0; i < trial->log.count; i++)
        text_buffer_append(&told, trial->log.entries[i].text.bytes,
                           trial->log.entries[i].text.length);
    assert_true(accounts_for(text_of(item, "text"), told.bytes ? told.bytes : "", &trial->format));
    text_buffer_fini(&told);
}

static void trial_end(void *context, const cJSON *item, uint32_t tokens)
{
    struct trial *trial = context;
    reasoning_splitter_finish(trial->splitter);
    assert_false(reasoning_splitter_failed(trial->splitter));
    assert_true(
        event_log_matches(&trial->log, cJSON_GetObjectItem(item, "events"), text_of(item, "name")));
    check_account(trial, item);
    struct reply_token_counts counts = reasoning_splitter_counts(trial->splitter);
    assert_int_equal(counts.reasoning + counts.tags + counts.rest, tokens);
    reasoning_splitter_destroy(trial->splitter);
    event_log_fini(&trial->log);
    text_buffer_fini(&trial->whole);
}

static void answers_split_in_any_two_pieces(void **state)
{
    (void)state;
    struct trial trial;
    cut_trial_in_two(&(struct cut_trial){&trial, trial_begin, trial_push, trial_end}, cases);
}

static void answers_split_in_pieces_of_any_length(void **state)
{
    (void)state;
    struct trial trial;
    cut_trial_in_pieces(&(struct cut_trial){&trial, trial_begin, trial_push, trial_end}, cases);
}

/* Encodes an answer as a model would have written it, tags as their tokens where it has such. */
static void check_tokens(const struct tokenizer *tokenizer, const cJSON *item)
{
    struct trial trial;
    trial_begin(&trial, item);
    struct token_list shown = {0};
    assert_int_equal(mark_tokens_find(tokenizer, &trial.format, NULL, &shown), RESULT_OK);
    const char *text = text_of(item, "text");
    const struct prompt_span span = {text, strlen(text), true};
    struct token_list tokens = {0};
    assert_int_equal(tokenizer_encode(tokenizer, &span, 1, 10000, NULL, &tokens), RESULT_OK);
    struct reply_text *reply = reply_text_create(tokenizer);
    reply_text_show(reply, &shown);
    for (size_t i = 0; i < tokens.count; i++) {
        text_buffer_clear(&trial.whole);
        (void)reply_text_push(reply, tokens.ids[i], &trial.whole);
        reasoning_splitter_push(trial.splitter, trial.whole.bytes, trial.whole.length, true);
    }
    reply_text_destroy(reply);
    trial_end(&trial, item, (uint32_t)tokens.count);
    token_list_fini(&tokens);
    token_list_fini(&shown);
}

static void answers_split_at_real_tokens(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3", "gpt2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tokenizer *tokenizer = golden_tokenizer_open_published(names[i]);
        const cJSON *item;
        cJSON_ArrayForEach(item, cases) check_tokens(tokenizer, item);
        tokenizer_close(tokenizer);
    }
}

/* The answer's reasoning and content, each joined. */
static void expect_split(const struct reasoning_format *format, bool open, const char *text,
                         const char *reasoning, const char *content)
{
    struct event_log log = {0};
    struct text_buffer parts[2] = {{0}, {0}};
    struct reasoning_splitter *splitter =
        reasoning_splitter_create(&(struct reasoning_splitter_config){
            .format = format, .open = open, .sink = event_log_sink(&log)});
    reasoning_splitter_push(splitter, text, strlen(text), true);
    reasoning_splitter_finish(splitter);
    for (size_t i = 0; i < log.count; i++)
        text_buffer_append(&parts[log.entries[i].kind == REPLY_REASONING],
                           log.entries[i].text.bytes, log.entries[i].text.length);
    if (strcmp(parts[1].bytes ? parts[1].bytes : "", reasoning) != 0 ||
        strcmp(parts[0].bytes ? parts[0].bytes : "", content) != 0)
        fail_msg("%s: reasoning '%s', content '%s'", text, parts[1].bytes, parts[0].bytes);
    text_buffer_fini(&parts[0]);
    text_buffer_fini(&parts[1]);
    reasoning_splitter_destroy(splitter);
    event_log_fini(&log);
}

/* Three backticks or more that begin a line open or close a fence; no tag counts within it. */
static void fences_begin_with_three_backticks_of_a_line(void **state)
{
    (void)state;
    static const char *const outside[] = {
        "`\n",    "``\n",       "`x`\n",       "a```\n",      "a``\n",           "``x`\n",
        "`` `\n", "```\n```\n", "````\n```\n", "```\n ```\n", "```c\na\n````\n", "x `\n``\n",
    };
    static const char *const inside[] = {"```\n",     "```c\na\n",   "````\n",          " \t```\n",
                                         "```\n``\n", "```\na```\n", "```\n```\n```\n", "a\n```\n"};
    const struct reasoning_format *format = reasoning_format_find("think");
    char text[64];
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        (void)snprintf(text, sizeof text, "%s<think>r</think>", outside[i]);
        expect_split(format, false, text, "r", outside[i]);
    }
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        (void)snprintf(text, sizeof text, "%s<think>r</think>", inside[i]);
        expect_split(format, false, text, "", text);
    }
}

/* Before a closing tag at most the last REASONING_SPACE_BYTES are trimmed. */
static void held_white_space_is_bounded(void **state)
{
    (void)state;
    const struct reasoning_format *format = reasoning_format_find("think");
    for (int blanks = REASONING_SPACE_BYTES - 2; blanks <= 2 * REASONING_SPACE_BYTES + 2;
         blanks++) {
        char text[256], expected[256];
        int kept = blanks > REASONING_SPACE_BYTES ? blanks - REASONING_SPACE_BYTES : 0;
        (void)snprintf(text, sizeof text, "a%*s</think>b", blanks, "");
        (void)snprintf(expected, sizeof expected, "a%*s", kept, "");
        expect_split(format, true, text, expected, "b");
        (void)snprintf(text, sizeof text, "a \n%*sb", blanks, ""); /* nothing is trimmed */
        expect_split(format, true, text, text, "");
    }
}

/* As many tags and marks as there may be. */
static void every_mark_of_a_full_list_counts(void **state)
{
    (void)state;
    const struct reasoning_format format = {.opening = {"<a>", "<b>", "<c>", "<d>"},
                                            .closing = {"</a>", "</b>", "</c>", "</d>"},
                                            .frames = {"[a]", "[b]", "[c]", "[d]"},
                                            .control_tags = true};
    const char *marks[REASONING_CALL_MARKS];
    for (size_t i = 0; i < REASONING_CALL_MARKS; i++)
        marks[i] = i + 1 < REASONING_CALL_MARKS ? "<call>" : "<last>";
    struct event_log log = {0};
    struct reasoning_splitter *splitter = reasoning_splitter_create(
        &(struct reasoning_splitter_config){.format = &format,
                                            .call_marks = marks,
                                            .call_mark_count = REASONING_CALL_MARKS,
                                            .sink = event_log_sink(&log)});
    static const char text[] = "[d]x<d>r</d>y<d>s<last>z";
    reasoning_splitter_push(splitter, text, strlen(text), true);
    reasoning_splitter_finish(splitter);
    static const char *const expected[] = {"x", "r", "y", "s", "<last>z"};
    assert_int_equal(log.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(log.entries[i].text.bytes, expected[i]);
        assert_int_equal(log.entries[i].kind, i % 2 ? REPLY_REASONING : REPLY_CONTENT);
    }
    reasoning_splitter_destroy(splitter);
    event_log_fini(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_split_in_any_two_pieces),
        cmocka_unit_test(answers_split_in_pieces_of_any_length),
        cmocka_unit_test(answers_split_at_real_tokens),
        cmocka_unit_test(fences_begin_with_three_backticks_of_a_line),
        cmocka_unit_test(held_white_space_is_bounded),
        cmocka_unit_test(every_mark_of_a_full_list_counts),
    };
    return cmocka_run_group_tests(tests, read_cases, drop_cases);
}
