/*
 * Passes over the list: tools that cannot run here are taken out, the rest is printed for the
 * reply, then every tool becomes a function of a new list. Names of grammars, labels and strict
 * tools are members of the body, like the lists that chat_tools.c makes.
 */
#include "frontend/api/responses/responses_tools.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_tools.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/responses/response_calls.h"
#include "proto/limits.h"

#define FUNCTIONS "tools"
#define INPUTS    "tool inputs"
#define IGNORED   "ignored tools"

static const struct chat_tools_words words = {
    .list = FUNCTIONS, .function = "", .parameters = "parameters", .choice = "tool_choice"};

/* Beginnings of types: dated ones such as web_search_2025_08_26 have more. */
static const char *const hosted[] = {
    "web_search", "file_search", "code_interpreter", "image_generation",
    "mcp",        "computer",    "tool_search",      "programmatic_tool_calling"};

struct tools_reader {
    cJSON *body;
    cJSON *functions; /* the new list */
    struct generation_request *request;
    struct api_error *error;
};

static const char *text_of(const cJSON *object, const char *member)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, member));
}

static bool is_hosted(const char *type)
{
    for (size_t i = 0; type && i < sizeof hosted / sizeof hosted[0]; i++) {
        if (strncmp(type, hosted[i], strlen(hosted[i])) == 0)
            return true;
    }
    return false;
}

/* A `shell` of a container is its provider's. */
static bool cannot_run(const cJSON *tool)
{
    const char *type = text_of(tool, "type");
    const char *place = text_of(cJSON_GetObjectItemCaseSensitive(tool, "environment"), "type");
    return is_hosted(type) ||
           (type && strcmp(type, "shell") == 0 && place && strcmp(place, "local") != 0);
}

/* A member of the body that is an object or a list, made if it is missing. The client's own member
 * of that name is dropped first (tools_read()). */
static cJSON *table_open(cJSON *body, const char *name, cJSON *(*create)(void))
{
    cJSON *table = cJSON_GetObjectItemCaseSensitive(body, name);
    if (table)
        return table;
    table = create();
    if (table && cJSON_AddItemToObject(body, name, table))
        return table;
    cJSON_Delete(table);
    return NULL;
}

/* --- one tool -------------------------------------------------------------------------------- */

/* The flattened name as a string of the body's table of labels. */
static enum result label_add(struct tools_reader *reader, enum response_call_kind kind,
                             const char *namespace, const char *name, const char *flat)
{
    struct text_buffer label = {0};
    cJSON *labels = table_open(reader->body, RESPONSES_TOOL_LABELS, cJSON_CreateObject);
    response_call_label_write(kind, namespace, name, &label);
    bool good = labels && !label.failed && cJSON_AddStringToObject(labels, flat, label.bytes);
    text_buffer_fini(&label);
    return good ? RESULT_OK : api_error_memory(reader->error);
}

/* Adds {"type":"function","function":{"name","description","parameters"}}; takes `parameters`. */
static enum result function_add(struct tools_reader *reader, const char *name,
                                const char *description, cJSON *parameters)
{
    cJSON *tool = cJSON_CreateObject();
    cJSON *function = NULL;
    bool good = tool && cJSON_AddItemToArray(reader->functions, tool);
    if (!good)
        cJSON_Delete(tool);
    good = good && cJSON_AddStringToObject(tool, "type", "function");
    function = good ? cJSON_AddObjectToObject(tool, "function") : NULL;
    good = function && (!name || cJSON_AddStringToObject(function, "name", name)) &&
           (!description || cJSON_AddStringToObject(function, "description", description));
    if (good && parameters) {
        good = cJSON_AddItemToObject(function, "parameters", parameters);
        parameters = good ? NULL : parameters;
    }
    cJSON_Delete(parameters);
    return good ? RESULT_OK : api_error_memory(reader->error);
}

