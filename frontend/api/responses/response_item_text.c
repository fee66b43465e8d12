/*
 * Items in the shape of replies: content is always a list of parts, and each type has its members.
 * Other members of a client's item are dropped.
 */
#include "frontend/api/responses/response_item_text.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/api/generation/request_audio.h"
#include "frontend/api/generation/request_videos.h"
#include "frontend/api/responses/response_calls.h"

#define ID_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

static const struct {
    const char *type;
    const char *member;
} parts[] = {
    {"input_text", "text"}, {"output_text", "text"},    {"text", "text"},
    {"refusal", "refusal"}, {"reasoning_text", "text"}, {"summary_text", "text"},
};

static const char *text_of(const cJSON *object, const char *member)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, member);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

const char *response_item_type(const cJSON *item)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(item, "type");
    if (type && !cJSON_IsNull(type))
        return cJSON_IsString(type) ? type->valuestring : NULL;
    if (cJSON_GetObjectItemCaseSensitive(item, "role"))
        return "message";
    return text_of(item, "id") ? "item_reference" : NULL;
}

const char *response_item_text_member(const char *part_type)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(parts[i].type, part_type) == 0)
            return parts[i].member;
    }
    return NULL;
}

const char *response_item_text_of_part(const cJSON *part)
{
    const char *type = text_of(part, "type");
    const char *member = type ? response_item_text_member(type) : NULL;
    return member ? text_of(part, member) : NULL;
}

bool response_item_text_of_reasoning(const cJSON *item, struct text_buffer *out)
{
    static const char *const members[] = {"content", "summary"};
    size_t before = out->length;
    for (size_t i = 0; i < 2; i++) {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, members[i]);
        const cJSON *part;
        if (list && !cJSON_IsNull(list) && !cJSON_IsArray(list))
            return false;
        bool wanted = out->length == before;
        cJSON_ArrayForEach(part, list)
        {
            const char *text = response_item_text_of_part(part);
            if (!text)
                return false;
            if (wanted && out->length > before)
                text_buffer_append(out, "\n", 1);
            if (wanted)
                text_buffer_append_text(out, text);
        }
    }
    return true;
}

/* --- writing --------------------------------------------------------------------------------- */

/* `,"name":"text"` */
static void member_write(struct text_buffer *out, const char *name, const char *text)
{
    text_buffer_append_format(out, ",\"%s\":", name);
    text_buffer_append_json_string(out, text, strlen(text));
}

/* Keeps an image as it was named: its URL, or its bytes. */
static void image_write(struct text_buffer *out, const cJSON *part)
{
    const cJSON *url = cJSON_GetObjectItemCaseSensitive(part, "image_url");
    const char *detail = text_of(part, "detail");
    if (cJSON_IsObject(url)) {
        detail = detail ? detail : text_of(url, "detail");
        url = cJSON_GetObjectItemCaseSensitive(url, "url");
    }
    text_buffer_append_text(out, "{\"type\":\"input_image\"");
    member_write(out, "image_url", url->valuestring);
    member_write(out, "detail", detail ? detail : "auto");
    text_buffer_append_text(out, "}");
}

/* Keeps a video or a sound as it was named. */
static void medium_write(struct text_buffer *out, const cJSON *part)
{
    char *text = cJSON_PrintUnformatted(part);
    text_buffer_append_text(out, text ? text : "");
    out->failed = out->failed || !text;
    cJSON_free(text);
}

/* Keeps a file as it was named or sent. */
static void file_write(struct text_buffer *out, const cJSON *part)
{
    static const char *const members[] = {"filename", "file_data", "file_url"};
    text_buffer_append_text(out, "{\"type\":\"input_file\"");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const char *text = text_of(part, members[i]);
        if (text)
            member_write(out, members[i], text);
    }
    text_buffer_append_text(out, "}");
}

