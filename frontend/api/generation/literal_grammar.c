/*
 * Strings stand between the format's quotes and nothing in them is escaped, so a string is any text
 * without the quote. Keys are bare words if they are plain, else strings. All else is as in JSON.
 *
 * A schema that is referred to becomes a rule, made before its content, so that schemas may refer
 * to themselves. The walk is bounded by LITERAL_DEPTH levels, references included, and by the
 * builder's fuel.
 */
#include "frontend/api/generation/literal_grammar.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/tagged_grammar.h"
#include "frontend/grammar/json_schema_compile.h"
#include "frontend/grammar/json_schema_document.h"
#include "frontend/grammar/regex_compile.h"

enum { LITERAL_DEPTH = 100, REFERENCES = 256, TYPES = 7 };

struct reference {
    const cJSON *target;
    symbol_id rule;
};

struct literal {
    const struct tool_grammar *g;
    struct grammar_builder *builder;
    struct schema_document document;
    char quote[64]; /* on both sides of a string */
    struct grammar_error *error;
    symbol_id any; /* any value; GRAMMAR_NONE: not made yet */
    struct reference references[REFERENCES];
    size_t reference_count;
    unsigned depth;
};

static bool value_build(struct literal *l, const cJSON *schema, symbol_id *out);
static bool object_build(struct literal *l, const cJSON *schema, bool braces, symbol_id *out);

static bool refuse(struct literal *l, const cJSON *schema, const char *keyword, const char *message)
{
    *l->error = (struct grammar_error){0};
    schema_document_pointer(&l->document, schema, l->error->pointer, sizeof l->error->pointer);
    snprintf(l->error->keyword, sizeof l->error->keyword, "%s", keyword);
    snprintf(l->error->message, sizeof l->error->message, "%s", message);
    return false;
}

static bool keywords_check(struct literal *l, const cJSON *schema, const char *const *known)
{
    const char *other = tool_schema_keyword_other(schema, known);
    return !other || refuse(l, schema, other, "not supported in this model's calls");
}

static symbol_id text_symbol(struct literal *l, const char *text)
{
    return grammar_text_symbol(l->builder, &l->g->specials, text, strlen(text));
}

static symbol_id quoted(struct literal *l, symbol_id content)
{
    const symbol_id parts[] = {text_symbol(l, l->quote), content, text_symbol(l, l->quote)};
    return grammar_sequence(l->builder, parts, 3);
}

/* Any text that does not end the string. */
static regex_id string_regex(struct literal *l)
{
    const char *const ends[] = {l->quote};
    return grammar_text_without(l->builder, NULL, ends, 1);
}

/* --- constants -------------------------------------------------------------------------------- */

static bool key_build(struct literal *l, const cJSON *schema, const char *name, symbol_id *out)
{
    size_t length = strlen(name);
    bool is_bare = length > 0 && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789_-.$") == length;
    if (length > LIMIT_TOOL_NAME_BYTES || strstr(name, l->quote))
        return refuse(l, schema, "properties", "a name cannot be written in this model's calls");
    *out = is_bare ? text_symbol(l, name)
                   : quoted(l, grammar_terminal(l->builder,
                                                grammar_regex_literal(l->builder, name, length)));
    return true;
}

