/*
 * Converts items to messages.
 *
 * One table says for each type of item how it is checked, added and stored. Items of the chain and
 * referenced items take the same path as the client's, because they are stored in the API's shape.
 * A type without a row is refused by name: skipping an item would leave an invisible gap in the
 * conversation.
 */
#include "frontend/api/responses/responses_input.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/request_audio.h"
#include "frontend/api/generation/request_documents.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/responses/response_calls.h"
#include "frontend/api/responses/response_item_text.h"
#include "frontend/prompt/image_form.h"
#include "proto/limits.h"
#include "proto/must.h"

struct reader {
    struct responses_input *input;
    struct cJSON *messages;
    struct cJSON *turn;           /* the assistant message that still grows, or NULL */
    struct text_buffer reasoning; /* goes into the next assistant message */
    uint32_t item_count;
    struct request_images *images;
    cJSON
        *documents; /* lists of parts of the files that content_check() read, for content_copy() */
    struct api_error *error;
};

static const char *text_of(const cJSON *object, const char *member)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, member);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* --- messages -------------------------------------------------------------------------------- */

static cJSON *message_add(struct reader *reader, const char *role)
{
    cJSON *message = cJSON_CreateObject();
    if (!message || !cJSON_AddStringToObject(message, "role", role) ||
        !cJSON_AddItemToArray(reader->messages, message)) {
        cJSON_Delete(message);
        return NULL;
    }
    return message;
}

/* Closes the assistant's message. Reasoning without one is dropped, because the model cannot use
 * it. */
static void turn_close(struct reader *reader)
{
    reader->turn = NULL;
    text_buffer_clear(&reader->reasoning);
}

/* The assistant's growing message, with the reasoning before it. */
static cJSON *turn_open(struct reader *reader)
{
    if (reader->turn)
        return reader->turn;
    cJSON *turn = message_add(reader, "assistant");
    if (!turn || reader->reasoning.failed ||
        (reader->reasoning.length > 0 &&
         !cJSON_AddStringToObject(turn, "reasoning_content", reader->reasoning.bytes)))
        return NULL;
    text_buffer_clear(&reader->reasoning);
    reader->turn = turn;
    return turn;
}

/* --- one item of each type ------------------------------------------------------------------- */

static bool is_image_part(const cJSON *part)
{
    const char *type = text_of(part, "type");
    return type && (strcmp(type, "input_image") == 0 || request_videos_is_type(type) ||
                    request_audio_is_type(type));
}

static bool is_file_part(const cJSON *part)
{
    const char *type = text_of(part, "type");
    return type && strcmp(type, "input_file") == 0;
}

/* Appends the parts that a part becomes to `list`. False without memory. */
static bool part_copy(struct reader *reader, const cJSON *part, cJSON *list)
{
    if (is_file_part(part)) {
        cJSON *parts = cJSON_DetachItemFromArray(reader->documents, 0);
        bool good = true;
        while (good && parts->child)
            good = cJSON_AddItemToArray(list, cJSON_DetachItemFromArray(parts, 0));
        cJSON_Delete(parts);
        return good;
    }
    return cJSON_AddItemToArray(list, is_image_part(part)
                                          ? request_images_part(text_of(part, "type"))
                                          : image_form_text(response_item_text_of_part(part)));
}

/* The texts of `list`, joined with newlines. */
static cJSON *texts_join(const cJSON *list)
{
    struct text_buffer text = {0};
    const cJSON *part;
    text_buffer_append(&text, "", 0);
    cJSON_ArrayForEach(part, list)
    {
        if (part != list->child)
            text_buffer_append(&text, "\n", 1);
        text_buffer_append_text(&text, text_of(part, "text"));
    }
    cJSON *joined = text.failed ? NULL : cJSON_CreateString(text.bytes);
    text_buffer_fini(&text);
    return joined;
}

/* Content in the form of chat templates, after content_check(): one text, parts joined with newlines,
 * or a list if there are images. */