static void part_write(struct text_buffer *out, const char *type, const char *text)
{
    text_buffer_append_format(out, "{\"type\":\"%s\"", type);
    member_write(out, response_item_text_member(type), text);
    text_buffer_append_text(
        out, strcmp(type, "output_text") == 0 ? ",\"annotations\":[],\"logprobs\":[]}" : "}");
}

/* A string or a list of parts, as a list of parts of one type (refusals stay refusals). */
static void content_write(struct text_buffer *out, const cJSON *content, const char *type)
{
    const cJSON *part;
    text_buffer_append(out, "[", 1);
    if (cJSON_IsString(content))
        part_write(out, type, content->valuestring);
    cJSON_ArrayForEach(part, content)
    {
        if (part != content->child)
            text_buffer_append(out, ",", 1);
        const char *given = text_of(part, "type");
        if (strcmp(given, "input_image") == 0) {
            image_write(out, part);
            continue;
        }
        if (strcmp(given, "input_file") == 0) {
            file_write(out, part);
            continue;
        }
        if (request_videos_is_type(given) || request_audio_is_type(given)) {
            medium_write(out, part);
            continue;
        }
        part_write(out, strcmp(given, "refusal") == 0 ? given : type,
                   response_item_text_of_part(part));
    }
    text_buffer_append(out, "]", 1);
}

static void message_write(struct text_buffer *out, const cJSON *item)
{
    const char *role = text_of(item, "role");
    member_write(out, "role", role);
    text_buffer_append_text(out, ",\"status\":\"completed\",\"content\":");
    content_write(out, cJSON_GetObjectItemCaseSensitive(item, "content"),
                  strcmp(role, "assistant") == 0 ? "output_text" : "input_text");
}

static void reasoning_write(struct text_buffer *out, const cJSON *item)
{
    text_buffer_append_text(out, ",\"summary\":");
    content_write(out, cJSON_GetObjectItemCaseSensitive(item, "summary"), "summary_text");
    text_buffer_append_text(out, ",\"content\":");
    content_write(out, cJSON_GetObjectItemCaseSensitive(item, "content"), "reasoning_text");
    text_buffer_append_text(out, ",\"encrypted_content\":null,\"status\":\"completed\"");
}

static void call_output_write(struct text_buffer *out, const cJSON *item)
{
    const cJSON *output = cJSON_GetObjectItemCaseSensitive(item, "output");
    member_write(out, "call_id", text_of(item, "call_id"));
    if (cJSON_IsString(output)) {
        member_write(out, "output", output->valuestring);
    } else {
        text_buffer_append_text(out, ",\"output\":");
        content_write(out, output, "input_text");
    }
    text_buffer_append_text(out, ",\"status\":\"completed\"");
}

static const struct {
    const char *type;
    void (*write)(struct text_buffer *out, const cJSON *item);
} writers[] = {
    {"message", message_write},
    {"reasoning", reasoning_write},
    {"function_call_output", call_output_write},
    {"custom_tool_call_output", call_output_write},
};

void response_item_text_keep(const cJSON *item, struct response_items *items)
{
    struct text_buffer *out = &items->text;
    const char *type = response_item_type(item);
    const char *id = text_of(item, "id");
    size_t id_bytes = id ? strlen(id) : 0;
    bool has_id =
        id_bytes > 0 && id_bytes < RESPONSE_ID_BYTES && strspn(id, ID_CHARACTERS) == id_bytes;
    response_items_begin(items);
    text_buffer_append_text(out, "{");
    if (has_id)
        text_buffer_append_format(out, "\"id\":\"%s\",", id);
    text_buffer_append_format(out, "\"type\":\"%s\"", type);
    size_t i = 0;
    while (i < sizeof writers / sizeof writers[0] && strcmp(writers[i].type, type) != 0)
        i++;
    if (i < sizeof writers / sizeof writers[0])
        writers[i].write(out, item);
    else
        response_call_keep(item, type, out);
    text_buffer_append_text(out, "}");
    response_items_end(items, has_id ? NULL : response_item_prefix(type));
}
