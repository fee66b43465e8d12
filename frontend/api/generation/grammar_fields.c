/*
 * A table of fields with their kinds. Values are checked for their JSON type only; what they mean
 * is read by the compilers of frontend/grammar.
 */
#include "frontend/api/generation/grammar_fields.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"
#include "frontend/base/json_text.h"

/* What a field's value may be. */
enum value_type {
    VALUE_JSON, /* JSON, or a string with JSON in it */
    VALUE_STRING,
    VALUE_LIST,
    VALUE_FLAG /* true */
};

static const struct grammar_field {
    const char *object; /* the object that holds it; NULL: the body */
    const char *name;
    const char *param;
    enum grammar_kind kind;
    enum value_type type;
} fields[] = {
    {"structured_outputs", "json", "structured_outputs.json", GRAMMAR_JSON_SCHEMA, VALUE_JSON},
    {"structured_outputs", "regex", "structured_outputs.regex", GRAMMAR_REGEX, VALUE_STRING},
    {"structured_outputs", "choice", "structured_outputs.choice", GRAMMAR_CHOICE, VALUE_LIST},
    {"structured_outputs", "grammar", "structured_outputs.grammar", GRAMMAR_GBNF, VALUE_STRING},
    {"structured_outputs", "json_object", "structured_outputs.json_object", GRAMMAR_JSON_OBJECT,
     VALUE_FLAG},
    {"structured_outputs", "structural_tag", "structured_outputs.structural_tag",
     GRAMMAR_STRUCTURAL_TAG, VALUE_JSON},
    {NULL, "guided_json", "guided_json", GRAMMAR_JSON_SCHEMA, VALUE_JSON},
    {NULL, "guided_regex", "guided_regex", GRAMMAR_REGEX, VALUE_STRING},
    {NULL, "guided_choice", "guided_choice", GRAMMAR_CHOICE, VALUE_LIST},
    {NULL, "guided_grammar", "guided_grammar", GRAMMAR_GBNF, VALUE_STRING},
    {NULL, "grammar", "grammar", GRAMMAR_GBNF, VALUE_STRING},
    {NULL, "json_schema", "json_schema", GRAMMAR_JSON_SCHEMA, VALUE_JSON},
    {NULL, "regex", "regex", GRAMMAR_REGEX, VALUE_STRING},
    {NULL, "ebnf", "ebnf", GRAMMAR_GBNF, VALUE_STRING},
};

static enum result form_set(struct generation_request *request, enum grammar_kind kind,
                            const cJSON *value, const char *param, struct api_error *error)
{
    if (request->form_param)
        return api_error_invalid(error, param, "%s and %s cannot be combined", param,
                                 request->form_param);
    request->form.kind = kind;
    request->form.value = value;
    request->form_param = param;
    return RESULT_OK;
}

/* A value that came as a string, parsed and added to the body. */
static enum result json_parse(cJSON *body, const cJSON *text, const char *param,
                              const cJSON **value, struct api_error *error)
{
    struct json_problem problem;
    size_t bytes = strlen(text->valuestring);
    if (!json_text_check(text->valuestring, bytes, LIMIT_BODY_DEPTH, &problem))
        return api_error_invalid(error, param, "%s is not valid JSON: %s (byte %zu)", param,
                                 problem.reason, problem.offset);
    cJSON *parsed = cJSON_ParseWithLength(text->valuestring, bytes);
    const char *twice = parsed ? json_text_find_duplicate(parsed) : NULL;
    if (!twice && parsed && cJSON_AddItemToObject(body, param, parsed)) {
        *value = parsed;
        return RESULT_OK;
    }
    enum result result =
        twice ? api_error_invalid(error, param, "%s has two members '%.64s' in one object", param,
                                  twice)
              : api_error_memory(error);
    cJSON_Delete(parsed);
    return result;
}

static bool is_string_list(const cJSON *value)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, value)
    {
        if (!cJSON_IsString(item))
            return false;
    }
    return cJSON_IsArray(value) && value->child;
}