static bool constant_build(struct literal *l, const cJSON *schema, const cJSON *value,
                           symbol_id *out)
{
    bool is_list = cJSON_IsArray(value);
    if (cJSON_IsString(value)) {
        if (strstr(value->valuestring, l->quote))
            return refuse(l, schema, "enum", "a text contains the mark that ends strings");
        regex_id text =
            grammar_regex_literal(l->builder, value->valuestring, strlen(value->valuestring));
        *out = quoted(l, grammar_terminal(l->builder, text));
        return true;
    }
    if (!is_list && !cJSON_IsObject(value)) {
        char *text = cJSON_PrintUnformatted(value);
        *out = text ? text_symbol(l, text) : GRAMMAR_NONE;
        cJSON_free(text);
        return text != NULL;
    }
    symbol_id whole = text_symbol(l, is_list ? "[" : "{");
    const cJSON *item;
    cJSON_ArrayForEach(item, value)
    {
        symbol_id key = GRAMMAR_NONE, part = GRAMMAR_NONE;
        if (!constant_build(l, schema, item, &part) ||
            (!is_list && !key_build(l, schema, item->string, &key)))
            return false;
        const symbol_id parts[] = {whole, text_symbol(l, item == value->child ? "" : ","),
                                   is_list ? part : key, text_symbol(l, is_list ? "" : ":"),
                                   is_list ? text_symbol(l, "") : part};
        whole = grammar_sequence(l->builder, parts, 5);
    }
    const symbol_id closed[] = {whole, text_symbol(l, is_list ? "]" : "}")};
    *out = grammar_sequence(l->builder, closed, 2);
    return true;
}

static bool has_type(const cJSON *value, const char *type)
{
    bool is_whole = cJSON_IsNumber(value) && value->valuedouble == floor(value->valuedouble);
    return (strcmp(type, "string") == 0 && cJSON_IsString(value)) ||
           (strcmp(type, "number") == 0 && cJSON_IsNumber(value)) ||
           (strcmp(type, "integer") == 0 && is_whole) ||
           (strcmp(type, "boolean") == 0 && cJSON_IsBool(value)) ||
           (strcmp(type, "null") == 0 && cJSON_IsNull(value)) ||
           (strcmp(type, "array") == 0 && cJSON_IsArray(value)) ||
           (strcmp(type, "object") == 0 && cJSON_IsObject(value));
}

static bool is_among_types(const cJSON *value, const cJSON *type)
{
    const cJSON *item;
    if (cJSON_IsString(type))
        return has_type(value, type->valuestring);
    cJSON_ArrayForEach(item, type)
    {
        if (cJSON_IsString(item) && has_type(value, item->valuestring))
            return true;
    }
    return !type;
}

static bool constants_build(struct literal *l, const cJSON *schema, symbol_id *out)
{
    static const char *const known[] = {"enum", "const", "type", NULL};
    const cJSON *list = schema_member(schema, "enum"), *one = schema_member(schema, "const");
    if (!keywords_check(l, schema, known))
        return false;
    if (list && one)
        return refuse(l, schema, "const", "not supported beside enum in this model's calls");
    if (list && !cJSON_IsArray(list))
        return refuse(l, schema, "enum", "it is not a list");
    symbol_id *choices = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *choices);
    size_t count = 0;
    bool good = choices != NULL;
    for (const cJSON *item = list ? list->child : one; item && good;
         item = list ? item->next : NULL) {
        if (is_among_types(item, schema_member(schema, "type")))
            good = constant_build(l, schema, item, &choices[count++]);
    }
    if (good)
        *out = grammar_choice(l->builder, choices, count);
    free(choices);
    return good;
}

/* --- values of one type ----------------------------------------------------------------------- */

static bool string_build(struct literal *l, const cJSON *schema, symbol_id *out)
{
    static const char *const known[] = {"type", "minLength", "maxLength", "pattern", NULL};
    const struct code_point_range any = {0, 0x10ffff};
    const cJSON *pattern = schema_member(schema, "pattern");
    if (!keywords_check(l, schema, known))
        return false;
    regex_id regex = string_regex(l);
    if (schema_member(schema, "minLength") || schema_member(schema, "maxLength"))
        regex = grammar_regex_and(
            l->builder, regex,
            grammar_regex_repeat(l->builder, grammar_regex_code_points(l->builder, &any, 1),
                                 tool_schema_bound(schema, "minLength", 0),
                                 tool_schema_bound(schema, "maxLength", GRAMMAR_UNBOUNDED)));
    if (cJSON_IsString(pattern)) {
        const struct regex_options options = {.search = true};
        regex_id found = GRAMMAR_NONE;
        if (!regex_compile(l->builder, pattern->valuestring, strlen(pattern->valuestring), &options,
                           &found, l->error)) {
            char message[sizeof l->error->message];
            memcpy(message, l->error->message, sizeof message);
            return grammar_builder_failed(l->builder) ? false
                                                      : refuse(l, schema, "pattern", message);
        }
        regex = grammar_regex_and(l->builder, regex, found);
    }
    *out = quoted(l, grammar_terminal(l->builder, regex));
    return true;
}

