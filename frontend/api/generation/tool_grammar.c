/*
 * Where does a call begin? Most formats mark it (reply/tool_format.h: openings): free text contains
 * no mark, and after a mark only a call can follow. If a format's calls have no mark, they are the
 * whole answer, and free text does not begin like a call of an offered tool, however it is spaced.
 */
#include "frontend/api/generation/tool_grammar.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/literal_grammar.h"
#include "frontend/api/generation/tagged_grammar.h"
#include "frontend/api/generation/tool_schema_relax.h"
#include "frontend/assets/model_assets.h"
#include "frontend/base/text_buffer.h"
#include "frontend/grammar/json_schema_compile.h"
#include "frontend/grammar/lark.h"
#include "frontend/grammar/regex_compile.h"
#include "frontend/reply/mark_tokens.h"

enum { OPENINGS = 3, RELAXED_KEYWORDS = 16 };

static const cJSON *function_member(const cJSON *tool, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(tool, "function"),
                                            name);
}

static const char *tool_name(const cJSON *tool)
{
    return cJSON_GetStringValue(function_member(tool, "name"));
}

static bool list_has(const cJSON *names, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, names)
    {
        if (strcmp(item->valuestring, name) == 0)
            return true;
    }
    return false;
}

static bool is_allowed(const struct generation_request *request, const char *name)
{
    if (request->tool_choice == TOOL_CHOICE_NAMED)
        return strcmp(name, request->tool_name) == 0;
    return !request->allowed_tools || list_has(request->allowed_tools, name);
}

static symbol_id text_symbol(const struct tool_grammar *g, const char *text, size_t length)
{
    return grammar_text_symbol(g->builder, &g->specials, text, length);
}

/* --- one call -------------------------------------------------------------------------------- */

static bool schema_build(const struct tool_grammar *g, const cJSON *tool, const cJSON *schema,
                         symbol_id *out, struct grammar_error *error)
{
    const struct json_schema_options options = {.closed_objects = true,
                                                .blanks = TOOL_GRAMMAR_BLANKS};
    switch (tool_format_frame(g->format)->arguments) {
    case ARGUMENTS_TAGGED: return tagged_grammar_build(g, tool, schema, out, error);
    case ARGUMENTS_LITERAL: return literal_grammar_build(g, schema, out, error);
    case ARGUMENTS_KEYWORDS: return keyword_grammar_build(g, schema, out, error);
    default: return json_schema_compile(g->builder, schema, &options, out, error);
    }
}

/* Arguments that obey no schema: any of the form that the parser reads. */
static bool loose_build(const struct tool_grammar *g, symbol_id *out, struct grammar_error *error)
{
    const struct json_schema_options options = {.closed_objects = true,
                                                .blanks = TOOL_GRAMMAR_BLANKS};
    switch (tool_format_frame(g->format)->arguments) {
    case ARGUMENTS_LITERAL: return literal_grammar_any(g, out, error);
    case ARGUMENTS_TAGGED: return tagged_grammar_any(g, out, error);
    case ARGUMENTS_KEYWORDS: return keyword_grammar_any(g, out, error);
    default: return json_schema_compile_object(g->builder, &options, out, error);
    }
}

/* The schema without the keywords that are refused, else any object. */
static bool relaxed_build(const struct tool_grammar *g, const cJSON *tool, symbol_id *out,
                          struct grammar_error *error)
{
    cJSON *schema = cJSON_Duplicate(function_member(tool, "parameters"), true);
    bool built = false;
    for (int i = 0; schema && i < RELAXED_KEYWORDS && !built; i++) {
        if (!tool_schema_relax(schema, error))
            break;
        built = schema_build(g, tool, schema, out, error);
        if (!built && grammar_builder_failed(g->builder))
            break;
    }
    cJSON_Delete(schema);
    if (!built && grammar_builder_failed(g->builder))
        return false;
    *error = (struct grammar_error){0};
    return built || loose_build(g, out, error);
}