/* GBNF defines rules with ::=, Lark with a colon. */
static enum grammar_kind grammar_kind_of(enum grammar_kind kind, const cJSON *value)
{
    return kind == GRAMMAR_GBNF && !strstr(value->valuestring, "::=") ? GRAMMAR_LARK : kind;
}

static enum result field_read(cJSON *body, const struct grammar_field *field, const cJSON *value,
                              struct generation_request *request, struct api_error *error)
{
    const char *param = field->param;
    if (field->type == VALUE_FLAG && cJSON_IsFalse(value))
        return RESULT_OK;
    if (field->type == VALUE_STRING && !cJSON_IsString(value))
        return api_error_invalid(error, param, "%s must be a string", param);
    if (field->type == VALUE_LIST && !is_string_list(value))
        return api_error_invalid(error, param, "%s must be a list of strings", param);
    if (field->type == VALUE_FLAG && !cJSON_IsTrue(value))
        return api_error_invalid(error, param, "%s must be true or false", param);
    if (field->type == VALUE_JSON && cJSON_IsString(value)) {
        enum result result = json_parse(body, value, param, &value, error);
        if (result != RESULT_OK)
            return result;
    }
    if (field->type == VALUE_JSON && !cJSON_IsObject(value) && !cJSON_IsBool(value))
        return api_error_invalid(error, param, "%s must be a JSON object", param);
    enum grammar_kind kind =
        field->type == VALUE_STRING ? grammar_kind_of(field->kind, value) : field->kind;
    return form_set(request, kind, value, param, error);
}

/* The other members of structured_outputs. */
static enum result structured_outputs_check(const cJSON *outputs, struct api_error *error)
{
    static const char *const others[] = {
        "disable_fallback", "disable_any_whitespace", "disable_additional_properties",
        "_backend",         "_backend_was_auto",      "backend"};
    const cJSON *item;
    if (!cJSON_IsObject(outputs))
        return api_error_invalid(error, "structured_outputs",
                                 "structured_outputs must be an object");
    cJSON_ArrayForEach(item, outputs)
    {
        bool known = cJSON_IsNull(item) || cJSON_IsFalse(item);
        for (size_t i = 0; i < sizeof fields / sizeof fields[0] && !known; i++)
            known = fields[i].object && strcmp(fields[i].name, item->string) == 0;
        /* Nothing falls back here, and backends do not differ; the other two would change the
         * language. */
        for (size_t i = 0; i < sizeof others / sizeof others[0] && !known; i++)
            known = strcmp(others[i], item->string) == 0 && i != 1 && i != 2;
        if (!known)
            return api_error_invalid(error, "structured_outputs",
                                     "structured_outputs.%.40s is not supported", item->string);
    }
    return RESULT_OK;
}

/* --- llama.cpp's lazy grammars --------------------------------------------------------------- */

/* {"type": 1, "value": "…"}: a word; 0: a token, by its text. */
static enum result trigger_add(cJSON *words, const cJSON *trigger, struct api_error *error)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(trigger, "type");
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(trigger, "value"));
    bool is_word = cJSON_IsNumber(type) && (type->valuedouble == 0 || type->valuedouble == 1);
    if (!is_word || !value || !value[0])
        return api_error_invalid(error, "grammar_triggers",
                                 "grammar_triggers must be a list of {\"type\": 1, \"value\": "
                                 "\"…\"}; patterns are not supported");
    if (!cJSON_AddItemToArray(words, cJSON_CreateString(value)))
        return api_error_memory(error);
    return RESULT_OK;
}

