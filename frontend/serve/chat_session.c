/*
 * Messages are kept in the form of chat requests. A line that ends with a backslash continues with
 * the next one. Images wait until the user says something and are sent before the text.
 */
#include "frontend/serve/chat_session.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontend/base/base64.h"
#include "frontend/base/utf8_stream.h"
#include "frontend/image/data_uri.h"
#include "frontend/image/media_folder.h"
#include "proto/must.h"

#define FILE_BYTES_MAX (64u << 20) /* of a conversation that is loaded */

struct chat_session {
    const struct options *options;
    cJSON *messages;
    cJSON *settings;         /* fields of the request beside messages */
    cJSON *images;           /* parts for the next message */
    struct text_buffer said; /* lines so far that end with a backslash */
};

static cJSON *made(cJSON *item)
{
    must(item != NULL);
    return item;
}

/* --- create, destroy ------------------------------------------------------------------------- */

/* Sets a field of the requests. False: the value is neither a number nor true or false. */
static bool setting_set(struct chat_session *session, const char *name, const char *value)
{
    cJSON *item = cJSON_Parse(value);
    if (!cJSON_IsNumber(item) && !cJSON_IsBool(item)) {
        cJSON_Delete(item);
        return false;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(session->settings, name);
    must(cJSON_AddItemToObject(session->settings, name, item));
    return true;
}

struct chat_session *chat_session_create(const struct options *options)
{
    const struct {
        const char *name;
        const char *value;
    } given[] = {{"temperature", options->temperature},
                 {"top_p", options->top_p},
                 {"top_k", options->top_k},
                 {"seed", options->seed}};
    struct chat_session *session = must_alloc(1, sizeof *session);
    session->options = options;
    session->messages = made(cJSON_CreateArray());
    session->settings = made(cJSON_CreateObject());
    session->images = made(cJSON_CreateArray());
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (given[i].value && !setting_set(session, given[i].name, given[i].value))
            (void)cJSON_AddStringToObject(session->settings, given[i].name, given[i].value);
    }
    return session;
}

void chat_session_destroy(struct chat_session *session)
{
    if (!session)
        return;
    cJSON_Delete(session->messages);
    cJSON_Delete(session->settings);
    cJSON_Delete(session->images);
    text_buffer_fini(&session->said);
    free(session);
}

/* --- messages -------------------------------------------------------------------------------- */

/* Text of any bytes as a JSON string. */
static cJSON *text_create(const char *bytes, size_t count)
{
    struct utf8_stream stream = {0};
    struct text_buffer valid = {0};
    utf8_stream_push(&stream, bytes, count, &valid);
    utf8_stream_finish(&stream, &valid);
    must(!valid.failed);
    cJSON *text = made(cJSON_CreateString(valid.bytes ? valid.bytes : ""));
    text_buffer_fini(&valid);
    return text;
}

/* Takes over `content`. */
static void message_add(struct chat_session *session, const char *role, cJSON *content)
{
    cJSON *message = made(cJSON_CreateObject());
    must(cJSON_AddStringToObject(message, "role", role) &&
         cJSON_AddItemToObject(message, "content", content) &&
         cJSON_AddItemToArray(session->messages, message));
}

static cJSON *last_message(const struct chat_session *session)
{
    return cJSON_GetArrayItem(session->messages, cJSON_GetArraySize(session->messages) - 1);
}

static bool has_role(const cJSON *message, const char *role)
{
    const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
    return own && strcmp(own, role) == 0;
}

/* Removes the last message if it has this role. */
static bool last_drop(struct chat_session *session, const char *role)
{
    cJSON *last = last_message(session);
    if (!has_role(last, role))
        return false;
    cJSON_Delete(cJSON_DetachItemViaPointer(session->messages, last));
    return true;
}

static void user_says(struct chat_session *session, const char *text, size_t bytes)
{
    cJSON *words = text_create(text, bytes);
    if (!session->images->child) {
        message_add(session, "user", words);
        return;
    }
    cJSON *part = made(cJSON_CreateObject());
    must(cJSON_AddStringToObject(part, "type", "text") &&
         cJSON_AddItemToObject(part, "text", words) && cJSON_AddItemToArray(session->images, part));
    message_add(session, "user", session->images);
    session->images = made(cJSON_CreateArray());
}

void chat_session_answer(struct chat_session *session, const char *text, size_t bytes)
{
    message_add(session, "assistant", text_create(text, bytes));
}

void chat_session_drop(struct chat_session *session)
{
    (void)last_drop(session, "user");
}

char *chat_session_body(const struct chat_session *session)
{
    cJSON *body = cJSON_Duplicate(session->settings, true);
    char *text = NULL;
    if (body && cJSON_AddItemReferenceToObject(body, "messages", session->messages))
        text = cJSON_PrintUnformatted(body);
    cJSON_Delete(body);
    return text;
}

