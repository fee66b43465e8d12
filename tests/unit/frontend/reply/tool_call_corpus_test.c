/*
 * For every format a corpus of answers (tests/golden/tool_calls): the parser finds what the answer
 * consists of, and finds the same however the answer is cut: in two at every byte, byte by byte, at
 * the tokens of a published tokenizer. However early an answer ends, every call that ended has an
 * object for arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "frontend/reply/harmony_parser.h"
#include "frontend/reply/tool_call_parser.h"
#include "tests/support/heard_reply.h"
#include "tests/support/template_case.h"
#include "tests/support/tokenizer_corpus.h"

#define FOLDER    "tests/golden/tool_calls"
#define TOKENIZER "build/cache/tokenizers/qwen3/tokenizer.json"

static struct tokenizer *tokenizer;
static cJSON *tools;

/* Where an answer is cut: the ends of its pieces. */
struct cuts {
    size_t *ends;
    size_t count;
};

static void parse(const struct tool_format *format, const char *text, const struct cuts *cuts,
                  bool truncated, struct heard_reply *heard)
{
    size_t begin = 0;
    heard_reply_clear(heard);
    if (tool_format_is_harmony(format)) {
        struct harmony_parser *parser = harmony_parser_create(true, heard_reply_sink(heard));
        assert_non_null(parser);
        for (size_t i = 0; i < cuts->count; begin = cuts->ends[i++])
            harmony_parser_push(parser, text + begin, cuts->ends[i] - begin);
        harmony_parser_finish(parser, truncated);
        assert_false(harmony_parser_failed(parser));
        assert_int_equal(harmony_parser_count(parser), heard->call_count);
        harmony_parser_destroy(parser);
        return;
    }
    struct tool_call_parser *parser =
        tool_call_parser_create(format, tools, heard_reply_sink(heard));
    assert_non_null(parser);
    for (size_t i = 0; i < cuts->count; begin = cuts->ends[i++])
        tool_call_parser_push(parser, text + begin, cuts->ends[i] - begin);
    tool_call_parser_finish(parser, truncated);
    assert_false(tool_call_parser_failed(parser));
    assert_int_equal(tool_call_parser_count(parser), heard->call_count);
    tool_call_parser_destroy(parser);
}

/* --- what is expected --------------------------------------------------------------------------
 */

static const char *string_of(const cJSON *object, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(value) ? value->valuestring : "";
}

static bool call_agrees(const char *title, const struct heard_call *call, const cJSON *expected)
{
    const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(expected, "arguments");
    cJSON *value = cJSON_ParseWithOpts(heard_text(&call->arguments), NULL, true);
    bool agrees = strcmp(call->name, string_of(expected, "name")) == 0 &&
                  strcmp(call->id, string_of(expected, "id")) == 0 && call->ended &&
                  cJSON_IsObject(value) && cJSON_Compare(value, arguments, true);
    if (!agrees) {
        char *wanted = cJSON_PrintUnformatted(expected);
        print_error("%s: wanted %s, got %s (%s) %s%s\n", title, wanted, call->name, call->id,
                    heard_text(&call->arguments), call->ended ? "" : " without end");
        free(wanted);
    }
    cJSON_Delete(value);
    return agrees;
}

static bool texts_agree(const char *title, const char *got, const char *wanted)
{
    if (strcmp(got, wanted) == 0)
        return true;
    print_error("%s: wanted '%s', got '%s'\n", title, wanted, got);
    return false;
}

static bool case_agrees(const char *title, const struct heard_reply *heard, const cJSON *expected)
{
    const cJSON *open = cJSON_GetObjectItemCaseSensitive(expected, "open");
    const cJSON *call;
    size_t count = 0;
    bool agrees =
        texts_agree(title, heard_text(&heard->content), string_of(expected, "content")) &&
        texts_agree(title, heard_text(&heard->reasoning), string_of(expected, "reasoning"));
    cJSON_ArrayForEach(call, cJSON_GetObjectItemCaseSensitive(expected, "calls"))
    {
        agrees =
            agrees && count < heard->call_count && call_agrees(title, &heard->calls[count], call);
        count++;
    }
    if (open && agrees && count < heard->call_count) {
        const struct heard_call *last = &heard->calls[count];
        agrees = texts_agree(title, last->name, string_of(open, "name")) &&
                 texts_agree(title, last->id, string_of(open, "id")) && !last->ended &&
                 texts_agree(title, heard_text(&last->arguments), string_of(open, "text"));
    }
    if (heard->call_count != count + (open != NULL)) {
        print_error("%s: %zu calls\n", title, heard->call_count);
        agrees = false;
    }
    return agrees;
}

/* --- every case --------------------------------------------------------------------------------
 */

typedef void case_check(const char *title, const struct tool_format *format, const cJSON *expected);

