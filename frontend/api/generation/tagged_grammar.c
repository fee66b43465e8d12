/*
 * A value's schema decides how it is written, as argument_type.h does when it is read: a string is
 * bare text, all other values are JSON. A value that may be a string or something else is bare text
 * too, if both are without further rules: whatever the text is, it is read as one of the types.
 */
#include "frontend/api/generation/tagged_grammar.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/json_schema_compile.h"
#include "frontend/grammar/regex_compile.h"
#include "frontend/reply/argument_type.h"

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static bool refuse(struct grammar_error *error, const char *name, const char *keyword,
                   const char *message)
{
    *error = (struct grammar_error){0};
    if (name)
        snprintf(error->pointer, sizeof error->pointer, "/properties/%.200s", name);
    snprintf(error->keyword, sizeof error->keyword, "%s", keyword);
    snprintf(error->message, sizeof error->message, "%s", message);
    return false;
}

/* --- JSON values ----------------------------------------------------------------------------- */

/* A member's schema by itself: with the definitions that it may refer to. */
static bool json_value_build(const struct tool_grammar *g, const cJSON *schema, const cJSON *part,
                             symbol_id *out, struct grammar_error *error)
{
    static const char *const definitions[] = {"$defs", "definitions"};
    const struct json_schema_options options = {.closed_objects = true,
                                                .blanks = TOOL_GRAMMAR_BLANKS};
    if (!cJSON_IsObject(part))
        return json_schema_compile(g->builder, part, &options, out, error);
    cJSON *whole = cJSON_CreateObject();
    bool good = whole != NULL;
    const cJSON *item;
    cJSON_ArrayForEach(item, part) good =
        good && cJSON_AddItemReferenceToObject(whole, item->string, (cJSON *)item);
    for (size_t i = 0; i < 2; i++) {
        cJSON *list = (cJSON *)member(schema, definitions[i]);
        if (list && !member(part, definitions[i]))
            good = good && cJSON_AddItemReferenceToObject(whole, definitions[i], list);
    }
    good = good && json_schema_compile(g->builder, whole, &options, out, error);
    cJSON_Delete(whole);
    return good;
}

/* --- bare text ------------------------------------------------------------------------------- */

/* The texts of enum or const; GRAMMAR_NONE if one is no string. */
static regex_id constants_build(struct grammar_builder *builder, const cJSON *schema)
{
    const cJSON *list = member(schema, "enum"), *one = member(schema, "const");
    regex_id regex = grammar_regex_nothing(builder);
    for (const cJSON *item = list ? list->child : one; item; item = list ? item->next : NULL) {
        if (!cJSON_IsString(item))
            return GRAMMAR_NONE;
        regex = grammar_regex_or(
            builder, regex,
            grammar_regex_literal(builder, item->valuestring, strlen(item->valuestring)));
    }
    return regex;
}

/* The closing tag of a value: what follows %v in its pattern, without the last line break. */
static const char *value_end(const char *pattern, char *end, size_t room)
{
    const char *place = strstr(pattern, "%v") + 2;
    while (*place == '\n')
        place++;
    snprintf(end, room, "%s", place);
    size_t length = strlen(end);
    while (length > 0 && end[length - 1] == '\n')
        end[--length] = '\0';
    return end;
}

static bool text_build(const struct tool_grammar *g, const cJSON *schema, const char *name,
                       const char *pattern, symbol_id *out, struct grammar_error *error)
{
    static const char *const known[] = {"type",      "enum",      "const", "pattern",
                                        "minLength", "maxLength", NULL};
    struct grammar_builder *builder = g->builder;
    const struct code_point_range any = {0, 0x10ffff};
    char end[128];
    const char *const ends[] = {value_end(pattern, end, sizeof end), "</function>", "<parameter="};
    const char *other = tool_schema_keyword_other(schema, known);
    if (other)
        return refuse(error, name, other, "not supported for bare text in this model's calls");
    regex_id regex = grammar_text_without(builder, NULL, ends, sizeof ends / sizeof ends[0]);
    if (member(schema, "minLength") || member(schema, "maxLength"))
        regex = grammar_regex_and(
            builder, regex,
            grammar_regex_repeat(builder, grammar_regex_code_points(builder, &any, 1),
                                 tool_schema_bound(schema, "minLength", 0),
                                 tool_schema_bound(schema, "maxLength", GRAMMAR_UNBOUNDED)));
    if (member(schema, "enum") || member(schema, "const")) {
        regex_id constants = constants_build(builder, schema);
        if (constants == GRAMMAR_NONE)
            return refuse(error, name, "enum", "constants of several types are not supported");
        regex = grammar_regex_and(builder, regex, constants);
    }
    const char *search = cJSON_GetStringValue(member(schema, "pattern"));
    if (search) {
        const struct regex_options options = {.search = true};
        regex_id found = GRAMMAR_NONE;
        if (!regex_compile(builder, search, strlen(search), &options, &found, error))
            return grammar_builder_failed(builder) ? false
                                                   : refuse(error, name, "pattern", error->message);
        regex = grammar_regex_and(builder, regex, found);
    }
    *out = grammar_terminal(builder, regex);
    return true;
}