static cJSON *content_copy(struct reader *reader, const cJSON *content)
{
    if (cJSON_IsString(content))
        return cJSON_CreateString(content->valuestring);
    cJSON *list = cJSON_CreateArray();
    bool good = list != NULL, has_image = false;
    const cJSON *part;
    cJSON_ArrayForEach(part, content) good = good && part_copy(reader, part, list);
    cJSON_ArrayForEach(part, list) has_image = has_image || !text_of(part, "text");
    if (good && has_image)
        return list;
    cJSON *joined = good ? texts_join(list) : NULL;
    cJSON_Delete(list);
    return joined;
}

/* Reads a file for content_copy(). */
static enum result file_read(struct reader *reader, const cJSON *part, const char *place)
{
    cJSON *parts = NULL;
    enum result result = request_documents_read(reader->images, part, place, &parts, reader->error);
    if (result == RESULT_OK && !cJSON_AddItemToArray(reader->documents, parts)) {
        cJSON_Delete(parts);
        return api_error_memory(reader->error);
    }
    return result;
}

/* `with_images`: images and files are allowed here; they are noted and read. */
static enum result content_check(struct reader *reader, const cJSON *content, const char *place,
                                 const char *member, bool with_images)
{
    char where[API_PARAM_BYTES];
    snprintf(where, sizeof where, "%s.%s", place, member);
    if (cJSON_IsString(content))
        return RESULT_OK;
    if (!cJSON_IsArray(content) || !content->child)
        return api_error_invalid(reader->error, where,
                                 "%s must be a string or a list of content parts", member);
    const cJSON *part;
    int index = 0;
    cJSON_ArrayForEach(part, content)
    {
        const char *type = text_of(part, "type");
        snprintf(where, sizeof where, "%s.%s[%d]", place, member, index++);
        if (!type)
            return api_error_invalid(reader->error, where,
                                     "a content part must be an object with a type");
        if (with_images && (is_image_part(part) || is_file_part(part))) {
            enum result result =
                is_file_part(part) ? file_read(reader, part, where)
                                   : request_images_add(reader->images, part, where, reader->error);
            if (result != RESULT_OK)
                return result;
            continue;
        }
        if (!response_item_text_member(type))
            return api_error_invalid(reader->error, where,
                                     "content parts of type '%.40s' are not supported", type);
        if (!response_item_text_of_part(part))
            return api_error_invalid(reader->error, where,
                                     "a part of type '%s' needs a string '%s'", type,
                                     response_item_text_member(type));
    }
    return RESULT_OK;
}

static enum result message_read(struct reader *reader, const cJSON *item, const char *place)
{
    static const char *const roles[] = {"assistant", "user", "system", "developer"};
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(item, "content");
    const char *role = text_of(item, "role");
    char where[API_PARAM_BYTES];
    size_t r = 0;
    while (r < 4 && !(role && strcmp(role, roles[r]) == 0))
        r++;
    snprintf(where, sizeof where, "%s.role", place);
    if (r == 4)
        return api_error_invalid(reader->error, where,
                                 "a message needs a role: user, assistant, system or developer");
    enum result result = content_check(reader, content, place, "content", r == 1);
    if (result != RESULT_OK)
        return result;
    bool assistant = r == 0;
    if (!assistant || reader->turn) /* text after text or after calls is another message */
        turn_close(reader);
    cJSON *message = assistant ? turn_open(reader) : message_add(reader, role);
    cJSON *copy = content_copy(reader, content);
    if (!message || !copy || !cJSON_AddItemToObject(message, "content", copy)) {
        cJSON_Delete(copy);
        return api_error_memory(reader->error);
    }
    return RESULT_OK;
}

static enum result reasoning_read(struct reader *reader, const cJSON *item, const char *place)
{
    if (reader->turn)
        turn_close(reader);
    if (reader->reasoning.length > 0)
        text_buffer_append(&reader->reasoning, "\n", 1);
    if (!response_item_text_of_reasoning(item, &reader->reasoning))
        return api_error_invalid(reader->error, place,
                                 "a reasoning item has lists of text parts in content and summary");
    return RESULT_OK;
}