static enum result triggers_read(cJSON *body, struct generation_request *request,
                                 struct api_error *error)
{
    bool lazy;
    const cJSON *triggers = request_fields_member(body, "grammar_triggers");
    enum result result =
        request_fields_read_bool(body, "grammar_lazy", "grammar_lazy", &lazy, error);
    if (result != RESULT_OK)
        return result;
    if (triggers && !cJSON_IsArray(triggers))
        return api_error_invalid(error, "grammar_triggers", "grammar_triggers must be a list");
    if (!lazy)
        return RESULT_OK;
    if (!request->form_param || strcmp(request->form_param, "grammar") != 0)
        return api_error_invalid(error, "grammar_lazy", "grammar_lazy needs a grammar");
    if (!triggers || !triggers->child)
        return api_error_invalid(error, "grammar_triggers",
                                 "grammar_lazy needs a list grammar_triggers");
    cJSON *words = cJSON_AddArrayToObject(body, "grammar_triggers.value");
    const cJSON *trigger;
    if (!words)
        return api_error_memory(error);
    cJSON_ArrayForEach(trigger, triggers)
    {
        if (result == RESULT_OK)
            result = trigger_add(words, trigger, error);
    }
    request->form.triggers = words;
    return result;
}

enum result grammar_fields_read(cJSON *body, struct generation_request *request,
                                struct api_error *error)
{
    static const char *const lacking[] = {"guided_whitespace_pattern", "structural_tag", NULL};
    const cJSON *outputs = request_fields_member(body, "structured_outputs");
    enum result result = request_fields_refuse(body, lacking, error);
    if (result == RESULT_OK && outputs)
        result = structured_outputs_check(outputs, error);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && result == RESULT_OK; i++) {
        const cJSON *object = fields[i].object ? outputs : body;
        const cJSON *value = object ? request_fields_member(object, fields[i].name) : NULL;
        if (value)
            result = field_read(body, &fields[i], value, request, error);
    }
    return result == RESULT_OK ? triggers_read(body, request, error) : result;
}

/* --- formats with a type --------------------------------------------------------------------- */

static enum result schema_format_read(const cJSON *format, const char *param,
                                      struct generation_request *request, struct api_error *error)
{
    const cJSON *inner = request_fields_member(format, "json_schema");
    const cJSON *holder = inner ? inner : format;
    const cJSON *schema = request_fields_member(holder, "schema");
    const cJSON *strict = request_fields_member(holder, "strict");
    const cJSON *name = request_fields_member(holder, "name");
    if (!cJSON_IsObject(holder) || (!cJSON_IsObject(schema) && !cJSON_IsBool(schema)))
        return api_error_invalid(error, param, "%s needs a JSON schema in 'schema'", param);
    if (name && !cJSON_IsString(name))
        return api_error_invalid(error, param, "%s: name must be a string", param);
    if (strict && !cJSON_IsBool(strict))
        return api_error_invalid(error, param, "%s: strict must be true or false", param);
    request->form.strict = cJSON_IsTrue(strict);
    return form_set(request, GRAMMAR_JSON_SCHEMA, schema, param, error);
}

enum result grammar_fields_read_format(const cJSON *format, const char *param,
                                       struct generation_request *request, struct api_error *error)
{
    if (!format)
        return RESULT_OK;
    const char *type = cJSON_GetStringValue(request_fields_member(format, "type"));
    if (!cJSON_IsObject(format) || !type)
        return api_error_invalid(error, param, "%s must be an object with a type", param);
    if (strcmp(type, "text") == 0)
        return RESULT_OK;
    if (strcmp(type, "json_schema") == 0 ||
        (strcmp(type, "json_object") == 0 && request_fields_member(format, "schema")))
        return schema_format_read(format, param, request, error);
    if (strcmp(type, "json_object") == 0)
        return form_set(request, GRAMMAR_JSON_OBJECT, NULL, param, error);
    if (strcmp(type, "structural_tag") == 0)
        return form_set(request, GRAMMAR_STRUCTURAL_TAG, format, param, error);
    return api_error_invalid(error, param,
                             "%s.type '%.40s' is not supported: text, json_object, json_schema and "
                             "structural_tag are",
                             param, type);
}