/* The format of a custom tool: text, or a grammar, which goes into the table of inputs. */
static enum result format_read(struct tools_reader *reader, const cJSON *tool, const char *place,
                               const char *flat)
{
    char where[API_PARAM_BYTES];
    const cJSON *format = request_fields_member(tool, "format");
    const char *type = text_of(format, "type");
    snprintf(where, sizeof where, "%s.format", place);
    if (!format || (type && strcmp(type, "text") == 0))
        return RESULT_OK;
    if (!type || strcmp(type, "grammar") != 0)
        return api_error_invalid(reader->error, where, "format must be of type text or grammar");
    const char *syntax = text_of(format, "syntax"), *definition = text_of(format, "definition");
    if (!syntax || (strcmp(syntax, "lark") != 0 && strcmp(syntax, "regex") != 0) || !definition ||
        strlen(definition) > LIMIT_TOOL_SCHEMA_BYTES)
        return api_error_invalid(reader->error, where,
                                 "a grammar needs a syntax (lark or regex) and a definition of at "
                                 "most %u bytes",
                                 LIMIT_TOOL_SCHEMA_BYTES);
    cJSON *inputs = table_open(reader->body, INPUTS, cJSON_CreateObject);
    cJSON *input = inputs ? cJSON_AddObjectToObject(inputs, flat) : NULL;
    reader->request->tool_inputs = inputs;
    return input && cJSON_AddStringToObject(input, "syntax", syntax) &&
                   cJSON_AddStringToObject(input, "definition", definition)
               ? RESULT_OK
               : api_error_memory(reader->error);
}

/* What the model reads about a custom tool. */
static void custom_describe(const cJSON *tool, const char *before, struct text_buffer *out)
{
    const cJSON *format = request_fields_member(tool, "format");
    const char *description = text_of(tool, "description");
    const char *definition = text_of(format, "definition");
    text_buffer_append_text(out, before ? before : "");
    text_buffer_append_text(out, before && description ? "\n" : "");
    text_buffer_append_text(out, description ? description : "");
    if (definition)
        text_buffer_append_format(out, "%sThe input is a text of this %s grammar:\n%s",
                                  out->length > 0 ? "\n" : "", text_of(format, "syntax"),
                                  definition);
}

static bool strict_is_good(const cJSON *tool)
{
    const cJSON *strict = request_fields_member(tool, "strict");
    return !strict || cJSON_IsBool(strict);
}

/* A function or a custom tool. `before`: comes first in its description; or NULL. */
static enum result named_add(struct tools_reader *reader, cJSON *tool, const char *place,
                             const char *namespace, const char *before)
{
    static const char custom_parameters[] =
        "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"
        "\"required\":[\"input\"],\"additionalProperties\":false}";
    bool is_custom = strcmp(text_of(tool, "type"), "custom") == 0;
    const char *name = text_of(tool, "name"), *description = text_of(tool, "description");
    const cJSON *given = request_fields_member(tool, "description");
    char where[API_PARAM_BYTES];
    struct text_buffer flat = {0}, text = {0};
    snprintf(where, sizeof where, "%s.%s", place, name ? "description" : "name");
    if (!name || !name[0] || (given && !description))
        return api_error_invalid(reader->error, where, "a tool's %s must be a string",
                                 name ? "description" : "name");
    if (!is_custom && !strict_is_good(tool))
        return api_error_invalid(reader->error, "tools", "strict must be true or false");
    response_call_flat_name(namespace, name, &flat);
    if (is_custom)
        custom_describe(tool, before, &text);
    else if (before)
        text_buffer_append_format(&text, "%s%s%s", before, description ? "\n" : "",
                                  description ? description : "");
    enum result result = flat.failed || text.failed ? api_error_memory(reader->error) : RESULT_OK;
    if (result == RESULT_OK && (is_custom || namespace))
        result = label_add(reader, is_custom ? RESPONSE_CALL_CUSTOM : RESPONSE_CALL_FUNCTION,
                           namespace, name, flat.bytes);
    if (result == RESULT_OK && is_custom)
        result = format_read(reader, tool, place, flat.bytes);
    if (result == RESULT_OK && !is_custom &&
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(tool, "strict")))
        result = chat_tools_note(reader->body, "strict tools", flat.bytes,
                                 &reader->request->strict_tools, reader->error);
    if (result == RESULT_OK)
        result =
            function_add(reader, flat.bytes, text.length > 0 ? text.bytes : description,
                         is_custom ? cJSON_Parse(custom_parameters)
                                   : cJSON_DetachItemFromObjectCaseSensitive(tool, "parameters"));
    text_buffer_fini(&flat);
    text_buffer_fini(&text);
    return result;
}

