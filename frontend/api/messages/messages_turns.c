/*
 * One pass over the blocks, in order, that adds to the open turn or opens the next one. Texts of
 * the open turn grow in buffers and become its members when it closes, so the work is linear
 * however a client splits its text into blocks. Inputs of tools are moved, not copied.
 *
 * Blocks of an unknown kind are refused: leaving out a document would give an answer about
 * something else.
 */
#include "frontend/api/messages/messages_turns.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/generation/request_documents.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/messages/thinking_signature.h"
#include "proto/limits.h"

struct turn_list {
    cJSON *turns; /* owned until added to the body */
    const char *model_id;
    const char *role; /* of the open turn; NULL: none is open */
    cJSON *turn;      /* the open one, in `turns` */
    bool has_text;
    bool has_thoughts;
    struct text_buffer text;
    struct text_buffer thoughts;
    cJSON *parts; /* of the open turn, once it has an image; `text` is what follows */
    struct request_images *images;
    cJSON *calls;     /* tool_calls of the assistant's last turn; NULL: none */
    uint32_t count;   /* of turns */
    const char *name; /* of the member being read, for places: "messages[3]" */
    char name_bytes[64];
    struct api_error *error;
};

/* --- turns ----------------------------------------------------------------------------------- */

static bool add_text(cJSON *object, const char *name, const struct text_buffer *text)
{
    return !text->failed && cJSON_AddStringToObject(object, name, text->bytes ? text->bytes : "");
}

/* Makes a part of the text so far. */
static bool text_flush(struct turn_list *list)
{
    cJSON *part;
    if (!list->has_text && list->text.length == 0)
        return true;
    part = cJSON_CreateObject();
    bool good =
        cJSON_AddStringToObject(part, "type", "text") && add_text(part, "text", &list->text);
    if (!good || !cJSON_AddItemToArray(list->parts, part)) {
        cJSON_Delete(part);
        return false;
    }
    text_buffer_clear(&list->text);
    list->has_text = false;
    return true;
}

/* Content of the turn: a string, a list if there are images, or null beside calls. */
static bool content_close(struct turn_list *list)
{
    if (list->parts)
        return text_flush(list);
    if (!list->has_text && cJSON_GetObjectItemCaseSensitive(list->turn, "tool_calls"))
        return cJSON_AddNullToObject(list->turn, "content") != NULL;
    return add_text(list->turn, "content", &list->text);
}

static enum result turn_close(struct turn_list *list)
{
    if (!list->role)
        return RESULT_OK;
    cJSON *turn = list->turn;
    bool good = content_close(list);
    if (good && list->has_thoughts)
        good = add_text(turn, "reasoning_content", &list->thoughts);
    text_buffer_clear(&list->text);
    text_buffer_clear(&list->thoughts);
    list->has_text = false;
    list->has_thoughts = false;
    list->parts = NULL;
    list->role = NULL;
    return good ? RESULT_OK : api_error_memory(list->error);
}

static enum result turn_begin(struct turn_list *list, const char *role)
{
    enum result result = turn_close(list);
    if (result != RESULT_OK)
        return result;
    if (list->count++ == LIMIT_MESSAGES)
        return api_error_invalid(list->error, "messages", "more than %u turns", LIMIT_MESSAGES);
    cJSON *turn = cJSON_CreateObject();
    if (!turn || !cJSON_AddStringToObject(turn, "role", role) ||
        !cJSON_AddItemToArray(list->turns, turn)) {
        cJSON_Delete(turn);
        return api_error_memory(list->error);
    }
    list->turn = turn;
    list->role = role;
    if (strcmp(role, "assistant") == 0)
        list->calls = NULL;
    return RESULT_OK;
}

/* Opens the turn that the next block belongs to. `role` is static. */
static enum result turn_open(struct turn_list *list, const char *role)
{
    return list->role && strcmp(list->role, role) == 0 ? RESULT_OK : turn_begin(list, role);
}

static void text_join(struct text_buffer *text, bool *begun, const char *words)
{
    if (*begun)
        text_buffer_append(text, "\n", 1);
    text_buffer_append_text(text, words);
    *begun = true;
}

