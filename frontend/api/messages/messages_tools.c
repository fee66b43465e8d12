/*
 * Converts tools member by member; the client's schema is moved, not copied. chat_tools.c checks
 * the parts and names them in errors as this API does.
 */
#include "frontend/api/messages/messages_tools.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/chat/chat_tools.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/messages/messages_builtin_tools.h"

static const struct chat_tools_words words = {
    .list = "tools", .function = "", .parameters = "input_schema", .choice = "tool_choice"};

/* --- one tool -------------------------------------------------------------------------------- */

static bool is_empty(const cJSON *item)
{
    return cJSON_IsFalse(item) || ((cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child);
}

/* Whether the model itself may call the tool: no code runs here. */
static bool is_for_the_model(const cJSON *callers)
{
    if (!callers || is_empty(callers))
        return true;
    const cJSON *caller;
    cJSON_ArrayForEach(caller, callers)
    {
        if (cJSON_IsArray(callers) && cJSON_IsString(caller) &&
            strcmp(caller->valuestring, "direct") == 0)
            return true;
    }
    return false;
}

static enum result tool_check(cJSON *tool, int index, struct api_error *error)
{
    static const char *const promises[] = {"defer_loading", "input_examples"};
    char place[API_PARAM_BYTES];
    snprintf(place, sizeof place, "tools[%d]", index);
    if (!cJSON_IsObject(tool))
        return api_error_invalid(error, place, "a tool must be an object");
    enum result result = messages_builtin_tools_expand(tool, place, error);
    if (result != RESULT_OK)
        return result;
    const cJSON *type = request_fields_member(tool, "type");
    snprintf(place, sizeof place, "tools[%d].type", index);
    if (type && !cJSON_IsString(type))
        return api_error_invalid(error, place, "a tool's type must be a string");
    if (type && strcmp(type->valuestring, "custom") != 0)
        return api_error_invalid(error, place,
                                 "tools of type '%.40s' are not supported: 'custom' with an "
                                 "input_schema is, and bash, text_editor, memory and computer",
                                 type->valuestring);
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        const cJSON *item = request_fields_member(tool, promises[i]);
        snprintf(place, sizeof place, "tools[%d].%s", index, promises[i]);
        if (item && !is_empty(item))
            return api_error_invalid(error, place, "%s is not supported", promises[i]);
    }
    snprintf(place, sizeof place, "tools[%d].allowed_callers", index);
    if (!is_for_the_model(request_fields_member(tool, "allowed_callers")))
        return api_error_invalid(error, place, "allowed_callers must have 'direct'");
    const cJSON *strict = request_fields_member(tool, "strict");
    snprintf(place, sizeof place, "tools[%d].strict", index);
    if (strict && !cJSON_IsBool(strict))
        return api_error_invalid(error, place, "strict must be true or false");
    snprintf(place, sizeof place, "tools[%d].input_schema", index);
    if (!cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(tool, "input_schema")))
        return api_error_invalid(error, place, "a tool needs an object 'input_schema'");
    return RESULT_OK;
}

/* Moves a member, if it exists, to `to` under another name. */
static bool member_move(cJSON *from, const char *name, cJSON *to, const char *becomes)
{
    cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(from, name);
    if (!item || cJSON_AddItemToObject(to, becomes, item))
        return true;
    cJSON_Delete(item);
    return false;
}

/* {"type":"function","function":{"name","description","parameters"}} from `tool`. */
static cJSON *tool_turn_over(cJSON *tool)
{
    cJSON *turned = cJSON_CreateObject();
    cJSON *function = NULL;
    if (turned && cJSON_AddStringToObject(turned, "type", "function") &&
        (function = cJSON_AddObjectToObject(turned, "function")) &&
        member_move(tool, "name", function, "name") &&
        member_move(tool, "description", function, "description") &&
        member_move(tool, "input_schema", function, "parameters"))
        return turned;
    cJSON_Delete(turned);
    return NULL;
}

/* Replaces the body's `tools` by the converted list. */
static enum result tools_turn_over(cJSON *body, cJSON *tools, const cJSON **strict,
                                   struct api_error *error)
{
    if (!cJSON_IsArray(tools))
        return api_error_invalid(error, "tools", "tools must be a list");
    cJSON *turned = cJSON_CreateArray();
    enum result result = turned ? RESULT_OK : api_error_memory(error);
    int index = 0;
    for (cJSON *tool = tools->child; tool && result == RESULT_OK; tool = tool->next) {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tool, "name"));
        result = tool_check(tool, index++, error);
        if (result == RESULT_OK && name &&
            cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(tool, "strict")))
            result = chat_tools_note(body, "strict tools", name, strict, error);
        if (result != RESULT_OK)
            break;
        cJSON *one = tool_turn_over(tool);
        if (!one || !cJSON_AddItemToArray(turned, one)) {
            cJSON_Delete(one);
            result = api_error_memory(error);
        }
    }
    if (result == RESULT_OK && !cJSON_ReplaceItemInObjectCaseSensitive(body, "tools", turned))
        result = api_error_memory(error);
    if (result != RESULT_OK)
        cJSON_Delete(turned);
    return result;
}

/* --- the choice ------------------------------------------------------------------------------ */

static const struct {
    const char *type;
    enum tool_choice choice;
} choices[] = {
    {"auto", TOOL_CHOICE_AUTO},
    {"any", TOOL_CHOICE_REQUIRED},
    {"tool", TOOL_CHOICE_NAMED},
    {"none", TOOL_CHOICE_NONE},
};

static enum result choice_read(const cJSON *body, struct chat_tools_choice *choice, bool *single,
                               struct api_error *error)
{
    *choice = (struct chat_tools_choice){.choice = TOOL_CHOICE_AUTO};
    *single = false;
    const cJSON *item = request_fields_member(body, "tool_choice");
    if (!item)
        return RESULT_OK;
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(item, "type");
    size_t i = 0;
    while (cJSON_IsString(type) && i < sizeof choices / sizeof choices[0] &&
           strcmp(choices[i].type, type->valuestring) != 0)
        i++;
    if (!cJSON_IsString(type) || i == sizeof choices / sizeof choices[0])
        return api_error_invalid(
            error, "tool_choice",
            "tool_choice must be an object whose type is auto, any, tool or none");
    choice->choice = choices[i].choice;
    const cJSON *named = cJSON_GetObjectItemCaseSensitive(item, "name");
    if (choice->choice == TOOL_CHOICE_NAMED && !cJSON_IsString(named))
        return api_error_invalid(error, "tool_choice.name",
                                 "tool_choice of type tool needs a string 'name'");
    if (choice->choice == TOOL_CHOICE_NAMED)
        choice->name = named->valuestring;
    return request_fields_read_bool(item, "disable_parallel_tool_use",
                                    "tool_choice.disable_parallel_tool_use", single, error);
}

enum result messages_tools_read(cJSON *body, struct generation_request *request,
                                struct api_error *error)
{
    struct chat_tools_choice choice;
    cJSON *tools = cJSON_GetObjectItemCaseSensitive(body, "tools");
    enum result result = choice_read(body, &choice, &request->single_tool_call, error);
    if (cJSON_IsNull(tools))
        tools = NULL;
    if (result == RESULT_OK && tools) {
        result = tools_turn_over(body, tools, &request->strict_tools, error);
        tools = cJSON_GetObjectItemCaseSensitive(body, "tools");
        if (result == RESULT_OK)
            result = chat_tools_normalize(tools, &words, error);
    }
    if (result == RESULT_OK)
        result = chat_tools_choose(tools, &choice, &words, request, error);
    return result;
}