/* --- members --------------------------------------------------------------------------------- */

/* The tagged value with %k and %v replaced. */
static symbol_id tagged_build(const struct tool_grammar *g, const char *pattern, symbol_id name,
                              symbol_id value)
{
    const char *key = strstr(pattern, "%k"), *place = strstr(pattern, "%v");
    const symbol_id parts[] = {
        grammar_text_symbol(g->builder, &g->specials, pattern, (size_t)(key - pattern)), name,
        grammar_text_symbol(g->builder, &g->specials, key + 2, (size_t)(place - key - 2)), value,
        grammar_text_symbol(g->builder, &g->specials, place + 2, strlen(place + 2))};
    return grammar_sequence(g->builder, parts, 5);
}

symbol_id tagged_grammar_value(const struct tool_grammar *g, const char *name, symbol_id text)
{
    symbol_id key = grammar_text_symbol(g->builder, &g->specials, name, strlen(name));
    return tagged_build(g, tool_format_frame(g->format)->value, key, text);
}

static bool value_build(const struct tool_grammar *g, const cJSON *schema, const cJSON *tool,
                        const cJSON *part, symbol_id *out, struct grammar_error *error)
{
    const struct tool_frame *frame = tool_format_frame(g->format);
    static const char *const only_type[] = {"type", NULL};
    unsigned types = argument_type_find(tool, part->string);
    symbol_id value = GRAMMAR_NONE;
    bool is_text = types == ARGUMENT_STRING;
    bool is_plain = types == 0 || ((types & ARGUMENT_STRING) && !is_text &&
                                   (types & (ARGUMENT_OBJECT | ARGUMENT_ARRAY)) == 0 &&
                                   cJSON_IsArray(member(part, "type")));
    if (is_plain && tool_schema_keyword_other(part, only_type))
        return refuse(error, part->string, tool_schema_keyword_other(part, only_type),
                      "not supported for values of several types in this model's calls");
    if (!is_text && !is_plain && (types & ARGUMENT_STRING))
        return refuse(error, part->string, "type",
                      "values that are strings or something else are not supported in this "
                      "model's calls");
    if (is_plain)
        part = NULL;
    static const cJSON nothing = {.type = cJSON_Object};
    bool good = is_text || is_plain
                    ? text_build(g, part ? part : &nothing, part ? part->string : NULL,
                                 frame->value, &value, error)
                    : json_value_build(g, schema, part, &value, error);
    *out = value;
    return good;
}

/* Keys that stand in tags as they are. */
static bool is_key(const char *name)
{
    return name[0] && strlen(name) <= LIMIT_TOOL_NAME_BYTES && !strpbrk(name, "<>\"\n\r");
}

static bool is_identifier(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return length > 0 && !name[length] && !(name[0] >= '0' && name[0] <= '9');
}

/* An object with properties and required, all of which are among the properties. */
static bool object_check(const cJSON *schema, struct grammar_error *error)
{
    static const char *const known[] = {"type", "properties", "required", "additionalProperties",
                                        NULL};
    const cJSON *properties = member(schema, "properties"), *item;
    const char *type = cJSON_GetStringValue(member(schema, "type"));
    const char *other = tool_schema_keyword_other(schema, known);
    if (other)
        return refuse(error, NULL, other, "not supported in this model's calls");
    if ((type && strcmp(type, "object") != 0) || (properties && !cJSON_IsObject(properties)))
        return refuse(error, NULL, "type", "arguments are an object");
    cJSON_ArrayForEach(item, member(schema, "required"))
    {
        if (!cJSON_IsString(item) || !member(properties, item->valuestring))
            return refuse(error, NULL, "required", "a required member is not among the properties");
    }
    return true;
}