static cJSON *call_create(const cJSON *item)
{
    cJSON *call = cJSON_CreateObject();
    cJSON *function = NULL;
    struct text_buffer name = {0}, arguments = {0};
    response_call_read(item, response_item_type(item), &name, &arguments);
    bool good = !name.failed && !arguments.failed && call &&
                cJSON_AddStringToObject(call, "id", response_call_id(item)) &&
                cJSON_AddStringToObject(call, "type", "function");
    if (good)
        function = cJSON_AddObjectToObject(call, "function");
    good = function && cJSON_AddStringToObject(function, "name", name.bytes) &&
           cJSON_AddStringToObject(function, "arguments", arguments.bytes);
    text_buffer_fini(&name);
    text_buffer_fini(&arguments);
    if (good)
        return call;
    cJSON_Delete(call);
    return NULL;
}

static enum result call_read(struct reader *reader, const cJSON *item, const char *place)
{
    enum result result = response_call_check(item, response_item_type(item), place, reader->error);
    if (result != RESULT_OK)
        return result;
    const char *status = text_of(item, "status");
    if (status && strcmp(status, "incomplete") == 0)
        return RESULT_OK;
    cJSON *turn = turn_open(reader);
    if (!turn)
        return api_error_memory(reader->error);
    cJSON *calls = cJSON_GetObjectItemCaseSensitive(turn, "tool_calls");
    if (!calls)
        calls = cJSON_AddArrayToObject(turn, "tool_calls");
    cJSON *call = call_create(item);
    if (!calls || !call || !cJSON_AddItemToArray(calls, call)) {
        cJSON_Delete(call);
        return api_error_memory(reader->error);
    }
    return RESULT_OK;
}

/* What a built-in tool's output is in the prompt. */
static cJSON *output_copy(const cJSON *item)
{
    struct text_buffer text = {0};
    response_call_output_write(item, &text);
    cJSON *copy = text.failed ? NULL : cJSON_CreateString(text.bytes ? text.bytes : "");
    text_buffer_fini(&text);
    return copy;
}

static enum result output_check(struct reader *reader, const cJSON *output, const char *place)
{
    reader->images->of_tool = true;
    enum result result = content_check(reader, output, place, "output", true);
    reader->images->of_tool = false;
    return result;
}

static enum result call_output_read(struct reader *reader, const cJSON *item, const char *place)
{
    const cJSON *output = cJSON_GetObjectItemCaseSensitive(item, "output");
    const char *type = response_item_type(item);
    bool is_content = response_call_output_is_content(type);
    enum result result = response_call_check(item, type, place, reader->error);
    if (result == RESULT_OK && is_content)
        result = output_check(reader, output, place);
    if (result != RESULT_OK)
        return result;
    turn_close(reader);
    cJSON *message = message_add(reader, "tool");
    cJSON *copy = is_content ? content_copy(reader, output) : output_copy(item);
    if (!message || !cJSON_AddStringToObject(message, "tool_call_id", response_call_id(item)) ||
        !copy || !cJSON_AddItemToObject(message, "content", copy)) {
        cJSON_Delete(copy);
        return api_error_memory(reader->error);
    }
    return RESULT_OK;
}

static const struct {
    const char *type;
    enum result (*read)(struct reader *reader, const cJSON *item, const char *place);
} types[] = {
    {"message", message_read},
    {"reasoning", reasoning_read},
};

