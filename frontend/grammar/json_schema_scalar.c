/*
 * Keywords about one string, one number or a size: each is one atom, and so is its opposite.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "frontend/grammar/json_number_regex.h"
#include "frontend/grammar/json_schema_parts.h"
#include "frontend/grammar/regex_compile.h"

bool schema_types_read(struct schema_compiler *compiler, const cJSON *schema, const cJSON *value,
                       uint32_t *types, bool *integer)
{
    static const struct {
        const char *name;
        uint32_t types;
    } NAMES[] = {{"null", TYPE_NULL},     {"boolean", TYPE_TRUE | TYPE_FALSE},
                 {"number", TYPE_NUMBER}, {"integer", TYPE_NUMBER},
                 {"string", TYPE_STRING}, {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT}};
    bool number = false;
    *types = 0;
    *integer = false;
    const cJSON *one = cJSON_IsArray(value) ? value->child : value;
    for (; one; one = cJSON_IsArray(value) ? one->next : NULL) {
        const char *text = cJSON_GetStringValue(one);
        uint32_t found = 0;
        for (size_t i = 0; text && i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
            if (strcmp(text, NAMES[i].name) == 0)
                found = NAMES[i].types;
        }
        if (!found)
            return schema_refuse(compiler, schema, "type", "an unknown type");
        *types |= found;
        number = number || strcmp(text, "number") == 0;
        *integer = *integer || strcmp(text, "integer") == 0;
    }
    *integer = *integer && !number;
    return true;
}

static bool wrong_type(struct schema_compiler *compiler, const cJSON *schema, const cJSON *value)
{
    return schema_refuse(compiler, schema, value->string, "its value has the wrong type");
}

regex_id schema_pattern(struct schema_compiler *compiler, const cJSON *schema, const char *keyword,
                        const char *pattern)
{
    static const struct regex_options options = {.search = true, .json_spelling = true};
    regex_id regex = GRAMMAR_NONE;
    struct grammar_error error = {0};
    uint32_t *kept = node_table_find(compiler, &compiler->regexes, pattern);
    if (compiler->failed || !kept || *kept)
        return compiler->failed || !kept ? GRAMMAR_NONE : *kept - 1;
    if (!regex_compile(compiler->builder, pattern, strlen(pattern), &options, &regex, &error)) {
        schema_refuse(compiler, schema, keyword,
                      grammar_builder_failed(compiler->builder)
                          ? grammar_builder_reason(compiler->builder)
                          : error.message);
        return GRAMMAR_NONE;
    }
    *kept = regex + 1;
    return regex;
}

/* All strings (or plain numbers) but these. */
static regex_id other(struct schema_compiler *compiler, regex_id all, regex_id regex)
{
    return grammar_regex_and(compiler->builder, all, grammar_regex_not(compiler->builder, regex));
}

/* A size as JSON Schema writes it: an integer, possibly 2.0. Larger ones than any text: unbounded. */
static bool size_read(struct schema_compiler *compiler, const cJSON *schema, const cJSON *value,
                      uint32_t *size)
{
    double number = cJSON_IsNumber(value) ? value->valuedouble : -1;
    if (number < 0 || floor(number) != number)
        return wrong_type(compiler, schema, value);
    *size = number >= 1e9 ? 1000000000u : (uint32_t)number;
    return true;
}

/* minX, maxX of lengths, items and properties. The opposite of "at least n" is "at most n - 1". */
static bool size_atom(struct schema_compiler *compiler, const cJSON *schema, const cJSON *value,
                      bool deny, struct schema_atom *atom, uint32_t *type)
{
    uint32_t size = 0;
    bool minimum = strncmp(value->string, "min", 3) == 0;
    const char *what = value->string + 3;
    if (!size_read(compiler, schema, value, &size))
        return false;
    if (deny && minimum && size == 0) { /* never violated */
        *type = TYPE_STRING;
        *atom = (struct schema_atom){.kind = ATOM_TYPES, .types = 0};
        return true;
    }
    if (deny)
        size = minimum ? size - 1 : size + 1;
    minimum = minimum != deny;
    atom->number = size;
    if (strcmp(what, "Length") == 0) {
        *type = TYPE_STRING;
        atom->kind = ATOM_STRING;
        atom->regex = grammar_regex_repeat(compiler->builder, compiler->character,
                                           minimum ? size : 0, minimum ? GRAMMAR_UNBOUNDED : size);
        return !(minimum && size == 0);
    }
    bool items = strcmp(what, "Items") == 0;
    *type = items ? TYPE_ARRAY : TYPE_OBJECT;
    if (items)
        atom->kind = minimum ? ATOM_MIN_ITEMS : ATOM_MAX_ITEMS;
    else
        atom->kind = minimum ? ATOM_MIN_MEMBERS : ATOM_MAX_MEMBERS;
    return true;
}

