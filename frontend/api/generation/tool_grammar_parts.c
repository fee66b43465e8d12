/*
 * Keywords of a tool's schema, for the notations that json_schema_compile.h does not write.
 */
#include "frontend/api/generation/tool_grammar_parts.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

const char *tool_schema_keyword_other(const cJSON *schema, const char *const *known)
{
    static const char *const annotations[] = {"title",    "description", "default",  "examples",
                                              "$comment", "deprecated",  "$schema",  "$id",
                                              "$defs",    "definitions", "readOnly", "writeOnly"};
    const cJSON *item;
    cJSON_ArrayForEach(item, schema)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof annotations / sizeof annotations[0] && !found; i++)
            found = strcmp(item->string, annotations[i]) == 0;
        for (size_t i = 0; known[i] && !found; i++)
            found = strcmp(item->string, known[i]) == 0;
        if (!found)
            return item->string;
    }
    return NULL;
}

uint32_t tool_schema_bound(const cJSON *schema, const char *name, uint32_t absent)
{
    const cJSON *item = member(schema, name);
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < GRAMMAR_UNBOUNDED
               ? (uint32_t)ceil(item->valuedouble)
               : absent;
}

bool tool_schema_is_required(const cJSON *schema, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, member(schema, "required"))
    {
        if (cJSON_IsString(item) && strcmp(item->valuestring, name) == 0)
            return true;
    }
    return false;
}

symbol_id tool_any_name(struct grammar_builder *builder)
{
    const struct code_point_range first[] = {{'A', 'Z'}, {'a', 'z'}, {'_', '_'}};
    const struct code_point_range later[] = {{'A', 'Z'}, {'a', 'z'}, {'_', '_'}, {'0', '9'}};
    regex_id rest =
        grammar_regex_repeat(builder, grammar_regex_code_points(builder, later, 4), 0, 63);
    return grammar_terminal(
        builder, grammar_regex_concat(builder, grammar_regex_code_points(builder, first, 3), rest));
}

/* Built from the end: `first` is the rest of the list if nothing was written yet, `later` if
 * something was. */
symbol_id tool_member_list(struct grammar_builder *builder, const symbol_id *members,
                           const bool *required, size_t count, const char *separator)
{
    symbol_id first = grammar_sequence(builder, NULL, 0), later = first;
    for (size_t i = count; i-- > 0;) {
        const symbol_id begun[] = {members[i], later};
        const symbol_id more[] = {grammar_text_symbol(builder, NULL, separator, strlen(separator)),
                                  members[i], later};
        symbol_id with_first = grammar_sequence(builder, begun, 2);
        symbol_id with_later = grammar_sequence(builder, more, 3);
        first = required[i] ? with_first
                            : grammar_choice(builder, (const symbol_id[]){with_first, first}, 2);
        later = required[i] ? with_later
                            : grammar_choice(builder, (const symbol_id[]){with_later, later}, 2);
    }
    return first;
}