static enum result item_read(struct reader *reader, const cJSON *item, const char *place)
{
    const char *type = response_item_type(item);
    char where[API_PARAM_BYTES];
    if (reader->item_count++ == LIMIT_MESSAGES)
        return api_error_invalid(reader->error, "input", "more than %u items", LIMIT_MESSAGES);
    if (!cJSON_IsObject(item) || !type)
        return api_error_invalid(reader->error, place, "an item must be an object with a type");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].type, type) == 0)
            return types[i].read(reader, item, place);
    }
    if (response_call_is(type))
        return call_read(reader, item, place);
    if (response_call_is_output(type))
        return call_output_read(reader, item, place);
    snprintf(where, sizeof where, "%s.type", place);
    return api_error_invalid(reader->error, where, "items of type '%.40s' are not supported", type);
}

/* --- what is kept ---------------------------------------------------------------------------- */

/* The item at `index` of stored items. */
static enum result kept_item_read(struct reader *reader, const struct response_items *items,
                                  size_t index, const char *place)
{
    const struct response_item_span *span = &items->spans[index];
    cJSON *item = cJSON_ParseWithLength(items->text.bytes + span->start, span->bytes);
    if (!item)
        return api_error_memory(reader->error);
    enum result result = item_read(reader, item, place);
    cJSON_Delete(item);
    return result;
}

static enum result reference_refuse(struct reader *reader, const char *place, const char *id)
{
    (void)api_error_set(reader->error, RESULT_NOT_FOUND, 404, NULL,
                        "item with id '%.64s' not found", id);
    snprintf(reader->error->param, sizeof reader->error->param, "%s", place);
    return RESULT_NOT_FOUND;
}

static enum result reference_read(struct reader *reader, const cJSON *item, const char *place)
{
    struct responses_input *input = reader->input;
    const char *id = text_of(item, "id");
    char response_id[RESPONSE_ID_BYTES];
    enum response_item_side side;
    size_t index;
    struct response_record *record = NULL;
    if (!id)
        return api_error_invalid(reader->error, place, "a reference needs a string 'id'");
    if (input->store && response_item_id_read(id, response_id, &side, &index))
        record = response_store_find(input->store, &input->client_key, response_id);
    if (!record)
        return reference_refuse(reader, place, id);
    enum result result;
    const struct response_items *items =
        side == RESPONSE_INPUT ? response_record_input(record) : response_record_output(record);
    if ((side == RESPONSE_OUTPUT && !response_status_is_final(response_record_status(record))) ||
        index >= items->count) {
        result = reference_refuse(reader, place, id);
    } else {
        result = kept_item_read(reader, items, index, place);
        response_items_begin(&input->items);
        response_items_write(items, index, response_id, side, &input->items.text);
        response_items_end(&input->items, NULL);
    }
    response_record_release(record);
    return result;
}

/* Input and output of `record`. */
static enum result record_read(struct reader *reader, const struct response_record *record)
{
    const struct response_items *sides[] = {response_record_input(record),
                                            response_record_output(record)};
    for (size_t side = 0; side < 2; side++) {
        for (size_t i = 0; i < sides[side]->count; i++) {
            enum result result = kept_item_read(reader, sides[side], i, "previous_response_id");
            if (result != RESULT_OK)
                return result;
        }
    }
    return RESULT_OK;
}

