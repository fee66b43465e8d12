/*
 * What each token of an answer counts as, and that splitting a long answer takes time in proportion
 * to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/reply/reasoning_splitter.h"
#include "tests/support/event_log.h"

static struct reasoning_splitter *open_splitter(struct event_log *log, bool open)
{
    return reasoning_splitter_create(&(struct reasoning_splitter_config){
        .format = reasoning_format_find("think"), .open = open, .sink = event_log_sink(log)});
}

/* `tokens` ends with NULL. */
static void expect_counts(bool open, const char *const tokens[], uint32_t reasoning, uint32_t tags,
                          uint32_t rest)
{
    struct event_log log = {0};
    struct reasoning_splitter *splitter = open_splitter(&log, open);
    for (size_t i = 0; tokens[i]; i++)
        reasoning_splitter_push(splitter, tokens[i], strlen(tokens[i]), true);
    reasoning_splitter_push(splitter, "\ufffd", 3, false);
    reasoning_splitter_finish(splitter);
    struct reply_token_counts counts = reasoning_splitter_counts(splitter);
    assert_int_equal(counts.reasoning, reasoning);
    assert_int_equal(counts.tags, tags);
    assert_int_equal(counts.rest, rest);
    reasoning_splitter_destroy(splitter);
    event_log_fini(&log);
}

#define TOKENS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void tokens_count_as_what_they_are(void **state)
{
    (void)state;
    expect_counts(false, TOKENS("<think>", "\n", "Hm", ".", "\n", "</think>", "\n\n", "Yes"), 4, 2,
                  2);
    expect_counts(true, TOKENS("Hm", "</think>", "Yes"), 1, 1, 1);
    expect_counts(false, TOKENS("Yes", ".", ""), 0, 0, 3);
}

static void tags_of_several_tokens_are_all_tags(void **state)
{
    (void)state;
    expect_counts(false, TOKENS("<", "th", "ink", ">", "a", "</", "think", ">", "b"), 1, 7, 1);
}

static void tokens_across_a_tags_border_count_by_their_other_bytes(void **state)
{
    (void)state;
    expect_counts(false, TOKENS("<think", ">\n", "a.</", "think", ">\n\n", "b"), 2, 2, 2);
    expect_counts(false, TOKENS("<think>a</think>b"), 1, 0, 0);
}

static void what_only_began_like_a_tag_counts_as_text(void **state)
{
    (void)state;
    expect_counts(false, TOKENS("<", "thi", "nk"), 0, 0, 3);
    expect_counts(true, TOKENS("</", "thin", "g", ">", "<"), 5, 0, 0);
}

static void text_of_no_token_counts_for_none(void **state)
{
    (void)state;
    struct event_log log = {0};
    struct reasoning_splitter *splitter = open_splitter(&log, true);
    reasoning_splitter_push(splitter, "a", 1, true);
    reasoning_splitter_push(splitter, "\ufffd", 3, false);
    reasoning_splitter_push(splitter, "</", 2, true);
    reasoning_splitter_push(splitter, "think>", 6, true);
    reasoning_splitter_finish(splitter);
    struct reply_token_counts counts = reasoning_splitter_counts(splitter);
    assert_true(counts.reasoning == 1 && counts.tags == 2 && counts.rest == 0);
    reasoning_splitter_destroy(splitter);
    event_log_fini(&log);
}

static void tokens_without_text_count_where_they_come(void **state)
{
    (void)state;
    expect_counts(true, TOKENS("", "a", "", "</think>", "", "b"), 3, 1, 2);
}

/* A million bytes of beginnings of tags, a byte at a time and whole; quadratic work would take
 * hours. */
static void long_answers_take_linear_time(void **state)
{
    (void)state;
    enum { REPEATS = 150000 };
    struct text_buffer text = {0};
    for (size_t i = 0; i < REPEATS; i++)
        text_buffer_append_text(&text, "</think\n");
    for (size_t piece = 1; piece <= text.length; piece *= text.length) {
        struct event_log log = {0};
        struct reasoning_splitter *splitter = open_splitter(&log, true);
        for (size_t at = 0; at < text.length; at += piece)
            reasoning_splitter_push(splitter, text.bytes + at, piece, true);
        assert_true(text.length - log.bytes <= REASONING_SPACE_BYTES);
        reasoning_splitter_finish(splitter);
        assert_int_equal(log.bytes, text.length);
        reasoning_splitter_destroy(splitter);
        event_log_fini(&log);
    }
    text_buffer_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_count_as_what_they_are),
        cmocka_unit_test(tags_of_several_tokens_are_all_tags),
        cmocka_unit_test(tokens_across_a_tags_border_count_by_their_other_bytes),
        cmocka_unit_test(what_only_began_like_a_tag_counts_as_text),
        cmocka_unit_test(text_of_no_token_counts_for_none),
        cmocka_unit_test(tokens_without_text_count_where_they_come),
        cmocka_unit_test(long_answers_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
