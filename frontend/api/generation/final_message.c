/*
 * Some templates trim messages, some do not. The stripped text is searched from the end of the
 * prompt. White space after it stays if the prompt has it too, because the client may mean it.
 */
#include "frontend/api/generation/final_message.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

/* maximum that a template writes after the last message; the longest seen is 20 */
#define TAIL_BYTES 1024

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static const cJSON *last_message(const cJSON *messages, int *index)
{
    const cJSON *last = NULL;
    const cJSON *message;
    *index = -1;
    cJSON_ArrayForEach(message, messages)
    {
        last = message;
        ++*index;
    }
    return last;
}

static const char *text_of(const cJSON *message)
{
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    if (cJSON_IsArray(content) && content->child) /* the template's form of a text */
        content = cJSON_GetObjectItemCaseSensitive(content->child, "text");
    return cJSON_IsString(content) ? content->valuestring : "";
}

enum result final_message_check(const cJSON *messages, struct api_error *error)
{
    int index;
    char place[API_PARAM_BYTES];
    const cJSON *message = last_message(messages, &index);
    const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
    const char *text = text_of(message);
    snprintf(place, sizeof place, "messages[%d]", index);
    while (is_space(*text))
        text++;
    if (!role || strcmp(role, "assistant") != 0 || !*text ||
        cJSON_GetObjectItemCaseSensitive(message, "tool_calls"))
        return api_error_invalid(error, place,
                                 "only a last message of the role assistant that is text can be "
                                 "continued");
    return RESULT_OK;
}

/* The last place of `part` in the text with at most TAIL_BYTES after it, which bounds the
 * comparisons for a text that is not there. NULL: none. */
static const char *find_last(const char *text, size_t bytes, const char *part, size_t part_bytes)
{
    if (part_bytes > bytes)
        return NULL;
    const char *last = text + bytes - part_bytes;
    for (const char *at = last; at >= text && last - at <= TAIL_BYTES; at--) {
        if (memcmp(at, part, part_bytes) == 0)
            return at;
    }
    return NULL;
}

static void prompt_cut(struct chat_prompt *prompt, size_t bytes)
{
    prompt->text_bytes = bytes;
    for (size_t i = 0; i < prompt->span_count; i++) {
        struct prompt_span *span = &prompt->spans[i];
        size_t at = (size_t)(span->text - prompt->text);
        if (at >= bytes) {
            prompt->span_count = i;
            return;
        }
        if (span->text_bytes > bytes - at)
            span->text_bytes = bytes - at;
    }
}

enum result final_message_cut(const cJSON *messages, struct chat_prompt *prompt,
                              struct api_error *error)
{
    int index;
    char place[API_PARAM_BYTES];
    const char *text = text_of(last_message(messages, &index));
    while (is_space(*text))
        text++;
    size_t whole = strlen(text);
    size_t bare = whole;
    while (bare > 0 && is_space(text[bare - 1]))
        bare--;
    const char *found = find_last(prompt->text, prompt->text_bytes, text, bare);
    snprintf(place, sizeof place, "messages[%d].content", index);
    if (!found)
        return api_error_invalid(error, place,
                                 "the chat template changes this message: it cannot be continued");
    size_t at = (size_t)(found - prompt->text);
    bool spaced = prompt->text_bytes - at >= whole && memcmp(found, text, whole) == 0;
    prompt_cut(prompt, at + (spaced ? whole : bare));
    return RESULT_OK;
}