static void loose_note(const struct tool_grammar *g, const char *name)
{
    text_buffer_append_text(g->loose_names, g->loose_names->length > 0 ? ", " : "");
    text_buffer_append_text(g->loose_names, name);
}

/* The input of a custom tool, a text of a grammar, as its one argument. */
static bool input_build(const struct tool_grammar *g, const cJSON *input, const char *name,
                        symbol_id *out, struct grammar_error *error)
{
    const char *syntax = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(input, "syntax"));
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(input, "definition"));
    enum tool_arguments style = tool_format_frame(g->format)->arguments;
    const struct regex_options options = {.json_spelling = style == ARGUMENTS_JSON ||
                                                           style == ARGUMENTS_KEYWORDS};
    symbol_id value = GRAMMAR_NONE;
    regex_id regex = GRAMMAR_NONE;
    bool good;
    if (strcmp(syntax, "regex") == 0) {
        good = regex_compile(g->builder, text, strlen(text), &options, &regex, error);
        value = good ? grammar_terminal(g->builder, regex) : GRAMMAR_NONE;
    } else if (options.json_spelling) {
        good = lark_compile_spelled(g->builder, text, strlen(text), &value, error);
    } else {
        good = lark_compile(g->builder, text, strlen(text), NULL, &value, error);
    }
    if (!good) {
        char pointer[sizeof error->pointer];
        snprintf(pointer, sizeof pointer, "%.100s/format: %.60s", name, error->pointer);
        memcpy(error->pointer, pointer, sizeof pointer);
        return false;
    }
    if (style == ARGUMENTS_TAGGED) {
        *out = tagged_grammar_value(g, "input", value);
        return true;
    }
    if (style == ARGUMENTS_LITERAL) {
        *out = literal_grammar_text(g, "input", value);
        return true;
    }
    const char *before = style == ARGUMENTS_KEYWORDS ? "input=\"" : "{\"input\": \"";
    const char *after = style == ARGUMENTS_KEYWORDS ? "\"" : "\"}";
    const symbol_id parts[] = {text_symbol(g, before, strlen(before)), value,
                               text_symbol(g, after, strlen(after))};
    *out = grammar_sequence(g->builder, parts, 3);
    return true;
}

static bool arguments_build(const struct tool_grammar *g, const cJSON *tool, unsigned index,
                            symbol_id *out, struct grammar_error *error)
{
    bool is_strict = list_has(g->request->strict_tools, tool_name(tool));
    const cJSON *input = cJSON_GetObjectItemCaseSensitive(g->request->tool_inputs, tool_name(tool));
    if (input)
        return input_build(g, input, tool_name(tool), out, error);
    if (g->loose && !is_strict) {
        loose_note(g, tool_name(tool));
        return loose_build(g, out, error);
    }
    if (schema_build(g, tool, function_member(tool, "parameters"), out, error))
        return true;
    if (grammar_builder_failed(g->builder))
        return false;
    if (is_strict) {
        char pointer[sizeof error->pointer];
        snprintf(pointer, sizeof pointer, "/%u%.240s", index, error->pointer);
        memcpy(error->pointer, pointer, sizeof pointer);
        return false;
    }
    loose_note(g, tool_name(tool));
    return relaxed_build(g, tool, out, error);
}

/* A call: the frame's text with the name, a number and the arguments. */
static symbol_id call_build(const struct tool_grammar *g, const char *name, symbol_id arguments)
{
    enum { PARTS = 16 };
    symbol_id parts[PARTS];
    size_t count = 0;
    const char *text = tool_format_frame(g->format)->call;
    const uint64_t digits[4] = {(uint64_t)0x3ff << '0'};
    while (*text && count < PARTS) {
        const char *place = strchr(text, '%');
        size_t plain = place ? (size_t)(place - text) : strlen(text);
        if (plain > 0) {
            parts[count++] = text_symbol(g, text, plain);
            text += plain;
            continue;
        }
        if (place[1] == 'n')
            parts[count++] = text_symbol(g, name, strlen(name));
        else if (place[1] == 'a')
            parts[count++] = arguments;
        else
            parts[count++] = grammar_terminal(
                g->builder,
                grammar_regex_repeat(g->builder, grammar_regex_bytes(g->builder, digits), 1, 9));
        text += 2;
    }
    return grammar_sequence(g->builder, parts, count);
}

