/*
 * Checks and normalizes chat messages.
 *
 * Every field that a template may read is checked here, so that a template never gets a number
 * where it expects text. An error names the place in the array. Unknown members of a message are
 * left for the template.
 */
#include "frontend/api/chat/chat_messages.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/request_documents.h"
#include "frontend/prompt/image_form.h"
#include "proto/limits.h"

static const struct {
    const char *name;
    const char *becomes;
    bool needs_content;
    bool takes_images;
} roles[] = {
    {"system", "system", true, false},
    {"developer", "system", true, false},
    {"user", "user", true, true},
    {"tool", "tool", true, true},
    {"assistant", "assistant", false, false},
};

/* The message being checked. */
struct place {
    int index;
    bool takes_images;
    bool of_tool;
    struct request_images *images; /* NULL: lists are already normalized */
};

/* "messages[3].content" */
static const char *message_place(char place[API_PARAM_BYTES], int index, const char *member)
{
    snprintf(place, API_PARAM_BYTES, "messages[%d]%s%s", index, member[0] ? "." : "", member);
    return place;
}

/* The text of one content part, or an error. */
static enum result content_part_text(const cJSON *part, int index, const char **text,
                                     struct api_error *error)
{
    char place[API_PARAM_BYTES];
    message_place(place, index, "content");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(part, "type");
    if (!cJSON_IsObject(part) || !cJSON_IsString(type))
        return api_error_invalid(error, place, "a content part must be an object with a type");
    if (strcmp(type->valuestring, "text") != 0 && strcmp(type->valuestring, "input_text") != 0 &&
        strcmp(type->valuestring, "refusal") != 0)
        return api_error_invalid(error, place, "content parts of type '%.40s' are not supported",
                                 type->valuestring);
    const char *member = strcmp(type->valuestring, "refusal") == 0 ? "refusal" : "text";
    const cJSON *words = cJSON_GetObjectItemCaseSensitive(part, member);
    if (!cJSON_IsString(words))
        return api_error_invalid(error, place, "a text part needs a string '%s'", member);
    *text = words->valuestring;
    return RESULT_OK;
}

/* Joins the text parts of `parts` with newlines into a new string. */
static enum result content_parts_join(const cJSON *parts, int index, char **joined,
                                      struct api_error *error)
{
    struct text_buffer buffer = {0};
    const cJSON *part;
    enum result result = RESULT_OK;
    cJSON_ArrayForEach(part, parts)
    {
        const char *text = "";
        result = content_part_text(part, index, &text, error);
        if (result != RESULT_OK)
            goto out;
        if (part != parts->child)
            text_buffer_append(&buffer, "\n", 1);
        text_buffer_append_text(&buffer, text);
    }
    text_buffer_append(&buffer, "", 0);
    if (buffer.failed) {
        result = api_error_memory(error);
        goto out;
    }
    *joined = buffer.bytes;
    return RESULT_OK;
out:
    text_buffer_fini(&buffer);
    return result;
}

static const char *type_of(const cJSON *part)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(part, "type"));
}

static bool is_image_part(const cJSON *part)
{
    const char *type = type_of(part);
    return type && request_images_is_type(type);
}

static bool is_document_part(const cJSON *part)
{
    const char *type = type_of(part);
    return type && request_documents_is_type(type);
}

static bool has_part(const cJSON *parts, bool (*is_one)(const cJSON *part))
{
    const cJSON *part;
    cJSON_ArrayForEach(part, parts)
    {
        if (is_one(part))
            return true;
    }
    return false;
}

/* Appends the parts of a document to `list`. */
static enum result document_make(const cJSON *part, const struct place *at, const char *place,
                                 cJSON *list, struct api_error *error)
{
    cJSON *made = NULL;
    if (!at->takes_images)
        return api_error_invalid(error, place,
                                 "files are allowed in messages of the roles user and tool only");
    at->images->of_tool = at->of_tool;
    enum result result = request_documents_read(at->images, part, place, &made, error);
    while (result == RESULT_OK && made->child) {
        if (!cJSON_AddItemToArray(list, cJSON_DetachItemFromArray(made, 0)))
            result = api_error_memory(error);
    }
    cJSON_Delete(made);
    return result;
}