static enum result namespace_add(struct tools_reader *reader, cJSON *tool, const char *place)
{
    const char *name = text_of(tool, "name");
    const char *before = text_of(tool, "description");
    cJSON *list = cJSON_GetObjectItemCaseSensitive(tool, "tools"), *inner;
    int index = 0;
    if (!name || !name[0] || !cJSON_IsArray(list))
        return api_error_invalid(reader->error, place,
                                 "a namespace needs a string 'name' and a list 'tools'");
    cJSON_ArrayForEach(inner, list)
    {
        char where[API_PARAM_BYTES];
        const char *type = text_of(inner, "type");
        snprintf(where, sizeof where, "%s.tools[%d]", place, index++);
        if (!type || (strcmp(type, "function") != 0 && strcmp(type, "custom") != 0))
            return api_error_invalid(reader->error, where,
                                     "a namespace has tools of type function or custom");
        enum result result = named_add(reader, inner, where, name, before);
        before = NULL; /* once is enough */
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

static enum result tool_add(struct tools_reader *reader, cJSON *tool, const char *place)
{
    const char *type = text_of(tool, "type");
    char where[API_PARAM_BYTES];
    snprintf(where, sizeof where, "%s.type", place);
    if (!cJSON_IsObject(tool))
        return api_error_invalid(reader->error, place, "a tool must be an object");
    if (!type)
        return api_error_invalid(reader->error, where, "a tool needs a string 'type'");
    if (strcmp(type, "function") == 0 || strcmp(type, "custom") == 0)
        return named_add(reader, tool, place, NULL, NULL);
    if (strcmp(type, "namespace") == 0)
        return namespace_add(reader, tool, place);
    const struct response_client_tool *own = response_client_tool_find(type);
    if (!own)
        return api_error_invalid(reader->error, where, "tools of type '%.40s' are not supported",
                                 type);
    enum result result = label_add(reader, own->kind, NULL, own->type, own->type);
    return result == RESULT_OK
               ? function_add(reader, own->type, own->description, cJSON_Parse(own->parameters))
               : result;
}

/* --- the list -------------------------------------------------------------------------------- */

/* Takes out the tools that cannot run here; request->ignored_tools are their types. */
static enum result ignored_take(struct tools_reader *reader, cJSON *tools)
{
    struct text_buffer types = {0};
    cJSON *next;
    for (cJSON *tool = tools->child; tool; tool = next) {
        next = tool->next;
        if (!cannot_run(tool))
            continue;
        const char *type = text_of(tool, "type");
        size_t safe = strspn(type, "abcdefghijklmnopqrstuvwxyz0123456789_-");
        text_buffer_append_text(&types, types.length > 0 ? ", " : "");
        text_buffer_append(&types, type, safe < 40 ? safe : 40);
        cJSON_Delete(cJSON_DetachItemViaPointer(tools, tool));
    }
    enum result result = RESULT_OK;
    if (types.length > 0) {
        cJSON *names = cJSON_AddStringToObject(reader->body, IGNORED, types.bytes);
        reader->request->ignored_tools = cJSON_GetStringValue(names);
        result = names ? RESULT_OK : api_error_memory(reader->error);
    }
    text_buffer_fini(&types);
    return result;
}

/* The list as the reply shows it: the client's, with strict in each function. */
static enum result tools_show(cJSON *tools, char **shown, struct api_error *error)
{
    cJSON *tool;
    cJSON_ArrayForEach(tool, tools)
    {
        const char *type = text_of(tool, "type");
        bool is_strict = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(tool, "strict"));
        if (!type || strcmp(type, "function") != 0 || !strict_is_good(tool))
            continue; /* refused later */
        cJSON_DeleteItemFromObjectCaseSensitive(tool, "strict");
        if (!cJSON_AddBoolToObject(tool, "strict", is_strict))
            return api_error_memory(error);
    }
    *shown = cJSON_PrintUnformatted(tools);
    return *shown ? RESULT_OK : api_error_memory(error);
}

/* Replaces the client's list in the body. */
static enum result list_read(struct tools_reader *reader, cJSON *tools,
                             struct responses_tools_shown *shown)
{
    char place[64];
    int index = 0;
    cJSON *tool;
    enum result result = ignored_take(reader, tools);
    if (result == RESULT_OK)
        result = tools_show(tools, &shown->tools, reader->error);
    reader->functions = cJSON_CreateArray();
    if (!reader->functions)
        return api_error_memory(reader->error);
    cJSON_ArrayForEach(tool, tools)
    {
        snprintf(place, sizeof place, "%s[%d]", FUNCTIONS, index++);
        if (result == RESULT_OK && (unsigned)index > LIMIT_TOOLS)
            result = api_error_invalid(reader->error, FUNCTIONS, "more than %u tools", LIMIT_TOOLS);
        if (result == RESULT_OK)
            result = tool_add(reader, tool, place);
    }
    if (result == RESULT_OK)
        result = chat_tools_normalize(reader->functions, &words, reader->error);
    cJSON_DeleteItemFromObjectCaseSensitive(reader->body, FUNCTIONS);
    if (cJSON_AddItemToObject(reader->body, FUNCTIONS, reader->functions))
        return result;
    cJSON_Delete(reader->functions);
    return api_error_memory(reader->error);
}

/* --- the choice ------------------------------------------------------------------------------ */

/* {"type", "name", "namespace"} of any tool becomes {"type": "function", "name"}. False: out of
 * memory. */
static bool choice_flatten(cJSON *choice)
{
    const char *type = text_of(choice, "type"), *name = text_of(choice, "name");
    bool is_client = type && response_client_tool_find(type) != NULL;
    bool is_named = type && name && (strcmp(type, "function") == 0 || strcmp(type, "custom") == 0);
    struct text_buffer flat = {0};
    if (!is_client && !is_named)
        return true; /* refused later */
    response_call_flat_name(is_client ? NULL : text_of(choice, "namespace"),
                            is_client ? type : name, &flat);
    cJSON_DeleteItemFromObjectCaseSensitive(choice, "type");
    cJSON_DeleteItemFromObjectCaseSensitive(choice, "name");
    bool good = !flat.failed && cJSON_AddStringToObject(choice, "type", "function") &&
                cJSON_AddStringToObject(choice, "name", flat.bytes);
    text_buffer_fini(&flat);
    return good;
}

static enum result choice_read(struct tools_reader *reader, struct responses_tools_shown *shown)
{
    cJSON *choice = cJSON_GetObjectItemCaseSensitive(reader->body, "tool_choice");
    const char *type = text_of(choice, "type");
    if (!cJSON_IsObject(choice) || !type)
        return RESULT_OK;
    if (is_hosted(type))
        return api_error_invalid(reader->error, "tool_choice",
                                 "tools of type '%.40s' cannot run on this server", type);
    shown->choice = cJSON_PrintUnformatted(choice);
    bool good = shown->choice != NULL;
    if (strcmp(type, "allowed_tools") != 0)
        return good && choice_flatten(choice) ? RESULT_OK : api_error_memory(reader->error);
    cJSON *tools = cJSON_GetObjectItemCaseSensitive(choice, "tools"), *next;
    for (cJSON *tool = cJSON_IsArray(tools) ? tools->child : NULL; tool && good; tool = next) {
        next = tool->next;
        if (is_hosted(text_of(tool, "type")))
            cJSON_Delete(cJSON_DetachItemViaPointer(tools, tool));
        else
            good = choice_flatten(tool);
    }
    return good ? RESULT_OK : api_error_memory(reader->error);
}

enum result responses_tools_read(cJSON *body, struct generation_request *request,
                                 struct responses_tools_shown *shown, struct api_error *error)
{
    static const char *const own[] = {RESPONSES_TOOL_LABELS, INPUTS, IGNORED};
    struct tools_reader reader = {.body = body, .request = request, .error = error};
    struct chat_tools_choice choice;
    bool parallel;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(body, own[i]);
    cJSON *tools = cJSON_GetObjectItemCaseSensitive(body, FUNCTIONS);
    if (tools && cJSON_IsNull(tools))
        tools = NULL;
    if (tools && !cJSON_IsArray(tools))
        return api_error_invalid(error, FUNCTIONS, "tools must be a list");
    enum result result = tools ? list_read(&reader, tools, shown) : RESULT_OK;
    if (result == RESULT_OK)
        result = choice_read(&reader, shown);
    if (result == RESULT_OK)
        result = chat_tools_choice_read(body, &words, &choice, error);
    if (result == RESULT_OK)
        result = chat_tools_choose(reader.functions, &choice, &words, request, error);
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "parallel_tool_calls", "parallel_tool_calls",
                                          &parallel, error);
    if (result == RESULT_OK)
        request->single_tool_call = request_fields_member(body, "parallel_tool_calls") && !parallel;
    return result;
}

void responses_tools_shown_fini(struct responses_tools_shown *shown)
{
    free(shown->tools);
    free(shown->choice);
    *shown = (struct responses_tools_shown){0};
}