/* Numbers, booleans and null are spelled as in JSON. */
static bool scalar_build(struct literal *l, const cJSON *schema, const char *type, symbol_id *out)
{
    static const char *const known[] = {
        "type",       "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "format",  NULL};
    const struct json_schema_options options = {0};
    if (!keywords_check(l, schema, known))
        return false;
    cJSON *alone = cJSON_CreateObject();
    bool good = alone && cJSON_AddStringToObject(alone, "type", type);
    for (size_t i = 1; i < 6; i++) {
        cJSON *item = (cJSON *)schema_member(schema, known[i]);
        good = good && (!item || cJSON_AddItemReferenceToObject(alone, known[i], item));
    }
    struct grammar_error why = {0};
    good = good && json_schema_compile(l->builder, alone, &options, out, &why);
    cJSON_Delete(alone);
    if (good || grammar_builder_failed(l->builder))
        return good;
    return refuse(l, schema, why.keyword, why.message);
}

static bool array_build(struct literal *l, const cJSON *schema, symbol_id *out)
{
    static const char *const known[] = {"type", "items", "minItems", "maxItems", NULL};
    const cJSON *items = schema_member(schema, "items");
    symbol_id item = GRAMMAR_NONE;
    if (!keywords_check(l, schema, known))
        return false;
    if (cJSON_IsArray(items))
        return refuse(l, schema, "items", "lists are not supported in this model's calls");
    if (!value_build(l, items, &item))
        return false;
    uint32_t minimum = tool_schema_bound(schema, "minItems", 0);
    uint32_t maximum = tool_schema_bound(schema, "maxItems", GRAMMAR_UNBOUNDED);
    const symbol_id parts[] = {
        text_symbol(l, "["),
        grammar_separated(l->builder, item, text_symbol(l, ","), minimum, maximum),
        text_symbol(l, "]")};
    *out = grammar_sequence(l->builder, parts, 3);
    return true;
}

/* Members of any plain names. */
static bool map_build(struct literal *l, const cJSON *values, symbol_id *out)
{
    symbol_id value = GRAMMAR_NONE;
    if (!value_build(l, values, &value))
        return false;
    const symbol_id pair[] = {tool_any_name(l->builder), text_symbol(l, ":"), value};
    *out = grammar_separated(l->builder, grammar_sequence(l->builder, pair, 3), text_symbol(l, ","),
                             0, GRAMMAR_UNBOUNDED);
    return true;
}

static bool members_build(struct literal *l, const cJSON *schema, symbol_id *out)
{
    const cJSON *properties = schema_member(schema, "properties"), *part;
    size_t count = 0, most = (size_t)cJSON_GetArraySize(properties) + 1;
    symbol_id *pairs = calloc(most, sizeof *pairs);
    bool *required = calloc(most, sizeof *required);
    bool good = pairs && required;
    cJSON_ArrayForEach(part, properties)
    {
        symbol_id key = GRAMMAR_NONE, value = GRAMMAR_NONE;
        good = good && key_build(l, schema, part->string, &key) && value_build(l, part, &value);
        if (!good)
            break;
        const symbol_id pair[] = {key, text_symbol(l, ":"), value};
        pairs[count] = grammar_sequence(l->builder, pair, 3);
        required[count++] = tool_schema_is_required(schema, part->string);
    }
    if (good)
        *out = tool_member_list(l->builder, pairs, required, count, ",");
    free(pairs);
    free(required);
    return good;
}

static bool object_build(struct literal *l, const cJSON *schema, bool braces, symbol_id *out)
{
    static const char *const known[] = {"type", "properties", "required", "additionalProperties",
                                        NULL};
    const cJSON *properties = schema_member(schema, "properties"), *item;
    const cJSON *others = schema_member(schema, "additionalProperties");
    symbol_id members = GRAMMAR_NONE;
    if (!keywords_check(l, schema, known))
        return false;
    cJSON_ArrayForEach(item, schema_member(schema, "required"))
    {
        if (!cJSON_IsString(item) || !schema_member(properties, item->valuestring))
            return refuse(l, schema, "required", "a required member is not among the properties");
    }
    bool is_map = !(properties && properties->child) && !cJSON_IsFalse(others);
    if (!(is_map ? map_build(l, others, &members) : members_build(l, schema, &members)))
        return false;
    const symbol_id parts[] = {text_symbol(l, "{"), members, text_symbol(l, "}")};
    *out = braces ? grammar_sequence(l->builder, parts, 3) : members;
    return true;
}

static bool any_build(struct literal *l, symbol_id *out)
{
    static const char *const words[] = {"null", "true", "false"};
    symbol_id choices[7], members = GRAMMAR_NONE;
    if (l->any != GRAMMAR_NONE) {
        *out = l->any;
        return true;
    }
    *out = l->any = grammar_rule(l->builder);
    for (size_t i = 0; i < 3; i++)
        choices[i] = text_symbol(l, words[i]);
    choices[3] = quoted(l, grammar_terminal(l->builder, string_regex(l)));
    const symbol_id list[] = {
        text_symbol(l, "["),
        grammar_separated(l->builder, l->any, text_symbol(l, ","), 0, GRAMMAR_UNBOUNDED),
        text_symbol(l, "]")};
    choices[4] = grammar_sequence(l->builder, list, 3);
    if (!scalar_build(l, NULL, "number", &choices[5]) || !map_build(l, NULL, &members))
        return false;
    const symbol_id object[] = {text_symbol(l, "{"), members, text_symbol(l, "}")};
    choices[6] = grammar_sequence(l->builder, object, 3);
    symbol_id whole = grammar_choice(l->builder, choices, 7);
    grammar_production(l->builder, l->any, &whole, 1);
    return true;
}

/* --- values ----------------------------------------------------------------------------------- */

static bool typed_build(struct literal *l, const cJSON *schema, const char *type, symbol_id *out)
{
    if (strcmp(type, "string") == 0)
        return string_build(l, schema, out);
    if (strcmp(type, "array") == 0)
        return array_build(l, schema, out);
    if (strcmp(type, "object") == 0)
        return object_build(l, schema, true, out);
    if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0 ||
        strcmp(type, "boolean") == 0 || strcmp(type, "null") == 0)
        return scalar_build(l, schema, type, out);
    return refuse(l, schema, "type", "no type has this name");
}