/* Notes the images of `parts` and appends a normalized part for each to `list`. */
static enum result parts_make(const cJSON *parts, const struct place *at, cJSON *list,
                              struct api_error *error)
{
    int index = 0;
    const cJSON *part;
    cJSON_ArrayForEach(part, parts)
    {
        char place[API_PARAM_BYTES];
        cJSON *made = NULL;
        enum result result;
        snprintf(place, sizeof place, "messages[%d].content[%d]", at->index, index++);
        if (is_image_part(part)) {
            if (!at->takes_images)
                return api_error_invalid(error, place,
                                         "images and videos are allowed in messages of the roles "
                                         "user and tool only");
            at->images->of_tool = at->of_tool;
            result = request_images_add(at->images, part, place, error);
            made = result == RESULT_OK ? request_images_part(type_of(part)) : NULL;
        } else if (is_document_part(part)) {
            result = document_make(part, at, place, list, error);
            if (result == RESULT_OK)
                continue;
        } else {
            const char *text = "";
            result = content_part_text(part, at->index, &text, error);
            made = result == RESULT_OK ? image_form_text(text) : NULL;
        }
        if (result != RESULT_OK)
            return result;
        if (!cJSON_AddItemToArray(list, made))
            return api_error_memory(error);
    }
    return RESULT_OK;
}

/* Normalizes a list of parts: to a string, or to a list if there are images. */
static enum result parts_normalize(const cJSON *parts, const struct place *at, cJSON **made,
                                   struct api_error *error)
{
    cJSON *list = NULL;
    enum result result = RESULT_OK;
    if (has_part(parts, is_image_part) || has_part(parts, is_document_part)) {
        list = cJSON_CreateArray();
        result = parts_make(parts, at, list, error);
    }
    if (result == RESULT_OK && has_part(list, is_image_part)) {
        *made = list;
        return RESULT_OK;
    }
    char *joined = NULL;
    if (result == RESULT_OK)
        result = content_parts_join(list ? list : parts, at->index, &joined, error);
    if (result == RESULT_OK)
        *made = cJSON_CreateString(joined);
    free(joined);
    cJSON_Delete(list);
    return result;
}

static enum result content_normalize(cJSON *message, const struct place *at, bool required,
                                     struct api_error *error)
{
    char place[API_PARAM_BYTES];
    message_place(place, at->index, "content");
    cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    if (cJSON_IsString(content))
        return RESULT_OK;
    if (!content || cJSON_IsNull(content)) {
        if (required)
            return api_error_invalid(error, place, "content is required for this role");
        return RESULT_OK;
    }
    if (!cJSON_IsArray(content))
        return api_error_invalid(error, place, "content must be a string or a list of parts");
    if (!at->images)
        return RESULT_OK;
    cJSON *made = NULL;
    enum result result = parts_normalize(content, at, &made, error);
    if (result != RESULT_OK)
        return result;
    if (!made || !cJSON_ReplaceItemInObjectCaseSensitive(message, "content", made)) {
        cJSON_Delete(made);
        return api_error_memory(error);
    }
    return RESULT_OK;
}

/* Checks a member that must be a string if it exists. */
static enum result string_check(const cJSON *object, int index, const char *place_member,
                                const char *name, struct api_error *error)
{
    char place[API_PARAM_BYTES];
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!item || cJSON_IsNull(item))
        return RESULT_OK;
    if (!cJSON_IsString(item) || strlen(item->valuestring) > LIMIT_TOOL_NAME_BYTES)
        return api_error_invalid(error, message_place(place, index, place_member),
                                 "%s must be a string of at most %u bytes", name,
                                 LIMIT_TOOL_NAME_BYTES);
    return RESULT_OK;
}

/* One entry of tool_calls: {"type":"function","function":{"name","arguments"}}. */
static enum result tool_call_normalize(cJSON *call, int index, struct api_error *error)
{
    char place[API_PARAM_BYTES];
    message_place(place, index, "tool_calls");
    cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function");
    if (!cJSON_IsObject(call) || !cJSON_IsObject(function) ||
        !cJSON_IsString(cJSON_GetObjectItemCaseSensitive(function, "name")))
        return api_error_invalid(error, place, "a tool call needs function.name");
    enum result result = string_check(call, index, "tool_calls", "id", error);
    if (result != RESULT_OK)
        return result;
    const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments");
    if (!cJSON_IsString(arguments) && !cJSON_IsObject(arguments))
        return api_error_invalid(error, place, "a tool call needs function.arguments");
    if (!cJSON_IsString(arguments))
        return RESULT_OK;
    cJSON *value = cJSON_ParseWithOpts(arguments->valuestring, NULL, true);
    if (!cJSON_IsObject(value)) {
        cJSON_Delete(value);
        return RESULT_OK;
    }
    if (!cJSON_ReplaceItemInObjectCaseSensitive(function, "arguments", value)) {
        cJSON_Delete(value);
        return api_error_memory(error);
    }
    return RESULT_OK;
}