static enum result text_add(struct turn_list *list, const char *role, const char *words)
{
    enum result result = turn_open(list, role);
    if (result == RESULT_OK)
        text_join(&list->text, &list->has_text, words);
    return result;
}

/* --- places and members ---------------------------------------------------------------------- */

/* "messages[3].content[1].text" */
static const char *block_place(const struct turn_list *list, char place[API_PARAM_BYTES], int index,
                               const char *member)
{
    snprintf(place, API_PARAM_BYTES, "%s[%d]%s%s", list->name, index, member[0] ? "." : "", member);
    return place;
}

static enum result block_string(const struct turn_list *list, const cJSON *block, int index,
                                const char *member, const char **value)
{
    char place[API_PARAM_BYTES];
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(block, member);
    if (!cJSON_IsString(item))
        return api_error_invalid(list->error, block_place(list, place, index, member),
                                 "this block needs a string '%s'", member);
    *value = item->valuestring;
    return RESULT_OK;
}

/* Checks an id or a name: a string of 1 to LIMIT_TOOL_NAME_BYTES bytes. */
static enum result block_name(const struct turn_list *list, const cJSON *block, int index,
                              const char *member, const char **value)
{
    char place[API_PARAM_BYTES];
    enum result result = block_string(list, block, index, member, value);
    if (result == RESULT_OK && (!(*value)[0] || strlen(*value) > LIMIT_TOOL_NAME_BYTES))
        return api_error_invalid(list->error, block_place(list, place, index, member),
                                 "%s must have 1 to %u bytes", member, LIMIT_TOOL_NAME_BYTES);
    return result;
}

/* Removes our own prefix, unless nothing would be left. */
static const char *id_strip(const char *id)
{
    size_t bytes = sizeof MESSAGES_CALL_ID_PREFIX - 1;
    return strncmp(id, MESSAGES_CALL_ID_PREFIX, bytes) == 0 && id[bytes] ? id + bytes : id;
}

/* --- blocks ---------------------------------------------------------------------------------- */

static enum result text_read(struct turn_list *list, cJSON *block, int index, const char *role)
{
    const char *words = "";
    enum result result = block_string(list, block, index, "text", &words);
    return result == RESULT_OK ? text_add(list, role, words) : result;
}

/* Adds the part of an image or video that is noted to the open turn; `type` is that of its block. */
static enum result image_part_add(struct turn_list *list, const char *type)
{
    if (!list->parts)
        list->parts = cJSON_AddArrayToObject(list->turn, "content");
    if (list->parts && text_flush(list) &&
        cJSON_AddItemToArray(list->parts, request_images_part(type)))
        return RESULT_OK;
    return api_error_memory(list->error);
}

static enum result image_add(struct turn_list *list, const cJSON *block, const char *place)
{
    enum result result = request_images_add(list->images, block, place, list->error);
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(block, "type");
    return result == RESULT_OK ? image_part_add(list, type->valuestring) : result;
}

static enum result image_read(struct turn_list *list, cJSON *block, int index, const char *role)
{
    char place[API_PARAM_BYTES];
    enum result result = turn_open(list, role);
    if (result != RESULT_OK)
        return result;
    return image_add(list, block, block_place(list, place, index, ""));
}

/* Adds the texts and images of a document to the open turn. */
static enum result document_add(struct turn_list *list, const cJSON *block, const char *place)
{
    cJSON *parts = NULL;
    const cJSON *part;
    enum result result = request_documents_read(list->images, block, place, &parts, list->error);
    cJSON_ArrayForEach(part, parts)
    {
        const char *words = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(part, "text"));
        if (words)
            text_join(&list->text, &list->has_text, words);
        else
            result = image_part_add(list, NULL);
        if (result != RESULT_OK)
            break;
    }
    cJSON_Delete(parts);
    return result;
}

static enum result document_read(struct turn_list *list, cJSON *block, int index, const char *role)
{
    char place[API_PARAM_BYTES];
    enum result result = turn_open(list, role);
    if (result != RESULT_OK)
        return result;
    return document_add(list, block, block_place(list, place, index, ""));
}

