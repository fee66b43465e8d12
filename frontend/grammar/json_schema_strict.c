/*
 * OpenAI's rules for strict schemas: the root is an object and no anyOf; every object names all its
 * properties as required and allows no others; at most 5,000 properties, 10 levels, 1,000 enum values
 * and 120,000 characters in names, enum values and constants; none of the keywords below.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/grammar/json_schema_parts.h"
#include "proto/limits.h"

#define STRICT_PROPERTIES  5000u
#define STRICT_LEVELS      10u
#define STRICT_ENUM_VALUES 1000u
#define STRICT_CHARACTERS  120000u

struct strict_tally {
    struct schema_compiler *compiler;
    uint32_t properties, enum_values;
    size_t characters;
};

static bool refuse(struct strict_tally *tally, const cJSON *schema, const char *keyword,
                   const char *reason)
{
    return schema_refuse(tally->compiler, schema, keyword, reason);
}

static bool keywords_check(struct strict_tally *tally, const cJSON *schema)
{
    static const char *const REFUSED[] = {"allOf",
                                          "oneOf",
                                          "not",
                                          "if",
                                          "then",
                                          "else",
                                          "dependentRequired",
                                          "dependentSchemas",
                                          "dependencies",
                                          "patternProperties",
                                          "propertyNames",
                                          "unevaluatedProperties",
                                          "unevaluatedItems",
                                          "contains",
                                          "minContains",
                                          "maxContains",
                                          "uniqueItems",
                                          "minProperties",
                                          "maxProperties"};
    for (size_t i = 0; i < sizeof(REFUSED) / sizeof(REFUSED[0]); i++) {
        if (schema_member(schema, REFUSED[i]))
            return refuse(tally, schema, REFUSED[i], "strict schemas do not have this keyword");
    }
    return true;
}

static bool is_required(const cJSON *required, const char *name)
{
    for (const cJSON *one = cJSON_IsArray(required) ? required->child : NULL; one;
         one = one->next) {
        if (cJSON_IsString(one) && strcmp(one->valuestring, name) == 0)
            return true;
    }
    return false;
}

static bool object_check(struct strict_tally *tally, const cJSON *schema)
{
    const cJSON *properties = schema_member(schema, "properties");
    const cJSON *type = schema_member(schema, "type");
    bool object = properties || (cJSON_IsString(type) && strcmp(type->valuestring, "object") == 0);
    if (!object)
        return true;
    if (!cJSON_IsFalse(schema_member(schema, "additionalProperties")))
        return refuse(tally, schema, "additionalProperties",
                      "a strict schema has additionalProperties: false in every object");
    if (properties && !cJSON_IsObject(properties))
        return refuse(tally, schema, "properties", "its value has the wrong type");
    const cJSON *required = schema_member(schema, "required");
    for (const cJSON *member = properties ? properties->child : NULL; member;
         member = member->next) {
        if (!schema_spend(tally->compiler, 8 + tally->properties % 256))
            return false;
        tally->characters += strlen(member->string);
        if (++tally->properties > STRICT_PROPERTIES)
            return refuse(tally, schema, "properties",
                          "a strict schema has at most 5000 properties");
        if (!is_required(required, member->string))
            return refuse(tally, schema, "required",
                          "a strict schema requires every property; one that may be absent is "
                          "written as a union with null");
    }
    return true;
}

static bool values_check(struct strict_tally *tally, const cJSON *schema)
{
    const cJSON *values = schema_member(schema, "enum");
    const cJSON *constant = schema_member(schema, "const");
    for (const cJSON *value = cJSON_IsArray(values) ? values->child : NULL; value;
         value = value->next) {
        tally->enum_values++;
        tally->characters += cJSON_IsString(value) ? strlen(value->valuestring) : 0;
    }
    tally->characters += cJSON_IsString(constant) ? strlen(constant->valuestring) : 0;
    if (tally->enum_values > STRICT_ENUM_VALUES)
        return refuse(tally, schema, "enum", "a strict schema has at most 1000 enum values");
    if (tally->characters > STRICT_CHARACTERS)
        return refuse(tally, schema, "",
                      "a strict schema has at most 120000 characters of names and values");
    return true;
}

static bool schema_check(struct strict_tally *tally, const cJSON *schema, uint32_t level);

static bool list_check(struct strict_tally *tally, const cJSON *list, uint32_t level)
{
    for (const cJSON *part = list ? list->child : NULL; part; part = part->next) {
        if (!schema_check(tally, part, level))
            return false;
    }
    return true;
}

/* `level`: objects around this one. */
static bool schema_check(struct strict_tally *tally, const cJSON *schema, uint32_t level)
{
    if (!cJSON_IsObject(schema))
        return true;
    const cJSON *items = schema_member(schema, "items");
    const cJSON *properties = schema_member(schema, "properties");
    if (level > STRICT_LEVELS)
        return refuse(tally, schema, "properties", "a strict schema has at most 10 levels");
    return keywords_check(tally, schema) && object_check(tally, schema) &&
           values_check(tally, schema) && list_check(tally, properties, level + 1) &&
           list_check(tally, schema_member(schema, "anyOf"), level) &&
           list_check(tally, schema_member(schema, "$defs"), level) &&
           list_check(tally, schema_member(schema, "definitions"), level) &&
           (!items || schema_check(tally, items, level));
}

bool schema_check_strict(struct schema_compiler *compiler, const cJSON *schema)
{
    struct strict_tally tally = {.compiler = compiler};
    const cJSON *type = schema_member(schema, "type");
    if (!cJSON_IsObject(schema) || schema_member(schema, "anyOf"))
        return refuse(&tally, schema, "anyOf", "the root of a strict schema is an object");
    if (!schema_member(schema, "$ref") &&
        !(cJSON_IsString(type) && strcmp(type->valuestring, "object") == 0))
        return refuse(&tally, schema, "type", "the root of a strict schema is an object");
    return schema_check(&tally, schema, 0);
}