/* A part of the schema for one of several types: its keywords without those of other types. */
static bool one_type_build(struct literal *l, const cJSON *schema, const char *type, symbol_id *out)
{
    static const char *const owners[][2] = {
        {"minLength", "string"},        {"maxLength", "string"},
        {"pattern", "string"},          {"items", "array"},
        {"minItems", "array"},          {"maxItems", "array"},
        {"properties", "object"},       {"required", "object"},
        {"minimum", "number"},          {"maximum", "number"},
        {"multipleOf", "number"},       {"exclusiveMinimum", "number"},
        {"exclusiveMaximum", "number"}, {"additionalProperties", "object"}};
    const char *owner = strcmp(type, "integer") == 0 ? "number" : type;
    cJSON *part = cJSON_CreateObject();
    bool good = part != NULL;
    const cJSON *item;
    cJSON_ArrayForEach(item, schema)
    {
        bool is_other = false;
        for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++)
            is_other |= strcmp(item->string, owners[i][0]) == 0 && strcmp(owner, owners[i][1]) != 0;
        if (!is_other)
            good = good && cJSON_AddItemReferenceToObject(part, item->string, (cJSON *)item);
    }
    good = good && typed_build(l, part, type, out);
    if (!good && !grammar_builder_failed(l->builder) && !l->error->pointer[0])
        schema_document_pointer(&l->document, schema, l->error->pointer, sizeof l->error->pointer);
    cJSON_Delete(part);
    return good;
}