/* minimum and the others; in draft 4 the exclusive ones are booleans beside them. */
static bool bound_atom(struct schema_compiler *compiler, const cJSON *schema, const cJSON *value,
                       bool deny, struct schema_atom *atom)
{
    bool exclusive = strncmp(value->string, "exclusive", 9) == 0;
    bool minimum = strstr(value->string, "inimum") != NULL;
    if (exclusive && cJSON_IsBool(value)) {
        if (compiler->document.draft > 4 && cJSON_IsTrue(value))
            return schema_refuse(compiler, schema, value->string,
                                 "a boolean is draft 4's form; $schema names another draft");
        return false; /* read with its neighbour */
    }
    if (!cJSON_IsNumber(value))
        return wrong_type(compiler, schema, value);
    if (!exclusive && compiler->document.draft == 4)
        exclusive =
            cJSON_IsTrue(schema_member(schema, minimum ? "exclusiveMinimum" : "exclusiveMaximum"));
    enum number_relation relation = minimum ? (exclusive ? NUMBER_ABOVE : NUMBER_AT_LEAST)
                                            : (exclusive ? NUMBER_BELOW : NUMBER_AT_MOST);
    if (deny)
        relation = minimum ? (exclusive ? NUMBER_AT_MOST : NUMBER_BELOW)
                           : (exclusive ? NUMBER_AT_LEAST : NUMBER_ABOVE);
    atom->kind = ATOM_NUMBER;
    uint32_t *kept = node_table_find(compiler, &compiler->regexes, value);
    if (!kept)
        return false;
    if (deny || !*kept)
        atom->regex = json_number_compared(compiler->builder, relation, value->valuedouble);
    else
        atom->regex = *kept - 1;
    if (!deny)
        *kept = atom->regex + 1;
    return true;
}

static bool multiple_atom(struct schema_compiler *compiler, const cJSON *schema, const cJSON *value,
                          bool deny, struct schema_atom *atom)
{
    if (!cJSON_IsNumber(value) || value->valuedouble <= 0)
        return wrong_type(compiler, schema, value);
    if (!json_number_multiple(compiler->builder, value->valuedouble, &atom->regex))
        return schema_refuse(compiler, schema, "multipleOf", "this step is not supported");
    atom->kind = ATOM_NUMBER;
    if (deny)
        atom->regex = other(compiler, compiler->plain_number, atom->regex);
    return true;
}

static bool text_atom(struct schema_compiler *compiler, const cJSON *schema, const cJSON *value,
                      bool deny, struct schema_atom *atom)
{
    const char *text = cJSON_GetStringValue(value);
    bool known = true;
    if (!text)
        return wrong_type(compiler, schema, value);
    atom->kind = ATOM_STRING;
    if (strcmp(value->string, "format") == 0)
        atom->regex = schema_format(compiler, schema, text, &known);
    else
        atom->regex = schema_pattern(compiler, schema, value->string, text);
    if (known && deny)
        atom->regex = other(compiler, compiler->any_text, atom->regex);
    return known && !compiler->failed;
}

bool scalar_atom(struct schema_compiler *compiler, const cJSON *schema, const cJSON *value,
                 bool deny, struct schema_atom *atom, uint32_t *type)
{
    const char *name = value->string;
    *atom = (struct schema_atom){0};
    *type = TYPE_NUMBER;
    if (strcmp(name, "pattern") == 0 || strcmp(name, "format") == 0) {
        *type = TYPE_STRING;
        return text_atom(compiler, schema, value, deny, atom);
    }
    if (strcmp(name, "multipleOf") == 0)
        return multiple_atom(compiler, schema, value, deny, atom);
    if (strstr(name, "inimum") || strstr(name, "aximum"))
        return bound_atom(compiler, schema, value, deny, atom);
    return size_atom(compiler, schema, value, deny, atom, type);
}

bool schema_key_regex(struct schema_compiler *compiler, struct schema_literal literal,
                      regex_id *regex)
{
    struct literal_list list = {0};
    literal_list_add(compiler, &list, literal);
    *regex = grammar_regex_nothing(compiler->builder);
    const struct conjunct *conjunct = conjuncts_of(compiler, &list, 256);
    for (; conjunct; conjunct = conjunct->next) {
        if (!(conjunct->types & TYPE_STRING))
            continue;
        regex_id part = conjunct->string == GRAMMAR_NONE ? compiler->any_text : conjunct->string;
        *regex = grammar_regex_or(compiler->builder, *regex, part);
    }
    return !compiler->failed;
}