/* --- commands -------------------------------------------------------------------------------- */

static enum chat_action command_help(struct chat_session *session, const char *argument,
                                     struct text_buffer *out);

static enum chat_action command_exit(struct chat_session *session, const char *argument,
                                     struct text_buffer *out)
{
    (void)session;
    (void)argument;
    (void)out;
    return CHAT_ACTION_EXIT;
}

static enum chat_action command_clear(struct chat_session *session, const char *argument,
                                      struct text_buffer *out)
{
    (void)argument;
    cJSON_Delete(session->messages);
    cJSON_Delete(session->images);
    session->messages = made(cJSON_CreateArray());
    session->images = made(cJSON_CreateArray());
    text_buffer_append_text(out, "The conversation is empty.\n");
    return CHAT_ACTION_NONE;
}

static enum chat_action command_undo(struct chat_session *session, const char *argument,
                                     struct text_buffer *out)
{
    (void)argument;
    bool any = last_drop(session, "assistant");
    any |= last_drop(session, "user");
    text_buffer_append_text(out, any ? "The last turn is removed.\n" : "There is no turn.\n");
    return CHAT_ACTION_NONE;
}

static enum chat_action command_retry(struct chat_session *session, const char *argument,
                                      struct text_buffer *out)
{
    (void)argument;
    (void)last_drop(session, "assistant");
    if (has_role(last_message(session), "user"))
        return CHAT_ACTION_ASK;
    text_buffer_append_text(out, "There is no turn.\n");
    return CHAT_ACTION_NONE;
}

static enum chat_action command_image(struct chat_session *session, const char *argument,
                                      struct text_buffer *out)
{
    struct file_bytes file;
    struct error_text why;
    struct text_buffer uri = {0};
    if (media_folder_read_own(argument, session->options->max_image_bytes, &file, &why) !=
        RESULT_OK) {
        text_buffer_append_format(out, "%s\n", why.text);
        return CHAT_ACTION_NONE;
    }
    text_buffer_append_text(&uri, "data:;base64,");
    base64_append(file.bytes, file.count, &uri);
    file_bytes_fini(&file);
    must(!uri.failed);
    cJSON *part = made(cJSON_CreateObject());
    must(cJSON_AddStringToObject(part, "type", "image_url") &&
         cJSON_AddStringToObject(part, "image_url", uri.bytes) &&
         cJSON_AddItemToArray(session->images, part));
    text_buffer_fini(&uri);
    text_buffer_append_text(out, "The image goes with your next message.\n");
    return CHAT_ACTION_NONE;
}

/* Replaces the system message; without a text, removes it. */
static enum chat_action command_system(struct chat_session *session, const char *argument,
                                       struct text_buffer *out)
{
    cJSON *first = cJSON_GetArrayItem(session->messages, 0);
    if (has_role(first, "system"))
        cJSON_Delete(cJSON_DetachItemViaPointer(session->messages, first));
    if (argument[0]) {
        message_add(session, "system", text_create(argument, strlen(argument)));
        cJSON *added = cJSON_DetachItemViaPointer(session->messages, last_message(session));
        must(cJSON_InsertItemInArray(session->messages, 0, added));
    }
    text_buffer_append_text(out, argument[0] ? "The system message is set.\n"
                                             : "There is no system message.\n");
    return CHAT_ACTION_NONE;
}

static enum chat_action command_set(struct chat_session *session, const char *argument,
                                    struct text_buffer *out)
{
    static const char *const names[] = {
        "temperature",        "top_p",          "top_k", "min_p", "seed", "max_tokens",
        "repetition_penalty", "enable_thinking"};
    size_t length = strcspn(argument, " ");
    const char *value = argument + length + strspn(argument + length, " ");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], argument, length) == 0) {
            if (setting_set(session, names[i], value))
                return CHAT_ACTION_NONE;
            text_buffer_append_format(out, "%s needs a number, true or false.\n", names[i]);
            return CHAT_ACTION_NONE;
        }
    }
    text_buffer_append_text(out, "Settings:");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        text_buffer_append_format(out, " %s", names[i]);
    text_buffer_append_text(out, "\n");
    return CHAT_ACTION_NONE;
}

static enum chat_action command_history(struct chat_session *session, const char *argument,
                                        struct text_buffer *out)
{
    (void)argument;
    const cJSON *message;
    cJSON_ArrayForEach(message, session->messages)
    {
        const cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
        const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
        text_buffer_append_format(out, "%s: ", role ? role : "?");
        const cJSON *part = cJSON_IsArray(content) ? content->child : NULL;
        for (; part; part = part->next) {
            const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(part, "text"));
            text_buffer_append_text(out, text ? text : "[image] ");
        }
        if (cJSON_IsString(content))
            text_buffer_append_text(out, content->valuestring);
        text_buffer_append_text(out, "\n");
    }
    return CHAT_ACTION_NONE;
}

