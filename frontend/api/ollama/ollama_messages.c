/*
 * Differences: roles in any case, images beside the text, `thinking`, and calls without ids: they
 * get numbers in their order, and each result, which names its function, gets the number of the
 * first call of that name that has no result yet.
 */
#include "frontend/api/ollama/ollama_messages.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"

static bool rename_member(cJSON *object, const char *from, const char *to)
{
    cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(object, from);
    return !item || cJSON_AddItemToObject(object, to, item);
}

/* --- images ---------------------------------------------------------------------------------- */

/* {"type": "image", "source": {"type": "base64", "data": …}}; takes over `data`. */
static bool image_add(cJSON *parts, cJSON *data)
{
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "type", "image");
    cJSON *source = cJSON_AddObjectToObject(part, "source");
    cJSON_AddStringToObject(source, "type", "base64");
    if (!cJSON_AddItemToObject(source, "data", data)) {
        cJSON_Delete(data);
        cJSON_Delete(part);
        return false;
    }
    return cJSON_AddItemToArray(parts, part);
}

enum result ollama_messages_take_images(cJSON *owner, cJSON *message, const char *place,
                                        struct api_error *error)
{
    cJSON *images = cJSON_DetachItemFromObjectCaseSensitive(owner, "images");
    enum result result = RESULT_OK;
    if (!images || cJSON_IsNull(images) || (cJSON_IsArray(images) && !images->child)) {
        cJSON_Delete(images);
        return RESULT_OK;
    }
    cJSON *parts = cJSON_CreateArray();
    cJSON *text = cJSON_DetachItemFromObjectCaseSensitive(message, "content");
    bool good = cJSON_IsArray(images) && (!text || cJSON_IsString(text) || cJSON_IsNull(text));
    while (good && images->child) {
        cJSON *data = cJSON_DetachItemViaPointer(images, images->child);
        good = cJSON_IsString(data);
        if (!good)
            cJSON_Delete(data);
        else if (!image_add(parts, data))
            result = api_error_memory(error);
    }
    cJSON_Delete(images);
    if (!good)
        result =
            api_error_invalid(error, place, "images must be a list of base64 texts, beside a text");
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "type", "text");
    cJSON_AddStringToObject(part, "text", cJSON_IsString(text) ? text->valuestring : "");
    cJSON_Delete(text);
    if (!cJSON_AddItemToArray(parts, part) || !cJSON_AddItemToObject(message, "content", parts)) {
        cJSON_Delete(parts);
        return result == RESULT_OK ? api_error_memory(error) : result;
    }
    return result;
}

/* --- calls ----------------------------------------------------------------------------------- */

static bool id_set(cJSON *object, const char *name, unsigned number)
{
    char id[32];
    snprintf(id, sizeof id, "call_%u", number);
    return cJSON_AddStringToObject(object, name, id) != NULL;
}

/* Gives each call an id and the type that the common shape has. */
static bool calls_number(cJSON *calls, unsigned *count)
{
    for (cJSON *call = cJSON_IsArray(calls) ? calls->child : NULL; call; call = call->next) {
        if (!cJSON_IsObject(call))
            continue;
        if (!cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(call, "id"))) {
            cJSON_DeleteItemFromObjectCaseSensitive(call, "id");
            if (!id_set(call, "id", (*count)++))
                return false;
        }
        if (!cJSON_GetObjectItemCaseSensitive(call, "type") &&
            !cJSON_AddStringToObject(call, "type", "function"))
            return false;
    }
    return true;
}

/* The member of a message that names the function: of a result, or of a call's function. */
static bool has_name(const cJSON *object, const char *member, const char *name)
{
    const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, member));
    return !name || (own && strcmp(own, name) == 0);
}

/* The id of the call that the result `until` answers: of the calls of this name (NULL: any) in
 * `caller`, the first after those that results between the two answer. NULL: there is none. */
static const char *call_find(const cJSON *caller, const cJSON *until, const char *name)
{
    unsigned answered = 0, seen = 0;
    const cJSON *calls = cJSON_GetObjectItemCaseSensitive(caller, "tool_calls");
    for (const cJSON *result = caller->next; result != until; result = result->next)
        answered += has_name(result, "name", name);
    for (const cJSON *call = calls->child; call && seen < LIMIT_TOOL_CALLS;
         call = call->next, seen++) {
        if (!has_name(cJSON_GetObjectItemCaseSensitive(call, "function"), "name", name))
            continue;
        if (answered-- == 0)
            return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(call, "id"));
    }
    return NULL;
}

/* `caller`: the last message with calls before the result; NULL: none. */
static bool result_rewrite(const cJSON *caller, cJSON *message)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "tool_name"));
    if (caller && !cJSON_GetObjectItemCaseSensitive(message, "tool_call_id")) {
        const char *id = call_find(caller, message, name);
        if (id && !cJSON_AddStringToObject(message, "tool_call_id", id))
            return false;
    }
    return cJSON_GetObjectItemCaseSensitive(message, "name") ||
           rename_member(message, "tool_name", "name");
}

/* --- the whole ------------------------------------------------------------------------------- */

static void role_lower(cJSON *message)
{
    char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
    for (; role && *role; role++)
        *role = (char)tolower((unsigned char)*role);
}

static bool thinking_rename(cJSON *message)
{
    const char *thinking =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "thinking"));
    if (thinking && !thinking[0])
        cJSON_DeleteItemFromObjectCaseSensitive(message, "thinking");
    return cJSON_GetObjectItemCaseSensitive(message, "reasoning_content") ||
           rename_member(message, "thinking", "reasoning_content");
}

enum result ollama_messages_rewrite(cJSON *messages, struct api_error *error)
{
    unsigned calls = 0;
    int index = 0;
    const cJSON *caller = NULL;
    for (cJSON *message = cJSON_IsArray(messages) ? messages->child : NULL; message;
         message = message->next, index++) {
        char place[API_PARAM_BYTES];
        if (!cJSON_IsObject(message) || index >= (int)LIMIT_MESSAGES)
            break;
        snprintf(place, sizeof place, "messages[%d].images", index);
        role_lower(message);
        const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
        if (!thinking_rename(message) ||
            !calls_number(cJSON_GetObjectItemCaseSensitive(message, "tool_calls"), &calls) ||
            (role && strcmp(role, "tool") == 0 && !result_rewrite(caller, message)))
            return api_error_memory(error);
        enum result result = ollama_messages_take_images(message, message, place, error);
        if (result != RESULT_OK)
            return result;
        if (cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(message, "tool_calls")))
            caller = message;
    }
    return RESULT_OK;
}
