/*
 * Random prompts differ from their first word on, so that no prefix cache makes a server look
 * faster than it is; a data set sends realistic prompts. The words are common enough to be about
 * one token each for most tokenizers.
 *
 * Each request has its own connection: `Connection: close` is sent, and the server's end of the
 * connection ends the exchange whatever its framing.
 */
#include "scripts/load/chat_prompt.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

static const char *const words_in_use[] = {
    "river",  "stone",  "light",   "winter",  "garden",  "copper",  "engine",  "market",
    "silver", "window", "harvest", "distant", "kitchen", "paper",   "morning", "signal",
    "bridge", "yellow", "forest",  "candle",  "anchor",  "thunder", "village", "pocket",
    "meadow", "mirror", "hammer",  "island",  "ladder",  "button",  "shadow",  "castle"};
#define WORDS_IN_USE (sizeof words_in_use / sizeof words_in_use[0])

/* --- data sets ------------------------------------------------------------------------------- */

/* The messages in `value`, as JSON text; NULL if it has none of the known forms. */
static char *messages_of(const cJSON *value)
{
    const cJSON *list = value;
    if (cJSON_IsObject(value)) {
        const cJSON *prompt = cJSON_GetObjectItemCaseSensitive(value, "prompt");
        list = cJSON_GetObjectItemCaseSensitive(value, "messages");
        if (!list)
            list = cJSON_GetObjectItemCaseSensitive(value, "conversation");
        if (!list && cJSON_IsString(prompt)) {
            struct text_buffer out = {0};
            text_buffer_append_text(&out, "[{\"role\":\"user\",\"content\":");
            text_buffer_append_json_string(&out, prompt->valuestring, strlen(prompt->valuestring));
            text_buffer_append_text(&out, "}]");
            must(!out.failed);
            return out.bytes;
        }
    }
    return cJSON_IsArray(list) && list->child ? cJSON_PrintUnformatted(list) : NULL;
}

static enum result read_line(struct chat_dataset *dataset, const char *line, size_t length,
                             size_t number, struct error_text *error)
{
    if (length > CHAT_PROMPT_LINE_BYTES || dataset->count >= CHAT_PROMPT_LINES)
        return error_set(error, RESULT_TOO_LARGE, "line %zu: too long, or too many", number);
    cJSON *value = cJSON_ParseWithLength(line, length);
    char *messages = messages_of(value);
    cJSON_Delete(value);
    if (!messages)
        return error_set(error, RESULT_INVALID, "line %zu: no messages in it", number);
    dataset->messages = realloc(dataset->messages, (dataset->count + 1) * sizeof(char *));
    must(dataset->messages != NULL);
    dataset->messages[dataset->count++] = messages;
    return RESULT_OK;
}

enum result chat_dataset_read(const char *path, struct chat_dataset *dataset,
                              struct error_text *error)
{
    *dataset = (struct chat_dataset){0};
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(error, RESULT_IO, "%s: %s", path, strerror(errno));
    char *line = NULL;
    size_t capacity = 0;
    enum result result = RESULT_OK;
    size_t number = 0;
    for (ssize_t length; result == RESULT_OK && (length = getline(&line, &capacity, file)) >= 0;) {
        number++;
        if (strspn(line, " \t\r\n") < (size_t)length)
            result = read_line(dataset, line, (size_t)length, number, error);
    }
    free(line);
    fclose(file);
    if (result == RESULT_OK && dataset->count == 0)
        result = error_set(error, RESULT_INVALID, "%s has no conversations", path);
    if (result != RESULT_OK)
        chat_dataset_fini(dataset);
    return result;
}

void chat_dataset_fini(struct chat_dataset *dataset)
{
    for (size_t i = 0; i < dataset->count; i++)
        free(dataset->messages[i]);
    free(dataset->messages);
    *dataset = (struct chat_dataset){0};
}

/* --- requests -------------------------------------------------------------------------------- */

void chat_prompt_write_words(struct load_random *random, uint32_t words, struct text_buffer *out)
{
    text_buffer_append_text(out, "[{\"role\":\"user\",\"content\":\"");
    for (uint32_t i = 0; i < words; i++) {
        if (i > 0)
            text_buffer_append(out, " ", 1);
        text_buffer_append_text(out, words_in_use[load_random_below(random, WORDS_IN_USE)]);
    }
    text_buffer_append_text(out, "\"}]");
}

static void write_head(const struct chat_target *target, const char *path, const char *length,
                       struct text_buffer *out)
{
    text_buffer_append_format(out,
                              "POST %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: shoal-load\r\n"
                              "Content-Type: application/json\r\nAccept: text/event-stream\r\n"
                              "Connection: close\r\n",
                              target->prefix, path, target->host);
    if (target->api_key)
        text_buffer_append_format(out, "Authorization: Bearer %s\r\n", target->api_key);
    text_buffer_append_format(out, "Content-Length: %s\r\n\r\n", length);
}

static void write_request(const struct chat_target *target, const char *path,
                          const struct text_buffer *body, struct text_buffer *out)
{
    char length[24];
    must(!body->failed);
    snprintf(length, sizeof length, "%zu", body->length);
    write_head(target, path, length, out);
    text_buffer_append(out, body->bytes, body->length);
    must(!out->failed);
}

void chat_prompt_write_request(const struct chat_target *target, const char *messages,
                               uint32_t output_tokens, struct text_buffer *out)
{
    struct text_buffer body = {0};
    text_buffer_append_text(&body, "{\"model\":");
    text_buffer_append_json_string(&body, target->model, strlen(target->model));
    text_buffer_append_format(&body,
                              ",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                              "\"max_tokens\":%u,",
                              output_tokens);
    if (target->extra_body)
        text_buffer_append_format(&body, "%s,", target->extra_body);
    text_buffer_append_format(&body, "\"messages\":%s}", messages);
    write_request(target, "/v1/chat/completions", &body, out);
    text_buffer_fini(&body);
}

void chat_prompt_write_bad(const struct chat_target *target, struct load_random *random,
                           struct text_buffer *out)
{
    static const char *const bodies[] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hel",
        "{\"messages\":5}",
        "{\"messages\":[]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":-1}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":\"hot\"}",
        "[]",
        "",
    };
    const size_t body_count = sizeof bodies / sizeof bodies[0];
    uint64_t kind = load_random_below(random, body_count + 2);
    if (kind == body_count) {
        write_head(target, "/v1/chat/completions", "ten", out);
        return;
    }
    struct text_buffer body = {0};
    text_buffer_append_text(&body, bodies[kind < body_count ? kind : 0]);
    const char *path = kind < body_count ? "/v1/chat/completions" : "/v1/nothing/here";
    write_request(target, path, &body, out);
    text_buffer_fini(&body);
}

enum result chat_prompt_check_extra(const char *text, char **inside)
{
    *inside = NULL;
    cJSON *object = cJSON_Parse(text);
    char *inner = cJSON_IsObject(object) ? cJSON_PrintUnformatted(object) : NULL;
    bool empty = inner && !object->child;
    cJSON_Delete(object);
    if (!inner)
        return RESULT_INVALID;
    size_t length = strlen(inner) - 2;
    memmove(inner, inner + 1, length);
    inner[length] = '\0';
    if (empty)
        free(inner);
    else
        *inside = inner;
    return RESULT_OK;
}