/* --- all calls ------------------------------------------------------------------------------- */

/* The frame's end. A token there that ends the answer is left to the end of the answer. */
static symbol_id end_build(const struct tool_grammar *g, const char *end)
{
    size_t length = strlen(end);
    struct special_token special;
    for (size_t i = 0; i < length; i++) {
        bool is_last = tokenizer_special_at(g->assets->tokenizer, end + i, length - i,
                                            &special.id) == length - i;
        for (uint32_t s = 0; is_last && s < g->assets->stop_id_count; s++) {
            if (g->assets->stop_ids[s] == special.id)
                return text_symbol(g, end, i);
        }
    }
    return text_symbol(g, end, length);
}

static symbol_id frame_build(const struct tool_grammar *g, symbol_id call)
{
    const struct tool_frame *frame = tool_format_frame(g->format);
    const struct generation_request *request = g->request;
    bool single =
        !frame->separator || request->single_tool_call || request->tool_choice == TOOL_CHOICE_NAMED;
    symbol_id calls = call;
    if (!single)
        calls = grammar_separated(g->builder, call,
                                  text_symbol(g, frame->separator, strlen(frame->separator)), 1,
                                  LIMIT_TOOL_CALLS);
    const char *begin = frame->begin ? frame->begin : "";
    const symbol_id parts[] = {text_symbol(g, begin, strlen(begin)), calls,
                               end_build(g, frame->end ? frame->end : "")};
    return grammar_sequence(g->builder, parts, 3);
}

bool tool_grammar_calls(const struct tool_grammar *g, symbol_id *out, struct grammar_error *error)
{
    int count = cJSON_GetArraySize(g->request->tools);
    symbol_id *calls = calloc((size_t)count + 1, sizeof *calls);
    size_t allowed = 0;
    unsigned index = 0;
    const cJSON *tool;
    bool good = calls != NULL;
    cJSON_ArrayForEach(tool, g->request->tools)
    {
        symbol_id arguments = GRAMMAR_NONE;
        bool wanted = good && is_allowed(g->request, tool_name(tool));
        if (wanted)
            good = arguments_build(g, tool, index, &arguments, error);
        if (wanted && good)
            calls[allowed++] = call_build(g, tool_name(tool), arguments);
        index++;
    }
    if (good)
        *out = frame_build(g, grammar_choice(g->builder, calls, allowed));
    free(calls);
    return good;
}

/* --- free text ------------------------------------------------------------------------------- */

/* The text in any spacing; its own blanks may be missing. */
static regex_id spaced_build(struct grammar_builder *builder, const char *text, size_t length)
{
    uint64_t set[4] = {(uint64_t)1 << ' ' | (uint64_t)1 << '\n' | (uint64_t)1 << '\t'};
    regex_id blanks =
        grammar_regex_repeat(builder, grammar_regex_bytes(builder, set), 0, GRAMMAR_UNBOUNDED);
    regex_id regex = grammar_regex_empty(builder);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ' || text[i] == '\n')
            continue;
        bool in_word = i > 0 && strchr("{}[]\":,(", text[i]) == NULL &&
                       strchr("{}[]\":,( \n", text[i - 1]) == NULL;
        if (!in_word)
            regex = grammar_regex_concat(builder, regex, blanks);
        regex = grammar_regex_concat(builder, regex, grammar_regex_literal(builder, text + i, 1));
    }
    return regex;
}

/* How an answer that is a call of this tool begins: the frame up to one character after the name.
 */