static enum result thinking_read(struct turn_list *list, cJSON *block, int index, const char *role)
{
    char place[API_PARAM_BYTES];
    const char *words = "";
    const char *signature = "";
    enum result result = block_string(list, block, index, "thinking", &words);
    if (result == RESULT_OK && request_fields_member(block, "signature"))
        result = block_string(list, block, index, "signature", &signature);
    if (result == RESULT_OK)
        result = turn_open(list, role);
    if (result != RESULT_OK)
        return result;
    switch (thinking_signature_check(list->model_id, words, strlen(words), signature)) {
    case THINKING_CHANGED:
        return api_error_invalid(list->error, block_place(list, place, index, "signature"),
                                 "thinking blocks must come back as they were given");
    case THINKING_FOREIGN: return RESULT_OK;
    case THINKING_OWN: break;
    }
    if (words[0])
        text_join(&list->thoughts, &list->has_thoughts, words);
    return RESULT_OK;
}

static enum result redacted_read(struct turn_list *list, cJSON *block, int index, const char *role)
{
    const char *data = "";
    enum result result = block_string(list, block, index, "data", &data);
    return result == RESULT_OK ? turn_open(list, role) : result;
}

/* {"id","type":"function","function":{"name","arguments":{…}}} */
static cJSON *call_create(const char *id, const char *name, cJSON *arguments)
{
    cJSON *call = cJSON_CreateObject();
    cJSON *function = NULL;
    if (!call || !cJSON_AddStringToObject(call, "id", id_strip(id)) ||
        !cJSON_AddStringToObject(call, "type", "function") ||
        !(function = cJSON_AddObjectToObject(call, "function")) ||
        !cJSON_AddStringToObject(function, "name", name) ||
        !cJSON_AddItemToObject(function, "arguments", arguments)) {
        cJSON_Delete(arguments);
        cJSON_Delete(call);
        return NULL;
    }
    return call;
}

static enum result tool_use_read(struct turn_list *list, cJSON *block, int index, const char *role)
{
    char place[API_PARAM_BYTES];
    const char *id = "";
    const char *name = "";
    enum result result = block_name(list, block, index, "id", &id);
    if (result == RESULT_OK)
        result = block_name(list, block, index, "name", &name);
    if (result == RESULT_OK)
        result = turn_open(list, role);
    if (result != RESULT_OK)
        return result;
    if (!cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(block, "input")))
        return api_error_invalid(list->error, block_place(list, place, index, "input"),
                                 "input must be an object");
    if (!list->calls)
        list->calls = cJSON_AddArrayToObject(list->turn, "tool_calls");
    if (cJSON_GetArraySize(list->calls) >= (int)LIMIT_TOOL_CALLS)
        return api_error_invalid(list->error, block_place(list, place, index, ""),
                                 "more than %u calls in one turn", LIMIT_TOOL_CALLS);
    cJSON *call = call_create(id, name, cJSON_DetachItemFromObjectCaseSensitive(block, "input"));
    if (!list->calls || !call || !cJSON_AddItemToArray(list->calls, call)) {
        cJSON_Delete(call);
        return api_error_memory(list->error);
    }
    return RESULT_OK;
}

/* The name of the call with this id in the assistant's last turn, or NULL. */
static const char *call_name(const struct turn_list *list, const char *id)
{
    const cJSON *call;
    cJSON_ArrayForEach(call, list->calls)
    {
        if (strcmp(cJSON_GetObjectItemCaseSensitive(call, "id")->valuestring, id) == 0)
            return cJSON_GetObjectItemCaseSensitive(
                       cJSON_GetObjectItemCaseSensitive(call, "function"), "name")
                ->valuestring;
    }
    return NULL;
}