static enum result tool_calls_normalize(cJSON *message, int index, bool *present,
                                        struct api_error *error)
{
    char place[API_PARAM_BYTES];
    cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls");
    *present = false;
    if (!calls || cJSON_IsNull(calls)) {
        cJSON_DeleteItemFromObjectCaseSensitive(message, "tool_calls");
        return RESULT_OK;
    }
    if (!cJSON_IsArray(calls))
        return api_error_invalid(error, message_place(place, index, "tool_calls"),
                                 "tool_calls must be a list");
    if (cJSON_GetArraySize(calls) > (int)LIMIT_TOOL_CALLS)
        return api_error_invalid(error, message_place(place, index, "tool_calls"),
                                 "more than %u tool calls", LIMIT_TOOL_CALLS);
    cJSON *call;
    cJSON_ArrayForEach(call, calls)
    {
        enum result result = tool_call_normalize(call, index, error);
        if (result != RESULT_OK)
            return result;
        *present = true;
    }
    return RESULT_OK;
}

/* The assistant's reasoning. Clients send it back under either of its names; templates read it as
 * reasoning_content or, with calls after it, as thinking (gpt-oss). */
static enum result reasoning_normalize(cJSON *message, int index, bool has_calls,
                                       struct api_error *error)
{
    char place[API_PARAM_BYTES];
    static const char *const names[] = {"reasoning_content", "reasoning"};
    const cJSON *reasoning = NULL;
    for (size_t i = 0; i < 2; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(message, names[i]);
        if (!item || cJSON_IsNull(item))
            continue;
        if (!cJSON_IsString(item))
            return api_error_invalid(error, message_place(place, index, names[i]),
                                     "%s must be a string", names[i]);
        reasoning = reasoning ? reasoning : item;
    }
    if (!reasoning)
        return RESULT_OK;
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    bool has_text = cJSON_IsString(content) && content->valuestring[0];
    const char *wanted[] = {names[0], has_calls && !has_text ? "thinking" : names[0]};
    for (size_t i = 0; i < 2; i++) {
        cJSON_bool there = cJSON_IsString(cJSON_GetObjectItemCaseSensitive(message, wanted[i]));
        if (there)
            continue;
        cJSON_DeleteItemFromObjectCaseSensitive(message, wanted[i]);
        if (!cJSON_AddStringToObject(message, wanted[i], reasoning->valuestring))
            return api_error_memory(error);
    }
    return RESULT_OK;
}

static enum result message_normalize(cJSON *message, int index, struct request_images *images,
                                     struct api_error *error)
{
    char place[API_PARAM_BYTES];
    if (!cJSON_IsObject(message))
        return api_error_invalid(error, message_place(place, index, ""),
                                 "a message must be an object");
    cJSON *role = cJSON_GetObjectItemCaseSensitive(message, "role");
    message_place(place, index, "role");
    if (!cJSON_IsString(role))
        return api_error_invalid(error, place, "a message needs a string 'role'");
    size_t r = 0;
    while (r < sizeof roles / sizeof roles[0] && strcmp(role->valuestring, roles[r].name) != 0)
        r++;
    if (r == sizeof roles / sizeof roles[0])
        return api_error_invalid(
            error, place,
            "'%.40s' is not one of the roles system, developer, user, assistant, tool",
            role->valuestring);
    if (strcmp(roles[r].name, roles[r].becomes) != 0 &&
        !cJSON_SetValuestring(role, roles[r].becomes))
        return api_error_memory(error);
    bool has_calls = false;
    if (!roles[r].needs_content) {
        enum result result = tool_calls_normalize(message, index, &has_calls, error);
        if (result == RESULT_OK)
            result = reasoning_normalize(message, index, has_calls, error);
        if (result != RESULT_OK)
            return result;
    }
    enum result result = string_check(message, index, "tool_call_id", "tool_call_id", error);
    if (result == RESULT_OK)
        result = string_check(message, index, "name", "name", error);
    if (result == RESULT_OK)
        result = content_normalize(message,
                                   &(struct place){.index = index,
                                                   .takes_images = roles[r].takes_images,
                                                   .of_tool = strcmp(roles[r].name, "tool") == 0,
                                                   .images = images},
                                   !has_calls, error);
    return result;
}

static enum result messages_normalize(cJSON *messages, struct request_images *images,
                                      struct api_error *error)
{
    if (!cJSON_IsArray(messages))
        return api_error_invalid(error, "messages", "messages must be a list");
    if (!messages->child)
        return api_error_invalid(error, "messages", "messages must not be empty");
    int index = 0;
    cJSON *message;
    cJSON_ArrayForEach(message, messages)
    {
        if ((unsigned)index >= LIMIT_MESSAGES)
            return api_error_invalid(error, "messages", "more than %u messages", LIMIT_MESSAGES);
        enum result result = message_normalize(message, index, images, error);
        if (result != RESULT_OK)
            return result;
        index++;
    }
    return RESULT_OK;
}

enum result chat_messages_normalize(cJSON *messages, struct request_images *images,
                                    struct api_error *error)
{
    return messages_normalize(messages, images, error);
}

enum result chat_messages_normalize_made(cJSON *messages, struct api_error *error)
{
    return messages_normalize(messages, NULL, error);
}