static regex_id call_start(const struct tool_grammar *g, const char *name)
{
    const struct tool_frame *frame = tool_format_frame(g->format);
    struct text_buffer text = {0};
    const char *place = strstr(frame->call, "%n");
    if (frame->begin)
        text_buffer_append_text(&text, frame->begin);
    text_buffer_append(&text, frame->call, (size_t)(place - frame->call));
    text_buffer_append_text(&text, name);
    text_buffer_append(&text, place + 2, 1);
    regex_id regex = text.failed ? GRAMMAR_NONE : spaced_build(g->builder, text.bytes, text.length);
    text_buffer_fini(&text);
    return regex;
}

/* True if the frame begins with an opening of the format. */
static bool has_mark(const struct tool_grammar *g)
{
    const struct tool_frame *frame = tool_format_frame(g->format);
    const char *opening;
    for (size_t i = 0; i < OPENINGS && (opening = tool_format_opening(g->format, i)); i++) {
        const char *first = frame->begin ? frame->begin : frame->call;
        const char *name = strstr(frame->call, "%n");
        const char *found = strstr(first, opening);
        if (found && (frame->begin || found < name))
            return true;
    }
    return false;
}

/* Text without special tokens, openings and, if calls have no mark, the beginning of one. */
static regex_id plain_text(const struct tool_grammar *g, bool marked)
{
    const char *openings[OPENINGS] = {NULL};
    size_t count = 0;
    while (count < OPENINGS && (openings[count] = tool_format_opening(g->format, count)))
        count++;
    regex_id text = grammar_text_without(g->builder, NULL, openings, count);
    const cJSON *tool;
    cJSON_ArrayForEach(tool, g->request->tools)
    {
        if (marked)
            break;
        regex_id start = call_start(g, tool_name(tool));
        regex_id begun =
            grammar_regex_concat(g->builder, start, grammar_regex_any_text(g->builder));
        text = grammar_regex_and(g->builder, text, grammar_regex_not(g->builder, begun));
    }
    return text;
}

/* Free text with the special tokens that frame reasoning or the answer, which parsers remove. */
static symbol_id free_text(const struct tool_grammar *g, bool marked)
{
    struct token_list marks = {0};
    symbol_id text = grammar_terminal(g->builder, plain_text(g, marked));
    const struct reply_formats *formats = &g->assets->formats;
    if (!formats->reasoning || formats->reasoning->joint)
        return text;
    if (mark_tokens_find(g->assets->tokenizer, formats->reasoning, NULL, &marks) != RESULT_OK ||
        marks.count == 0) {
        token_list_fini(&marks);
        return text;
    }
    symbol_id *tokens = calloc(marks.count, sizeof *tokens);
    for (size_t i = 0; tokens && i < marks.count; i++)
        tokens[i] = grammar_token(g->builder, marks.ids[i]);
    symbol_id mark = tokens ? grammar_choice(g->builder, tokens, marks.count) : GRAMMAR_NONE;
    const symbol_id mark_text[] = {mark, text};
    const symbol_id whole[] = {text, grammar_repeat(g->builder,
                                                    grammar_sequence(g->builder, mark_text, 2), 0,
                                                    GRAMMAR_UNBOUNDED)};
    free(tokens);
    token_list_fini(&marks);
    return tokens ? grammar_sequence(g->builder, whole, 2) : GRAMMAR_NONE;
}

symbol_id tool_grammar_auto(const struct tool_grammar *g, symbol_id content, symbol_id calls)
{
    bool marked = has_mark(g);
    symbol_id text = content != GRAMMAR_NONE ? content : free_text(g, marked);
    const symbol_id text_calls[] = {text, calls};
    const symbol_id either[] = {text, marked && content == GRAMMAR_NONE
                                          ? grammar_sequence(g->builder, text_calls, 2)
                                          : calls};
    return grammar_choice(g->builder, either, 2);
}
