/*
 * Types for values that models write without any.
 *
 * Between XML tags `5` may be a number or a string; only the tool's schema decides. A schema comes
 * from a client: its references may be circular and its alternatives may multiply, so the walk has
 * a budget; parts beyond the budget count as absent.
 */
#include "frontend/reply/argument_type.h"

#include <cjson/cJSON.h>
#include <string.h>
#include <strings.h>

#include "frontend/reply/json_value_scanner.h"
#include "frontend/reply/literal_arguments.h"

#define SCHEMA_VISITS 256 /* parts of a schema that are visited for one argument */
#define SCHEMA_DEPTH  16

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

const cJSON *tool_list_find(const cJSON *tools, const char *name)
{
    const cJSON *tool;
    cJSON_ArrayForEach(tool, tools)
    {
        const cJSON *text = member(member(tool, "function"), "name");
        if (cJSON_IsString(text) && strcmp(text->valuestring, name) == 0)
            return tool;
    }
    return NULL;
}

static unsigned type_by_name(const cJSON *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {
        {"string", ARGUMENT_STRING},   {"integer", ARGUMENT_INTEGER}, {"number", ARGUMENT_NUMBER},
        {"boolean", ARGUMENT_BOOLEAN}, {"null", ARGUMENT_NULL},       {"object", ARGUMENT_OBJECT},
        {"array", ARGUMENT_ARRAY},
    };
    for (size_t i = 0; cJSON_IsString(name) && i < sizeof types / sizeof types[0]; i++) {
        if (strcasecmp(name->valuestring, types[i].name) == 0)
            return types[i].type;
    }
    return 0;
}

static unsigned type_of_value(const cJSON *value)
{
    return cJSON_IsString(value)   ? ARGUMENT_STRING
           : cJSON_IsNumber(value) ? ARGUMENT_NUMBER
           : cJSON_IsBool(value)   ? ARGUMENT_BOOLEAN
           : cJSON_IsNull(value)   ? ARGUMENT_NULL
           : cJSON_IsObject(value) ? ARGUMENT_OBJECT
                                   : ARGUMENT_ARRAY;
}

/* "#/$defs/Name" within the tool's parameters. */
static const cJSON *reference_follow(const cJSON *root, const cJSON *reference)
{
    if (!cJSON_IsString(reference) || strncmp(reference->valuestring, "#/", 2) != 0)
        return NULL;
    const cJSON *at = root;
    for (const char *step = reference->valuestring + 2; at && step;) {
        char name[128];
        size_t length = strcspn(step, "/");
        if (length >= sizeof name)
            return NULL;
        memcpy(name, step, length);
        name[length] = '\0';
        at = member(at, name);
        step = step[length] ? step + length + 1 : NULL;
    }
    return at;
}

static unsigned schema_types(const cJSON *root, const cJSON *schema, int depth, int *visits)
{
    static const char *const alternatives[] = {"anyOf", "oneOf", "allOf"};
    if (!cJSON_IsObject(schema) || depth == 0 || (*visits)-- <= 0)
        return 0;
    const cJSON *type = member(schema, "type"), *part;
    unsigned types = type_by_name(type);
    if (cJSON_IsArray(type)) {
        cJSON_ArrayForEach(part, type) types |= type_by_name(part);
    }
    if (!type) {
        cJSON_ArrayForEach(part, member(schema, "enum")) types |= type_of_value(part);
        part = member(schema, "const");
        types |= part ? type_of_value(part) : 0;
    }
    types |= schema_types(root, reference_follow(root, member(schema, "$ref")), depth - 1, visits);
    for (size_t i = 0; i < sizeof alternatives / sizeof alternatives[0]; i++) {
        cJSON_ArrayForEach(part, member(schema, alternatives[i])) types |=
            schema_types(root, part, depth - 1, visits);
    }
    return types;
}

unsigned argument_type_find(const cJSON *tool, const char *argument)
{
    const cJSON *root = member(member(tool, "function"), "parameters");
    int visits = SCHEMA_VISITS;
    return schema_types(root, member(member(root, "properties"), argument), SCHEMA_DEPTH, &visits);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Whether JSON text is a value of one of the types; 0 stands for all. */
static bool json_is_of(unsigned types, const struct text_buffer *json)
{
    switch (json->bytes[0]) {
    case '"': return types == 0; /* quotes are part of a string */
    case '{': return types == 0 || (types & ARGUMENT_OBJECT) != 0;
    case '[': return types == 0 || (types & ARGUMENT_ARRAY) != 0;
    case 't':
    case 'f': return types == 0 || (types & ARGUMENT_BOOLEAN) != 0;
    case 'n': return types == 0 || (types & ARGUMENT_NULL) != 0;
    default: break;
    }
    if (types == 0 || (types & ARGUMENT_NUMBER) != 0)
        return true;
    return (types & ARGUMENT_INTEGER) != 0 && strcspn(json->bytes, ".eE") == json->length;
}

void argument_type_write(unsigned types, const char *text, size_t length, struct text_buffer *out)
{
    static const struct {
        const char *python;
        const char *json;
        unsigned type;
    } words[] = {
        {"true", "true", ARGUMENT_BOOLEAN},
        {"false", "false", ARGUMENT_BOOLEAN},
        {"null", "null", ARGUMENT_NULL},
        {"none", "null", ARGUMENT_NULL},
    };
    const char *begin = text, *end = text + length;
    while (begin < end && is_blank(*begin))
        begin++;
    while (end > begin && is_blank(end[-1]))
        end--;
    size_t inner = (size_t)(end - begin);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if ((types & words[i].type) != 0 && inner == strlen(words[i].python) &&
            strncasecmp(begin, words[i].python, inner) == 0) {
            text_buffer_append_text(out, words[i].json);
            return;
        }
    }
    struct text_buffer json = {0};
    bool fits = types != ARGUMENT_STRING && inner > 0 &&
                json_value_scanner_read(begin, inner, &json) && !json.failed &&
                json_is_of(types, &json);
    if (!fits && inner > 0 && (types & (ARGUMENT_OBJECT | ARGUMENT_ARRAY)) != 0) {
        text_buffer_clear(&json);
        fits = literal_arguments_read_python(begin, inner, &json) && !json.failed &&
               json_is_of(types, &json);
    }
    if (fits)
        text_buffer_append(out, json.bytes, json.length);
    else
        text_buffer_append_json_string(out, text, length);
    text_buffer_fini(&json);
}