/* Adds text, images and documents of a tool's result to the open turn. */
static enum result result_content_read(struct turn_list *list, const cJSON *content, int index)
{
    char place[API_PARAM_BYTES];
    int part_index = 0;
    if (!content)
        return RESULT_OK;
    if (cJSON_IsString(content))
        return text_add(list, "tool", content->valuestring);
    const cJSON *part;
    if (!cJSON_IsArray(content))
        return api_error_invalid(list->error, block_place(list, place, index, "content"),
                                 "content must be a string or a list of blocks");
    cJSON_ArrayForEach(part, content)
    {
        const cJSON *type = cJSON_GetObjectItemCaseSensitive(part, "type");
        const cJSON *words = cJSON_GetObjectItemCaseSensitive(part, "text");
        block_place(list, place, index, "content");
        if (!cJSON_IsString(type))
            return api_error_invalid(list->error, place, "a block needs a string 'type'");
        int in_result = part_index++;
        bool is_document = strcmp(type->valuestring, "document") == 0;
        if (is_document || strcmp(type->valuestring, "image") == 0 ||
            strcmp(type->valuestring, "video") == 0) {
            snprintf(place, sizeof place, "%s[%d].content[%d]", list->name, index, in_result);
            list->images->of_tool = true;
            enum result result =
                is_document ? document_add(list, part, place) : image_add(list, part, place);
            list->images->of_tool = false;
            if (result != RESULT_OK)
                return result;
            continue;
        }
        if (strcmp(type->valuestring, "text") != 0)
            return api_error_invalid(list->error, place,
                                     "blocks of type '%.40s' are not supported in a tool's result",
                                     type->valuestring);
        if (!cJSON_IsString(words))
            return api_error_invalid(list->error, place, "a text block needs a string 'text'");
        enum result result = text_add(list, "tool", words->valuestring);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

static enum result tool_result_read(struct turn_list *list, cJSON *block, int index,
                                    const char *role)
{
    (void)role;
    char place[API_PARAM_BYTES];
    const char *id = "";
    bool is_error = false;
    enum result result = block_name(list, block, index, "tool_use_id", &id);
    if (result == RESULT_OK)
        result = request_fields_read_bool(
            block, "is_error", block_place(list, place, index, "is_error"), &is_error, list->error);
    if (result == RESULT_OK)
        result = turn_begin(list, "tool");
    if (result != RESULT_OK)
        return result;
    id = id_strip(id);
    const char *name = call_name(list, id);
    if (!cJSON_AddStringToObject(list->turn, "tool_call_id", id) ||
        (name && !cJSON_AddStringToObject(list->turn, "name", name)))
        return api_error_memory(list->error);
    if (is_error)
        text_buffer_append_text(&list->text, "Error: ");
    return result_content_read(list, request_fields_member(block, "content"), index);
}

static const struct {
    const char *role;
    const char *type;
    enum result (*read)(struct turn_list *list, cJSON *block, int index, const char *role);
} kinds[] = {
    {"system", "text", text_read},
    {"user", "text", text_read},
    {"user", "image", image_read},
    {"user", "video", image_read},
    {"user", "document", document_read},
    {"user", "tool_result", tool_result_read},
    {"assistant", "text", text_read},
    {"assistant", "tool_use", tool_use_read},
    {"assistant", "thinking", thinking_read},
    {"assistant", "redacted_thinking", redacted_read},
};

static enum result block_read(struct turn_list *list, cJSON *block, int index, const char *role)
{
    char place[API_PARAM_BYTES];
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(block, "type");
    if (!cJSON_IsString(type))
        return api_error_invalid(list->error, block_place(list, place, index, ""),
                                 "a block must be an object with a string 'type'");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].role, role) == 0 && strcmp(kinds[i].type, type->valuestring) == 0)
            return kinds[i].read(list, block, index, kinds[i].role);
    }
    return api_error_invalid(list->error, block_place(list, place, index, "type"),
                             "blocks of type '%.40s' are not supported for the role %s",
                             type->valuestring, role);
}

/* --- the two members ------------------------------------------------------------------------- */