static bool types_build(struct literal *l, const cJSON *schema, const cJSON *types, symbol_id *out)
{
    symbol_id choices[TYPES];
    size_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, types)
    {
        if (!cJSON_IsString(item) || count == TYPES)
            return refuse(l, schema, "type", "it is not a list of types");
        if (!one_type_build(l, schema, item->valuestring, &choices[count++]))
            return false;
    }
    *out = grammar_choice(l->builder, choices, count);
    return true;
}

/* Whether the branches have one type each, and no value is of two of them. */
static bool types_differ(const cJSON *branches)
{
    const cJSON *one, *other;
    cJSON_ArrayForEach(one, branches)
    {
        const char *type = cJSON_GetStringValue(schema_member(one, "type"));
        if (!type)
            return false;
        for (other = one->next; other; other = other->next) {
            const char *next = cJSON_GetStringValue(schema_member(other, "type"));
            bool both_numbers = next && strspn(type, "integrumb") == strlen(type) &&
                                strspn(next, "integrumb") == strlen(next);
            if (!next || strcmp(type, next) == 0 || both_numbers)
                return false;
        }
    }
    return true;
}

static bool branches_build(struct literal *l, const cJSON *schema, const char *keyword,
                           symbol_id *out)
{
    const char *const known[] = {keyword, NULL};
    const cJSON *branches = schema_member(schema, keyword), *branch;
    int most = cJSON_GetArraySize(branches);
    if (!keywords_check(l, schema, known))
        return false;
    if (!cJSON_IsArray(branches) || most == 0)
        return refuse(l, schema, keyword, "it is not a list of schemas");
    if (strcmp(keyword, "oneOf") == 0 && !types_differ(branches))
        return refuse(l, schema, keyword,
                      "only branches of different types are supported in this "
                      "model's calls");
    if (strcmp(keyword, "allOf") == 0 && most > 1)
        return refuse(l, schema, keyword, "only one schema is supported in this model's calls");
    symbol_id *choices = calloc((size_t)most, sizeof *choices);
    size_t count = 0;
    bool good = choices != NULL;
    cJSON_ArrayForEach(branch, branches) good = good && value_build(l, branch, &choices[count++]);
    if (good)
        *out = grammar_choice(l->builder, choices, count);
    free(choices);
    return good;
}

static bool reference_build(struct literal *l, const cJSON *schema, symbol_id *out)
{
    static const char *const known[] = {"$ref", NULL};
    const char *reference = cJSON_GetStringValue(schema_member(schema, "$ref"));
    const cJSON *target =
        reference ? schema_document_follow(&l->document, schema, reference) : NULL;
    symbol_id value = GRAMMAR_NONE;
    if (!keywords_check(l, schema, known))
        return false;
    if (!target)
        return refuse(l, schema, "$ref", "it is not in this schema");
    for (size_t i = 0; i < l->reference_count; i++) {
        if (l->references[i].target == target) {
            *out = l->references[i].rule;
            return true;
        }
    }
    if (l->reference_count == REFERENCES)
        return refuse(l, schema, "$ref", "there are too many schemas in this model's calls");
    *out = grammar_rule(l->builder);
    l->references[l->reference_count++] = (struct reference){target, *out};
    if (!value_build(l, target, &value))
        return false;
    grammar_production(l->builder, *out, &value, 1);
    return true;
}

/* Without a type, the keywords tell which values are meant. */
static const char *type_guess(const cJSON *schema)
{
    static const char *const guesses[][2] = {{"properties", "object"},
                                             {"required", "object"},
                                             {"additionalProperties", "object"},
                                             {"items", "array"},
                                             {"minItems", "array"},
                                             {"maxItems", "array"},
                                             {"pattern", "string"},
                                             {"minLength", "string"},
                                             {"maxLength", "string"},
                                             {"minimum", "number"},
                                             {"maximum", "number"},
                                             {"multipleOf", "number"},
                                             {"exclusiveMinimum", "number"},
                                             {"exclusiveMaximum", "number"}};
    for (size_t i = 0; i < sizeof guesses / sizeof guesses[0]; i++) {
        if (schema_member(schema, guesses[i][0]))
            return guesses[i][1];
    }
    return NULL;
}