/* The chain that ends with input->previous, from its start. */
static enum result chain_read(struct reader *reader)
{
    const struct response_record *chain[LIMIT_MESSAGES];
    size_t count = 0, bytes = 0;
    for (const struct response_record *at = reader->input->previous; at;
         at = response_record_previous(at)) {
        bytes += response_record_input(at)->text.length + response_record_output(at)->text.length;
        if (count == LIMIT_MESSAGES || bytes > LIMIT_CHAIN_BYTES)
            return api_error_invalid(reader->error, "previous_response_id",
                                     "the conversation has more than %u responses or %u bytes",
                                     LIMIT_MESSAGES, LIMIT_CHAIN_BYTES);
        chain[count++] = at;
    }
    while (count > 0) {
        enum result result = record_read(reader, chain[--count]);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

static enum result previous_find(struct reader *reader, const cJSON *body)
{
    static const char name[] = "previous_response_id";
    struct responses_input *input = reader->input;
    const cJSON *item = request_fields_member(body, name);
    if (!item)
        return RESULT_OK;
    if (!cJSON_IsString(item))
        return api_error_invalid(reader->error, name, "%s must be a string", name);
    if (input->resumed)
        input->previous = response_record_hold_previous(input->resumed);
    else if (input->store)
        input->previous = response_store_find(input->store, &input->client_key, item->valuestring);
    if (!input->previous) {
        if (input->store)
            (void)response_store_refuse(input->store, 400, "previous_response_not_found",
                                        item->valuestring, reader->error);
        else
            (void)api_error_set(reader->error, RESULT_NOT_FOUND, 400, "previous_response_not_found",
                                "previous response with id '%.64s' not found", item->valuestring);
        strcpy(reader->error->param, name);
        return RESULT_NOT_FOUND;
    }
    if (!response_status_is_final(response_record_status(input->previous)))
        return api_error_invalid(reader->error, name, "the response '%.64s' is still being made",
                                 item->valuestring);
    return RESULT_OK;
}

/* --- the request ----------------------------------------------------------------------------- */

static enum result instructions_read(struct reader *reader, const cJSON *body)
{
    const cJSON *item = request_fields_member(body, "instructions");
    if (!item)
        return RESULT_OK;
    if (!cJSON_IsString(item))
        return api_error_invalid(reader->error, "instructions", "instructions must be a string");
    cJSON *message = message_add(reader, "system");
    if (!message || !cJSON_AddStringToObject(message, "content", item->valuestring))
        return api_error_memory(reader->error);
    return RESULT_OK;
}

static enum result own_item_read(struct reader *reader, const cJSON *item, const char *place)
{
    const char *type = response_item_type(item);
    if (type && strcmp(type, "item_reference") == 0)
        return reference_read(reader, item, place);
    enum result result = item_read(reader, item, place);
    if (result == RESULT_OK)
        response_item_text_keep(item, &reader->input->items);
    return result;
}

static enum result own_items_read(struct reader *reader, const cJSON *body)
{
    const cJSON *list = request_fields_member(body, "input");
    if (cJSON_IsString(list)) {
        cJSON *item = cJSON_CreateObject();
        enum result result = api_error_memory(reader->error);
        if (item && cJSON_AddStringToObject(item, "role", "user") &&
            cJSON_AddItemToObject(item, "content", cJSON_CreateStringReference(list->valuestring)))
            result = own_item_read(reader, item, "input");
        cJSON_Delete(item);
        return result;
    }
    if (!cJSON_IsArray(list) || !list->child)
        return api_error_invalid(reader->error, "input",
                                 "input must be a string or a list of items");
    int index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        char place[64];
        snprintf(place, sizeof place, "input[%d]", index++);
        enum result result = own_item_read(reader, item, place);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

enum result responses_input_read(struct cJSON *body, struct responses_input *input,
                                 struct request_images *images, struct api_error *error)
{
    struct reader reader = {.input = input, .images = images, .error = error};
    cJSON_DeleteItemFromObjectCaseSensitive(body, "messages");
    reader.messages = cJSON_AddArrayToObject(body, "messages");
    reader.documents = cJSON_CreateArray();
    enum result result = reader.messages && reader.documents ? RESULT_OK : api_error_memory(error);
    if (result == RESULT_OK)
        result = instructions_read(&reader, body);
    if (result == RESULT_OK)
        result = previous_find(&reader, body);
    if (result == RESULT_OK && input->previous)
        result = chain_read(&reader);
    if (result == RESULT_OK)
        result = own_items_read(&reader, body);
    text_buffer_fini(&reader.reasoning);
    cJSON_Delete(reader.documents);
    if (result == RESULT_OK && input->items.text.failed)
        result = api_error_memory(error);
    if (result != RESULT_OK)
        responses_input_fini(input);
    return result;
}

void responses_input_fini(struct responses_input *input)
{
    response_record_release(input->previous);
    input->previous = NULL;
    response_items_fini(&input->items);
}