static void each_case(case_check *check)
{
    for (size_t f = 0; tool_format_at(f); f++) {
        char path[256], title[256];
        const char *name = tool_format_name(tool_format_at(f));
        snprintf(path, sizeof path, FOLDER "/format_%s.json", name);
        cJSON *cases = template_case_read_json(path);
        const cJSON *expected;
        assert_true(cJSON_GetArraySize(cases) >= 7);
        cJSON_ArrayForEach(expected, cases)
        {
            snprintf(title, sizeof title, "%s: %s", name, string_of(expected, "name"));
            check(title, tool_format_at(f), expected);
        }
        cJSON_Delete(cases);
    }
}

static int disagreements;
static struct heard_reply whole, pieces;

static bool is_truncated(const cJSON *expected)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(expected, "truncated"));
}

static void check_whole(const char *title, const struct tool_format *format, const cJSON *expected)
{
    const char *text = string_of(expected, "text");
    size_t end = strlen(text);
    parse(format, text, &(struct cuts){&end, 1}, is_truncated(expected), &whole);
    disagreements += !case_agrees(title, &whole, expected);
}

static void finds_what_answers_consist_of(void **state)
{
    (void)state;
    disagreements = 0;
    each_case(check_whole);
    assert_int_equal(disagreements, 0);
}

static void check_cuts(const char *title, const struct tool_format *format, const cJSON *expected)
{
    const char *text = string_of(expected, "text");
    size_t length = strlen(text);
    size_t *each = calloc(length + 1, sizeof *each);
    assert_non_null(each);
    parse(format, text, &(struct cuts){&length, 1}, is_truncated(expected), &whole);
    for (size_t i = 0; i < length; i++) {
        size_t ends[] = {i, length};
        parse(format, text, &(struct cuts){ends, 2}, is_truncated(expected), &pieces);
        disagreements += !heard_reply_agrees(title, &pieces, &whole);
        each[i] = i + 1;
    }
    parse(format, text, &(struct cuts){each, length}, is_truncated(expected), &pieces);
    disagreements += !heard_reply_agrees(title, &pieces, &whole);
    struct prompt_span span = {text, length, true};
    struct token_list tokens = {0};
    assert_int_equal(tokenizer_encode(tokenizer, &span, 1, SIZE_MAX, NULL, &tokens), RESULT_OK);
    size_t end = 0;
    for (size_t i = 0; i < tokens.count; i++) {
        const char *bytes;
        size_t count;
        tokenizer_token_bytes(tokenizer, tokens.ids[i], &bytes, &count);
        each[i] = end += count;
    }
    assert_int_equal(end, length);
    parse(format, text, &(struct cuts){each, tokens.count}, is_truncated(expected), &pieces);
    disagreements += !heard_reply_agrees(title, &pieces, &whole);
    token_list_fini(&tokens);
    free(each);
}

static void cuts_change_nothing(void **state)
{
    (void)state;
    disagreements = 0;
    each_case(check_cuts);
    assert_int_equal(disagreements, 0);
}

static void check_ends(const char *title, const struct tool_format *format, const cJSON *expected)
{
    const char *text = string_of(expected, "text");
    size_t length = strlen(text);
    for (size_t end = 0; end <= length; end++) {
        if (end < length && ((unsigned char)text[end] & 0xc0) == 0x80)
            continue; /* whole characters */
        for (int truncated = 0; truncated < 2; truncated++) {
            parse(format, text, &(struct cuts){&end, 1}, truncated != 0, &whole);
            for (size_t i = 0; i < whole.call_count; i++) {
                const struct heard_call *call = &whole.calls[i];
                cJSON *value = cJSON_ParseWithOpts(heard_text(&call->arguments), NULL, true);
                bool may_be_open = truncated && i + 1 == whole.call_count;
                if (call->ended ? !cJSON_IsObject(value) : !may_be_open) {
                    print_error("%s, %zu bytes: %s\n", title, end, heard_text(&call->arguments));
                    disagreements++;
                }
                cJSON_Delete(value);
            }
        }
    }
}

static void calls_that_end_have_objects(void **state)
{
    (void)state;
    disagreements = 0;
    each_case(check_ends);
    assert_int_equal(disagreements, 0);
}

static int open_all(void **state)
{
    (void)state;
    size_t bytes;
    struct error_text error = {""};
    char *json = corpus_read_file(TOKENIZER, "scripts/fetch_tokenizers", &bytes);
    enum result result = tokenizer_open_json(json, bytes, &tokenizer, &error);
    free(json);
    tools = template_case_read_json(FOLDER "/tools.json");
    return result == RESULT_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    cJSON_Delete(tools);
    heard_reply_fini(&whole);
    heard_reply_fini(&pieces);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_answers_consist_of),
        cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(calls_that_end_have_objects),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