static bool schema_build(struct literal *l, const cJSON *schema, symbol_id *out)
{
    static const char *const branches[] = {"anyOf", "oneOf", "allOf"}, *const none[] = {NULL};
    const cJSON *type = schema_member(schema, "type");
    if (!schema || cJSON_IsTrue(schema))
        return any_build(l, out);
    if (cJSON_IsFalse(schema)) {
        *out = grammar_rule(l->builder); /* without productions: nothing */
        return true;
    }
    if (!cJSON_IsObject(schema))
        return refuse(l, schema, "", "it is not a schema");
    if (schema_member(schema, "$ref"))
        return reference_build(l, schema, out);
    if (schema_member(schema, "enum") || schema_member(schema, "const"))
        return constants_build(l, schema, out);
    for (size_t i = 0; i < 3; i++) {
        if (schema_member(schema, branches[i]))
            return branches_build(l, schema, branches[i], out);
    }
    if (cJSON_IsArray(type))
        return types_build(l, schema, type, out);
    const char *name = type ? cJSON_GetStringValue(type) : type_guess(schema);
    if (type && !name)
        return refuse(l, schema, "type", "it is not a type");
    return name ? typed_build(l, schema, name, out)
                : keywords_check(l, schema, none) && any_build(l, out);
}

static bool value_build(struct literal *l, const cJSON *schema, symbol_id *out)
{
    if (!grammar_builder_spend(l->builder, 100))
        return false;
    if (++l->depth > LITERAL_DEPTH)
        return refuse(l, NULL, "", "the schema is nested too deeply");
    bool good = schema_build(l, schema, out);
    l->depth--;
    return good;
}

/* --- arguments -------------------------------------------------------------------------------- */

static bool literal_open(struct literal *l, const struct tool_grammar *g, const cJSON *schema,
                         struct grammar_error *error)
{
    const char *value = tool_format_frame(g->format)->value;
    *l = (struct literal){.g = g, .builder = g->builder, .error = error, .any = GRAMMAR_NONE};
    snprintf(l->quote, sizeof l->quote, "%.*s", (int)strcspn(value, "%"), value);
    return schema_document_open(&l->document, schema) == SCHEMA_DOCUMENT_OK ||
           refuse(l, NULL, "", "the schema is nested too deeply");
}

bool literal_grammar_build(const struct tool_grammar *g, const cJSON *schema, symbol_id *out,
                           struct grammar_error *error)
{
    struct literal literal;
    const char *type = cJSON_GetStringValue(schema_member(schema, "type"));
    bool good = literal_open(&literal, g, schema, error);
    if (good && type && strcmp(type, "object") != 0)
        good = refuse(&literal, schema, "type", "arguments are an object");
    good = good && object_build(&literal, schema, false, out);
    schema_document_close(&literal.document);
    return good;
}

bool literal_grammar_any(const struct tool_grammar *g, symbol_id *out, struct grammar_error *error)
{
    static const cJSON nothing = {.type = cJSON_Object};
    struct literal literal;
    bool good = literal_open(&literal, g, &nothing, error) && map_build(&literal, NULL, out);
    schema_document_close(&literal.document);
    return good;
}

symbol_id literal_grammar_text(const struct tool_grammar *g, const char *name, symbol_id text)
{
    const char *value = tool_format_frame(g->format)->value;
    size_t quote = strcspn(value, "%");
    const symbol_id parts[] = {grammar_text_symbol(g->builder, NULL, name, strlen(name)),
                               grammar_text_symbol(g->builder, NULL, ":", 1),
                               grammar_text_symbol(g->builder, &g->specials, value, quote), text,
                               grammar_text_symbol(g->builder, &g->specials, value, quote)};
    return grammar_sequence(g->builder, parts, 5);
}
