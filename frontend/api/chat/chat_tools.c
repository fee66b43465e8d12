/*
 * Checks tools.
 *
 * A tool's name is used in prompts, in the marks of calls and in replies; its schema in templates
 * and in the parser of calls. So names have a restricted alphabet, and a schema is limited in depth
 * and size before other code reads it. The meaning of a schema is not checked here; its reader
 * (tool_call_parser.h) uses what it understands.
 *
 * Not supported: tools other than functions, which run on their provider's servers.
 */
#include "frontend/api/chat/chat_tools.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"

static const struct chat_tools_words chat_words = {
    .list = "tools", .function = ".function", .parameters = "parameters", .choice = "tool_choice"};

/* "tools[3].function.name" */
static const char *tool_place(char place[API_PARAM_BYTES], const struct chat_tools_words *words,
                              int index, const char *function, const char *member)
{
    snprintf(place, API_PARAM_BYTES, "%s[%d]%s%s%s", words->list, index, function,
             member[0] ? "." : "", member);
    return place;
}

static bool is_name(const char *name)
{
    size_t length = strlen(name);
    static const char *const alphabet =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:";
    return length >= 1 && length <= LIMIT_TOOL_OFFERED_NAME_BYTES &&
           strspn(name, alphabet) == length;
}

/* --- one tool -------------------------------------------------------------------------------- */

/* Adds the approximate size of the value as text to *bytes; false if it is nested too deeply. */
static bool schema_measure(const cJSON *value, uint32_t depth, size_t *bytes)
{
    if (depth > LIMIT_TOOL_DEPTH)
        return false;
    *bytes += 8 + (value->string ? strlen(value->string) : 0) +
              (cJSON_IsString(value) ? strlen(value->valuestring) : 0);
    for (const cJSON *child = value->child; child; child = child->next) {
        if (!schema_measure(child, depth + 1, bytes))
            return false;
    }
    return true;
}

static void nulls_drop(cJSON *object)
{
    cJSON *next;
    for (cJSON *item = object->child; item; item = next) {
        next = item->next;
        if (cJSON_IsNull(item))
            cJSON_Delete(cJSON_DetachItemViaPointer(object, item));
    }
}

static enum result parameters_normalize(cJSON *function, const char *place, struct api_error *error)
{
    cJSON *parameters = cJSON_GetObjectItemCaseSensitive(function, "parameters");
    if (!parameters) {
        parameters = cJSON_AddObjectToObject(function, "parameters");
        if (!parameters || !cJSON_AddStringToObject(parameters, "type", "object") ||
            !cJSON_AddObjectToObject(parameters, "properties"))
            return api_error_memory(error);
        return RESULT_OK;
    }
    if (!cJSON_IsObject(parameters))
        return api_error_invalid(error, place, "a tool's parameters must be a JSON schema object");
    size_t bytes = 0;
    if (!schema_measure(parameters, 1, &bytes))
        return api_error_invalid(error, place, "the schema is nested more than %u levels deep",
                                 LIMIT_TOOL_DEPTH);
    if (bytes > LIMIT_TOOL_SCHEMA_BYTES)
        return api_error_invalid(error, place, "the schema is larger than %u bytes",
                                 LIMIT_TOOL_SCHEMA_BYTES);
    return RESULT_OK;
}

static enum result function_normalize(cJSON *function, const struct chat_tools_words *words,
                                      int index, struct api_error *error)
{
    char place[API_PARAM_BYTES];
    nulls_drop(function);
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(function, "name");
    if (!cJSON_IsString(name) || !is_name(name->valuestring))
        return api_error_invalid(error, tool_place(place, words, index, words->function, "name"),
                                 "a tool needs a name of 1 to %u letters, digits, '_', '-', '.' "
                                 "and ':'",
                                 LIMIT_TOOL_OFFERED_NAME_BYTES);
    const cJSON *description = cJSON_GetObjectItemCaseSensitive(function, "description");
    if (description && !cJSON_IsString(description))
        return api_error_invalid(error,
                                 tool_place(place, words, index, words->function, "description"),
                                 "a tool's description must be a string");
    const cJSON *strict = cJSON_GetObjectItemCaseSensitive(function, "strict");
    if (strict && !cJSON_IsBool(strict))
        return api_error_invalid(error, tool_place(place, words, index, words->function, "strict"),
                                 "strict must be true or false");
    return parameters_normalize(
        function, tool_place(place, words, index, words->function, words->parameters), error);
}