static enum chat_action command_save(struct chat_session *session, const char *argument,
                                     struct text_buffer *out)
{
    char *text = cJSON_Print(session->messages);
    FILE *file = argument[0] ? fopen(argument, "we") : NULL;
    bool good = file && text && fputs(text, file) >= 0 && fputc('\n', file) != EOF;
    if (file && fclose(file) != 0)
        good = false;
    cJSON_free(text);
    if (good)
        text_buffer_append_format(out, "The conversation is in %s.\n", argument);
    else
        text_buffer_append_format(out, "cannot write '%s': %s\n", argument,
                                  argument[0] ? strerror(errno) : "no file is named");
    return CHAT_ACTION_NONE;
}

/* True if it is a list of objects with a role, which the reader of requests checks further. */
static bool is_conversation(const cJSON *list)
{
    const cJSON *message;
    if (!cJSON_IsArray(list))
        return false;
    cJSON_ArrayForEach(message, list)
    {
        if (!cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role")))
            return false;
    }
    return true;
}

static enum chat_action command_load(struct chat_session *session, const char *argument,
                                     struct text_buffer *out)
{
    struct file_bytes file;
    struct error_text why;
    if (media_folder_read_own(argument, FILE_BYTES_MAX, &file, &why) != RESULT_OK) {
        text_buffer_append_format(out, "%s\n", why.text);
        return CHAT_ACTION_NONE;
    }
    cJSON *list = cJSON_ParseWithLength((const char *)file.bytes, file.count);
    file_bytes_fini(&file);
    if (!is_conversation(list)) {
        cJSON_Delete(list);
        text_buffer_append_text(out, "The file has no conversation.\n");
        return CHAT_ACTION_NONE;
    }
    cJSON_Delete(session->messages);
    session->messages = list;
    text_buffer_append_format(out, "%d messages are loaded.\n", cJSON_GetArraySize(list));
    return CHAT_ACTION_NONE;
}

static const struct {
    const char *name;
    enum chat_action (*run)(struct chat_session *session, const char *argument,
                            struct text_buffer *out);
    const char *help;
} commands[] = {
    {"help", command_help, "this list"},
    {"image", command_image, "PATH: an image for the next message"},
    {"system", command_system, "TEXT: the system message; without a text there is none"},
    {"set", command_set, "NAME VALUE: temperature, top_p, max_tokens, …"},
    {"retry", command_retry, "another answer to the last message"},
    {"undo", command_undo, "removes the last message and its answer"},
    {"clear", command_clear, "begins a new conversation"},
    {"history", command_history, "shows the conversation"},
    {"save", command_save, "PATH: writes the conversation as JSON"},
    {"load", command_load, "PATH: reads it again"},
    {"exit", command_exit, "ends the program, as does the end of input"},
    {"quit", command_exit, "the same"},
};

static enum chat_action command_help(struct chat_session *session, const char *argument,
                                     struct text_buffer *out)
{
    (void)session;
    (void)argument;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        text_buffer_append_format(out, "/%-8s %s\n", commands[i].name, commands[i].help);
    text_buffer_append_text(out, "A line that ends with \\ continues. Ctrl-C ends an answer.\n");
    return CHAT_ACTION_NONE;
}

static enum chat_action command_run(struct chat_session *session, const char *line,
                                    struct text_buffer *out)
{
    size_t length = strcspn(line, " ");
    const char *argument = line + length + strspn(line + length, " ");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strlen(commands[i].name) == length && memcmp(commands[i].name, line, length) == 0)
            return commands[i].run(session, argument, out);
    }
    text_buffer_append_format(out, "There is no command /%.*s; /help lists them.\n",
                              length > 32 ? 32 : (int)length, line);
    return CHAT_ACTION_NONE;
}

enum chat_action chat_session_take(struct chat_session *session, const char *line, size_t bytes,
                                   struct text_buffer *out)
{
    struct text_buffer *said = &session->said;
    bool goes_on = bytes > 0 && line[bytes - 1] == '\\';
    bool is_first = said->length == 0;
    text_buffer_append(said, line, goes_on ? bytes - 1 : bytes);
    if (goes_on)
        text_buffer_append_text(said, "\n");
    must(!said->failed);
    if (goes_on)
        return CHAT_ACTION_NONE;
    enum chat_action action = CHAT_ACTION_NONE;
    if (is_first && said->length > 0 && said->bytes[0] == '/' && !memchr(line, '\0', bytes)) {
        action = command_run(session, said->bytes + 1, out);
    } else if (said->length > 0) {
        user_says(session, said->bytes, said->length);
        action = CHAT_ACTION_ASK;
    }
    text_buffer_clear(said);
    return action;
}
