/*
 * Chunks of different servers have different additional fields; the tool only needs to know whether
 * the client got text. A first chunk with only a role is not text: it costs no computation, and
 * counting it would turn the time to the first token into a measure of the network. Reasoning
 * counts as text, under either of the two names in use, and so does a piece of a tool call.
 */
#include "scripts/load/chat_event.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

static bool is_text(const cJSON *item)
{
    return cJSON_IsString(item) && item->valuestring[0] != '\0';
}

static void read_choice(const cJSON *choice, struct chat_event *event)
{
    const cJSON *delta = cJSON_GetObjectItemCaseSensitive(choice, "delta");
    static const char *const fields[] = {"content", "reasoning_content", "reasoning"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        event->has_text |= is_text(cJSON_GetObjectItemCaseSensitive(delta, fields[i]));
    const cJSON *calls = cJSON_GetObjectItemCaseSensitive(delta, "tool_calls");
    event->has_text |= cJSON_IsArray(calls) && calls->child != NULL;
    event->finished |= is_text(cJSON_GetObjectItemCaseSensitive(choice, "finish_reason"));
}

static bool read_count(const cJSON *usage, const char *name, uint32_t *count)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(usage, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= UINT32_MAX))
        return false;
    *count = (uint32_t)item->valuedouble;
    return true;
}

static void read_error(const cJSON *error, struct chat_event *event)
{
    event->is_error = true;
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(error, "code");
    const cJSON *words = cJSON_GetObjectItemCaseSensitive(error, "message");
    snprintf(event->error, sizeof event->error, "%s: %s",
             is_text(code) ? code->valuestring : "error",
             is_text(words) ? words->valuestring : "no message");
}

enum result chat_event_read(const char *data, size_t length, struct chat_event *event)
{
    *event = (struct chat_event){0};
    if (length == 6 && memcmp(data, "[DONE]", 6) == 0) {
        event->done = true;
        return RESULT_OK;
    }
    cJSON *object = cJSON_ParseWithLength(data, length);
    if (!cJSON_IsObject(object)) {
        cJSON_Delete(object);
        return RESULT_CORRUPT;
    }
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(object, "error");
    if (error && !cJSON_IsNull(error))
        read_error(error, event);
    const cJSON *choice;
    cJSON_ArrayForEach(choice, cJSON_GetObjectItemCaseSensitive(object, "choices"))
        read_choice(choice, event);
    const cJSON *usage = cJSON_GetObjectItemCaseSensitive(object, "usage");
    event->has_usage = read_count(usage, "prompt_tokens", &event->prompt_tokens) &&
                       read_count(usage, "completion_tokens", &event->completion_tokens);
    cJSON_Delete(object);
    return RESULT_OK;
}