static enum result tool_normalize(cJSON *tool, const struct chat_tools_words *words, int index,
                                  struct api_error *error)
{
    char place[API_PARAM_BYTES];
    if (!cJSON_IsObject(tool))
        return api_error_invalid(error, tool_place(place, words, index, "", ""),
                                 "a tool must be an object");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(tool, "type");
    if (!cJSON_IsString(type))
        return api_error_invalid(error, tool_place(place, words, index, "", "type"),
                                 "a tool needs a string 'type'");
    if (strcmp(type->valuestring, "function") != 0)
        return api_error_invalid(error, tool_place(place, words, index, "", "type"),
                                 "tools of type '%.40s' are not supported: only 'function' is",
                                 type->valuestring);
    cJSON *function = cJSON_GetObjectItemCaseSensitive(tool, "function");
    if (!cJSON_IsObject(function))
        return api_error_invalid(error, tool_place(place, words, index, words->function, ""),
                                 "a tool of type 'function' needs an object 'function'");
    return function_normalize(function, words, index, error);
}

/* --- the list -------------------------------------------------------------------------------- */

static const char *tool_name(const cJSON *tool)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(tool, "function"),
                                            "name")
        ->valuestring;
}

static cJSON *tool_find(cJSON *tools, const char *name)
{
    cJSON *tool;
    cJSON_ArrayForEach(tool, tools)
    {
        if (strcmp(tool_name(tool), name) == 0)
            return tool;
    }
    return NULL;
}

enum result chat_tools_normalize(cJSON *tools, const struct chat_tools_words *words,
                                 struct api_error *error)
{
    char place[API_PARAM_BYTES];
    if (!cJSON_IsArray(tools))
        return api_error_invalid(error, words->list, "%s must be a list", words->list);
    int index = 0;
    cJSON *tool;
    cJSON_ArrayForEach(tool, tools)
    {
        if ((unsigned)index >= LIMIT_TOOLS)
            return api_error_invalid(error, words->list, "more than %u tools", LIMIT_TOOLS);
        enum result result = tool_normalize(tool, words, index, error);
        if (result != RESULT_OK)
            return result;
        if (tool_find(tools, tool_name(tool)) != tool)
            return api_error_invalid(error,
                                     tool_place(place, words, index, words->function, "name"),
                                     "there are two tools of the name '%s'", tool_name(tool));
        index++;
    }
    return RESULT_OK;
}

enum result chat_tools_choose(cJSON *tools, const struct chat_tools_choice *choice,
                              const struct chat_tools_words *words,
                              struct generation_request *request, struct api_error *error)
{
    bool has_tools = tools && tools->child;
    bool is_named = choice->choice == TOOL_CHOICE_NAMED;
    const cJSON *item;
    if (!has_tools && (choice->choice == TOOL_CHOICE_REQUIRED || is_named || choice->allowed))
        return api_error_invalid(error, words->choice, "%s asks for a call, but %s has no tool",
                                 words->choice, words->list);
    if (is_named && !tool_find(tools, choice->name))
        return api_error_invalid(error, words->choice, "%s has no tool of the name '%.64s'",
                                 words->list, choice->name);
    cJSON_ArrayForEach(item, choice->allowed)
    {
        if (!tool_find(tools, item->valuestring))
            return api_error_invalid(error, words->choice, "%s has no tool of the name '%.64s'",
                                     words->list, item->valuestring);
    }
    request->tools = has_tools ? tools : NULL;
    request->tool_choice = choice->choice;
    request->tool_name = is_named ? choice->name : NULL;
    request->allowed_tools = choice->allowed;
    return RESULT_OK;
}

/* --- the fields of a chat body --------------------------------------------------------------- */

static const struct {
    const char *word;
    enum tool_choice choice;
} choice_words[] = {
    {"auto", TOOL_CHOICE_AUTO}, {"none", TOOL_CHOICE_NONE}, {"required", TOOL_CHOICE_REQUIRED}};

static bool choice_find(const char *word, enum tool_choice *choice)
{
    for (size_t i = 0; i < sizeof choice_words / sizeof choice_words[0]; i++) {
        if (strcmp(word, choice_words[i].word) == 0) {
            *choice = choice_words[i].choice;
            return true;
        }
    }
    return false;
}

/* Adds a name to a list in the body, which is made if it is NULL. */
enum result chat_tools_note(cJSON *body, const char *list, const char *name, const cJSON **names,
                            struct api_error *error)
{
    cJSON *all = *names ? cJSON_GetObjectItemCaseSensitive(body, list) : cJSON_CreateArray();
    cJSON *one = cJSON_CreateString(name);
    bool good = all && one;
    if (good && !*names) {
        cJSON_DeleteItemFromObjectCaseSensitive(body, list);
        good = cJSON_AddItemToObject(body, list, all);
    }
    *names = good ? all : NULL;
    if (good && cJSON_AddItemToArray(all, one))
        return RESULT_OK;
    cJSON_Delete(one);
    return api_error_memory(error);
}

static enum result choice_refuse(const struct chat_tools_words *words, struct api_error *error)
{
    return api_error_invalid(
        error, words->choice,
        words->function[0]
            ? "tool_choice must be 'none', 'auto', 'required', {\"type\": \"function\", "
              "\"function\": {\"name\": \"…\"}} with a tool's name, or of the type "
              "'allowed_tools'"
            : "tool_choice must be 'none', 'auto', 'required', {\"type\": \"function\", "
              "\"name\": \"…\"} with a tool's name, or of the type 'allowed_tools'");
}

