/*
 * One compiler for each kind. With triggers the answer is free text without them, or such text and
 * then a text of the grammar whose beginning is a trigger.
 */
#include "frontend/grammar/grammar_source.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/gbnf.h"
#include "frontend/grammar/json_schema_compile.h"
#include "frontend/grammar/lark.h"
#include "frontend/grammar/regex_compile.h"
#include "frontend/grammar/structural_tag.h"

static bool refuse(struct grammar_error *error, const char *message)
{
    snprintf(error->message, sizeof error->message, "%s", message);
    return false;
}

static bool schema_compile(struct grammar_builder *builder, const struct grammar_source *source,
                           symbol_id *out, struct grammar_error *error)
{
    const struct json_schema_options options = {
        .strict = source->strict, .closed_objects = true, .blanks = JSON_SCHEMA_BLANKS};
    return source->kind == GRAMMAR_JSON_SCHEMA
               ? json_schema_compile(builder, source->value, &options, out, error)
               : json_schema_compile_object(builder, &options, out, error);
}

static bool choice_compile(struct grammar_builder *builder, const cJSON *list, symbol_id *out,
                           struct grammar_error *error)
{
    int count = cJSON_GetArraySize(list), i = 0;
    if (!cJSON_IsArray(list) || count == 0)
        return refuse(error, "a list with at least one string is expected");
    regex_id *texts = calloc((size_t)count, sizeof *texts);
    if (!texts)
        return false;
    const cJSON *item;
    bool good = true;
    cJSON_ArrayForEach(item, list)
    {
        good = good && cJSON_IsString(item);
        if (good)
            texts[i++] =
                grammar_regex_literal(builder, item->valuestring, strlen(item->valuestring));
    }
    if (good)
        *out = grammar_terminal(builder, grammar_regex_or_of(builder, texts, (size_t)count));
    free(texts);
    return good || refuse(error, "a list of strings is expected");
}

static bool text_compile(struct grammar_builder *builder, const struct grammar_source *source,
                         const struct special_finder *specials, symbol_id *out,
                         struct grammar_error *error)
{
    const struct regex_options whole = {0};
    const char *text = cJSON_GetStringValue(source->value);
    regex_id regex = GRAMMAR_NONE;
    if (!text)
        return refuse(error, "a string is expected");
    if (source->kind == GRAMMAR_GBNF)
        return gbnf_compile(builder, text, strlen(text), specials, out, error);
    if (source->kind == GRAMMAR_LARK)
        return lark_compile(builder, text, strlen(text), specials, out, error);
    if (!regex_compile(builder, text, strlen(text), &whole, &regex, error))
        return false;
    *out = grammar_terminal(builder, regex);
    return true;
}

static bool plain_compile(struct grammar_builder *builder, const struct grammar_source *source,
                          const struct special_finder *specials, symbol_id *out,
                          struct grammar_error *error)
{
    switch (source->kind) {
    case GRAMMAR_FREE:
        *out = grammar_terminal(builder, grammar_regex_any_text(builder));
        return true;
    case GRAMMAR_JSON_OBJECT:
    case GRAMMAR_JSON_SCHEMA: return schema_compile(builder, source, out, error);
    case GRAMMAR_CHOICE: return choice_compile(builder, source->value, out, error);
    case GRAMMAR_STRUCTURAL_TAG:
        return structural_tag_compile(builder, source->value, specials, out, error);
    default: return text_compile(builder, source, specials, out, error);
    }
}

/* Free text, or free text and then a text of `grammar`. */
static symbol_id lazy_build(struct grammar_builder *builder, const cJSON *triggers,
                            const struct special_finder *specials, symbol_id grammar)
{
    int count = cJSON_GetArraySize(triggers), i = 0;
    const char **texts = calloc((size_t)count + 1, sizeof *texts);
    const cJSON *item;
    if (!texts)
        return GRAMMAR_NONE;
    cJSON_ArrayForEach(item, triggers) texts[i++] = item->valuestring;
    symbol_id free_text =
        grammar_terminal(builder, grammar_text_without(builder, specials, texts, (size_t)count));
    free(texts);
    const symbol_id parts[] = {free_text, grammar};
    const symbol_id either[] = {free_text, grammar_sequence(builder, parts, 2)};
    return grammar_choice(builder, either, 2);
}

bool grammar_source_compile(struct grammar_builder *builder, const struct grammar_source *source,
                            const struct special_finder *specials, symbol_id *out,
                            struct grammar_error *error)
{
    *error = (struct grammar_error){0};
    *out = GRAMMAR_NONE;
    if (!plain_compile(builder, source, specials, out, error))
        return false;
    if (source->triggers)
        *out = lazy_build(builder, source->triggers, specials, *out);
    return *out != GRAMMAR_NONE;
}

/* JSON text; lengths need not be written, since JSON values end themselves. */
static void value_write(const cJSON *value, struct text_buffer *out)
{
    char *text = value ? cJSON_PrintUnformatted(value) : NULL;
    out->failed = out->failed || (value && !text);
    text_buffer_append_text(out, text ? text : "-");
    free(text);
}

void grammar_source_write(const struct grammar_source *source, struct text_buffer *out)
{
    text_buffer_append_format(out, "%d ", (int)source->kind);
    value_write(source->value, out);
    text_buffer_append_text(out, " ");
    value_write(source->triggers, out);
    text_buffer_append_text(out, source->strict ? " s" : " -");
}