bool tagged_grammar_build(const struct tool_grammar *g, const cJSON *tool, const cJSON *schema,
                          symbol_id *out, struct grammar_error *error)
{
    const struct tool_frame *frame = tool_format_frame(g->format);
    const cJSON *properties = member(schema, "properties"), *part;
    if (!object_check(schema, error))
        return false;
    symbol_id *parts = calloc((size_t)cJSON_GetArraySize(properties) + 1, sizeof *parts);
    size_t count = 0;
    bool good = parts != NULL;
    cJSON_ArrayForEach(part, properties)
    {
        symbol_id value = GRAMMAR_NONE;
        if (good && !is_key(part->string))
            good = refuse(error, NULL, "properties", "a name cannot be written between tags");
        good = good && value_build(g, schema, tool, part, &value, error);
        if (!good)
            break;
        bool is_text = (argument_type_find(tool, part->string) & ARGUMENT_STRING) != 0 ||
                       argument_type_find(tool, part->string) == 0;
        const char *pattern = !is_text && frame->json_value ? frame->json_value : frame->value;
        parts[count] = tagged_build(
            g, pattern,
            grammar_text_symbol(g->builder, &g->specials, part->string, strlen(part->string)),
            value);
        if (!tool_schema_is_required(schema, part->string))
            parts[count] = grammar_optional(g->builder, parts[count]);
        count++;
    }
    if (good)
        *out = grammar_sequence(g->builder, parts, count);
    free(parts);
    return good;
}

bool keyword_grammar_build(const struct tool_grammar *g, const cJSON *schema, symbol_id *out,
                           struct grammar_error *error)
{
    struct grammar_builder *builder = g->builder;
    const cJSON *properties = member(schema, "properties"), *part;
    if (!object_check(schema, error))
        return false;
    size_t count = 0, most = (size_t)cJSON_GetArraySize(properties) + 1;
    symbol_id *pairs = calloc(most, sizeof *pairs);
    bool *required = calloc(most, sizeof *required);
    bool good = pairs && required;
    cJSON_ArrayForEach(part, properties)
    {
        symbol_id value = GRAMMAR_NONE;
        if (good && !is_identifier(part->string))
            good = refuse(error, NULL, "properties", "a name cannot be a keyword argument");
        good = good && json_value_build(g, schema, part, &value, error);
        if (!good)
            break;
        const symbol_id pair[] = {
            grammar_text_symbol(builder, NULL, part->string, strlen(part->string)),
            grammar_text_symbol(builder, NULL, "=", 1), value};
        pairs[count] = grammar_sequence(builder, pair, 3);
        required[count++] = tool_schema_is_required(schema, part->string);
    }
    if (good)
        *out = tool_member_list(builder, pairs, required, count, ", ");
    free(pairs);
    free(required);
    return good;
}

bool tagged_grammar_any(const struct tool_grammar *g, symbol_id *out, struct grammar_error *error)
{
    static const cJSON nothing = {.type = cJSON_Object};
    const char *pattern = tool_format_frame(g->format)->value;
    symbol_id value = GRAMMAR_NONE;
    if (!text_build(g, &nothing, NULL, pattern, &value, error))
        return false;
    symbol_id member_text = tagged_build(g, pattern, tool_any_name(g->builder), value);
    *out = grammar_repeat(g->builder, member_text, 0, GRAMMAR_UNBOUNDED);
    return true;
}

bool keyword_grammar_any(const struct tool_grammar *g, symbol_id *out, struct grammar_error *error)
{
    static const cJSON nothing = {.type = cJSON_Object};
    struct grammar_builder *builder = g->builder;
    symbol_id value = GRAMMAR_NONE;
    if (!json_value_build(g, &nothing, &nothing, &value, error))
        return false;
    const symbol_id pair[] = {tool_any_name(builder), grammar_text_symbol(builder, NULL, "=", 1),
                              value};
    *out = grammar_separated(builder, grammar_sequence(builder, pair, 3),
                             grammar_text_symbol(builder, NULL, ", ", 2), 0, GRAMMAR_UNBOUNDED);
    return true;
}