/* The name in {"type": "function", …}; NULL: it has another shape. */
static const char *function_name(const cJSON *item, const struct chat_tools_words *words)
{
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "type"));
    const cJSON *holder =
        words->function[0] ? cJSON_GetObjectItemCaseSensitive(item, "function") : item;
    if (!type || strcmp(type, "function") != 0)
        return NULL;
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(holder, "name"));
}

/* {"type": "allowed_tools", "mode", "tools"}, the last two in a member `allowed_tools` in the chat
 * API. */
static enum result allowed_read(cJSON *body, const cJSON *item, struct chat_tools_choice *choice,
                                const struct chat_tools_words *words, struct api_error *error)
{
    const cJSON *holder =
        words->function[0] ? cJSON_GetObjectItemCaseSensitive(item, "allowed_tools") : item;
    const char *mode = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(holder, "mode"));
    const cJSON *tools = cJSON_GetObjectItemCaseSensitive(holder, "tools"), *tool;
    bool required = mode && strcmp(mode, "required") == 0;
    if ((!required && !(mode && strcmp(mode, "auto") == 0)) || !cJSON_IsArray(tools) ||
        !tools->child)
        return api_error_invalid(error, words->choice,
                                 "allowed_tools needs a mode ('auto' or 'required') and a list of "
                                 "tools");
    choice->choice = required ? TOOL_CHOICE_REQUIRED : TOOL_CHOICE_AUTO;
    cJSON_ArrayForEach(tool, tools)
    {
        const char *name = function_name(tool, words);
        if (!name)
            return choice_refuse(words, error);
        enum result result = chat_tools_note(body, "allowed tools", name, &choice->allowed, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

enum result chat_tools_choice_read(cJSON *body, const struct chat_tools_words *words,
                                   struct chat_tools_choice *choice, struct api_error *error)
{
    const cJSON *item = request_fields_member(body, "tool_choice");
    *choice = (struct chat_tools_choice){.choice = TOOL_CHOICE_AUTO};
    if (!item)
        return RESULT_OK;
    if (cJSON_IsString(item))
        return choice_find(item->valuestring, &choice->choice) ? RESULT_OK
                                                               : choice_refuse(words, error);
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "type"));
    if (type && strcmp(type, "allowed_tools") == 0)
        return allowed_read(body, item, choice, words, error);
    choice->choice = TOOL_CHOICE_NAMED;
    choice->name = function_name(item, words);
    return choice->name ? RESULT_OK : choice_refuse(words, error);
}

/* `tools` replaced them in 2023; replies in their shape are not written here. */
static enum result former_refuse(const cJSON *body, struct api_error *error)
{
    static const char *const names[][2] = {{"functions", "tools"},
                                           {"function_call", "tool_choice"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (request_fields_member(body, names[i][0]))
            return api_error_invalid(error, names[i][0], "%s is not supported: use %s", names[i][0],
                                     names[i][1]);
    }
    return RESULT_OK;
}

static enum result parallel_read(const cJSON *body, struct generation_request *request,
                                 struct api_error *error)
{
    static const char *const name = "parallel_tool_calls";
    bool parallel;
    enum result result = request_fields_read_bool(body, name, name, &parallel, error);
    request->single_tool_call = request_fields_member(body, name) && !parallel;
    return result;
}

/* The names of the tools whose function is strict. */
static enum result strict_read(cJSON *body, const cJSON *tools, struct generation_request *request,
                               struct api_error *error)
{
    const cJSON *tool;
    enum result result = RESULT_OK;
    cJSON_ArrayForEach(tool, tools)
    {
        const cJSON *function = cJSON_GetObjectItemCaseSensitive(tool, "function");
        if (result == RESULT_OK &&
            cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(function, "strict")))
            result = chat_tools_note(body, "strict tools", tool_name(tool), &request->strict_tools,
                                     error);
    }
    return result;
}

enum result chat_tools_read(cJSON *body, struct generation_request *request,
                            struct api_error *error)
{
    cJSON *tools = cJSON_GetObjectItemCaseSensitive(body, "tools");
    struct chat_tools_choice choice;
    enum result result = former_refuse(body, error);
    if (result == RESULT_OK && tools && !cJSON_IsNull(tools))
        result = chat_tools_normalize(tools, &chat_words, error);
    if (result == RESULT_OK)
        result = strict_read(body, tools, request, error);
    if (result == RESULT_OK)
        result = chat_tools_choice_read(body, &chat_words, &choice, error);
    if (result == RESULT_OK)
        result = parallel_read(body, request, error);
    if (result == RESULT_OK)
        result = chat_tools_choose(tools, &choice, &chat_words, request, error);
    return result;
}