/* Reads a string or a list of blocks. `role` is static. */
static enum result content_read(struct turn_list *list, cJSON *content, const char *role)
{
    if (cJSON_IsString(content))
        return text_add(list, role, content->valuestring);
    if (!cJSON_IsArray(content))
        return api_error_invalid(list->error, list->name, "%s must be a string or a list of blocks",
                                 list->name);
    int index = 0;
    cJSON *block;
    cJSON_ArrayForEach(block, content)
    {
        enum result result = block_read(list, block, index++, role);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

static enum result message_read(struct turn_list *list, cJSON *message, int index)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    const cJSON *role = cJSON_GetObjectItemCaseSensitive(message, "role");
    cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    size_t r = 0;
    while (cJSON_IsString(role) && r < 3 && strcmp(role->valuestring, roles[r]) != 0)
        r++;
    snprintf(list->name_bytes, sizeof list->name_bytes, "messages[%d].role", index);
    if (!cJSON_IsString(role) || r == 3)
        return api_error_invalid(list->error, list->name_bytes,
                                 "a message must be an object whose role is user or assistant");
    snprintf(list->name_bytes, sizeof list->name_bytes, "messages[%d].content", index);
    list->name = list->name_bytes;
    if (r == 1) { /* an answer may have been empty */
        enum result result = turn_open(list, roles[r]);
        if (result != RESULT_OK)
            return result;
    } else if (cJSON_IsArray(content) && !content->child) {
        return api_error_invalid(list->error, list->name, "content must not be empty");
    }
    return content_read(list, content, roles[r]);
}

/* Removes the lines that start with `mark` from a string. */
static void lines_cut(char *text, const char *mark)
{
    size_t mark_bytes = strlen(mark);
    char *to = text;
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n');
        size_t bytes = end ? (size_t)(end - line) + 1 : strlen(line);
        if (strncmp(line, mark, mark_bytes) != 0) {
            memmove(to, line, bytes);
            to += bytes;
        }
        line += bytes;
    }
    *to = '\0';
}

static enum result system_read(struct turn_list *list, cJSON *system)
{
    static const char mark[] = "x-anthropic-billing-header:";
    if (!system || cJSON_IsNull(system))
        return RESULT_OK;
    list->name = "system";
    if (cJSON_IsString(system)) {
        lines_cut(system->valuestring, mark);
        return system->valuestring[0] ? text_add(list, "system", system->valuestring) : RESULT_OK;
    }
    cJSON *next;
    for (cJSON *block = cJSON_IsArray(system) ? system->child : NULL; block; block = next) {
        cJSON *text = cJSON_GetObjectItemCaseSensitive(block, "text");
        next = block->next;
        if (!cJSON_IsString(text))
            continue;
        lines_cut(text->valuestring, mark);
        if (!text->valuestring[0])
            cJSON_Delete(cJSON_DetachItemViaPointer(system, block));
    }
    return content_read(list, system, "system");
}

static enum result messages_read(struct turn_list *list, cJSON *messages)
{
    if (!cJSON_IsArray(messages))
        return api_error_invalid(list->error, "messages", "messages must be a list");
    if (!messages->child)
        return api_error_invalid(list->error, "messages", "messages must not be empty");
    int index = 0;
    cJSON *message;
    cJSON_ArrayForEach(message, messages)
    {
        enum result result = message_read(list, message, index++);
        if (result != RESULT_OK)
            return result;
    }
    return turn_close(list);
}

enum result messages_turns_make(cJSON *body, const char *model_id, struct request_images *images,
                                struct api_error *error)
{
    struct turn_list list = {
        .turns = cJSON_CreateArray(), .model_id = model_id, .images = images, .error = error};
    enum result result = list.turns ? RESULT_OK : api_error_memory(list.error);
    if (result == RESULT_OK)
        result = system_read(&list, cJSON_GetObjectItemCaseSensitive(body, "system"));
    if (result == RESULT_OK)
        result = messages_read(&list, cJSON_GetObjectItemCaseSensitive(body, "messages"));
    text_buffer_fini(&list.text);
    text_buffer_fini(&list.thoughts);
    if (result == RESULT_OK && cJSON_ReplaceItemInObjectCaseSensitive(body, "messages", list.turns))
        return RESULT_OK;
    cJSON_Delete(list.turns);
    return result == RESULT_OK ? api_error_memory(list.error) : result;
}
