/*
 * The words are for small models: one example, one rule, one function a line.
 */
#include "frontend/prompt/generic_tools.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/text_buffer.h"
#include "frontend/prompt/chat_template.h"

#define PROBE_NAME "shoalprobe"

static const char probe[] =
    "{\"bos_token\":\"\",\"eos_token\":\"\",\"add_generation_prompt\":true,"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"" PROBE_NAME "\","
    "\"description\":\"d\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}],"
    "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";

static const char rule[] =
    "You can call functions. To call one, answer with\n<tool_call>\n"
    "{\"name\": \"function name\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>\n"
    "The results follow between <tool_response> and </tool_response>. These are the functions, "
    "with JSON schemas of their arguments:\n";

bool generic_tools_needed(const struct chat_template *template)
{
    struct chat_prompt prompt = {0};
    struct error_text error;
    cJSON *variables = cJSON_Parse(probe);
    bool needed = variables &&
                  chat_template_render(template, variables, (const char *const[]){NULL}, 0, NULL,
                                       &prompt, &error) == RESULT_OK &&
                  !strstr(prompt.text, PROBE_NAME);
    chat_prompt_fini(&prompt);
    cJSON_Delete(variables);
    return needed;
}

static void json_append(const cJSON *value, struct text_buffer *out)
{
    char *text = cJSON_PrintUnformatted(value);
    out->failed = out->failed || !text;
    text_buffer_append_text(out, text ? text : "");
    free(text);
}

/* Replaces the message's content; false: out of memory. */
static bool content_set(cJSON *message, const struct text_buffer *text)
{
    cJSON *content = text->failed ? NULL : cJSON_CreateString(text->bytes ? text->bytes : "");
    cJSON_DeleteItemFromObjectCaseSensitive(message, "content");
    return content && cJSON_AddItemToObject(message, "content", content);
}

static const char *role_of(const cJSON *message)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
}

/* --- offered tools --------------------------------------------------------------------------- */

static bool tools_describe(cJSON *messages, const cJSON *tools)
{
    cJSON *first = messages->child;
    bool has_system = first && strcmp(role_of(first), "system") == 0;
    struct text_buffer text = {0};
    if (has_system) {
        const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(first, "content"));
        text_buffer_append_text(&text, own ? own : "");
        text_buffer_append_text(&text, own && own[0] ? "\n\n" : "");
    } else {
        first = cJSON_CreateObject();
        if (!first || !cJSON_AddStringToObject(first, "role", "system") ||
            !cJSON_InsertItemInArray(messages, 0, first)) {
            cJSON_Delete(first);
            return false;
        }
    }
    text_buffer_append_text(&text, rule);
    const cJSON *tool;
    cJSON_ArrayForEach(tool, tools)
    {
        json_append(cJSON_GetObjectItemCaseSensitive(tool, "function"), &text);
        text_buffer_append_text(&text, tool->next ? "\n" : "");
    }
    bool good = content_set(first, &text);
    text_buffer_fini(&text);
    return good;
}

/* --- past calls ------------------------------------------------------------------------------ */

static bool calls_write(cJSON *message, const cJSON *calls)
{
    const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "content"));
    struct text_buffer text = {0};
    text_buffer_append_text(&text, own ? own : "");
    const cJSON *call;
    cJSON_ArrayForEach(call, calls)
    {
        const cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function");
        const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments");
        text_buffer_append_text(&text, text.length ? "\n<tool_call>\n{\"name\": "
                                                   : "<tool_call>\n{\"name\": ");
        json_append(cJSON_GetObjectItemCaseSensitive(function, "name"), &text);
        text_buffer_append_text(&text, ", \"arguments\": ");
        if (cJSON_IsString(arguments))
            text_buffer_append_text(&text, arguments->valuestring);
        else
            json_append(arguments, &text);
        text_buffer_append_text(&text, "}\n</tool_call>");
    }
    bool good = content_set(message, &text);
    text_buffer_fini(&text);
    cJSON_DeleteItemFromObjectCaseSensitive(message, "tool_calls");
    return good;
}

static cJSON *text_part(const char *text)
{
    cJSON *part = cJSON_CreateObject();
    if (part && cJSON_AddStringToObject(part, "type", "text") &&
        cJSON_AddStringToObject(part, "text", text))
        return part;
    cJSON_Delete(part);
    return NULL;
}

/* Puts the content between marks: a string, or a list with images. */
static bool result_frame(cJSON *message)
{
    static const char begin[] = "<tool_response>\n", end[] = "\n</tool_response>";
    cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    if (cJSON_IsArray(content)) {
        cJSON *first = text_part(begin), *last = text_part(end);
        bool good = first && last && cJSON_InsertItemInArray(content, 0, first);
        if (!good)
            cJSON_Delete(first);
        if (good && cJSON_AddItemToArray(content, last))
            return true;
        cJSON_Delete(last);
        return false;
    }
    const char *own = cJSON_GetStringValue(content);
    struct text_buffer text = {0};
    text_buffer_append_text(&text, begin);
    text_buffer_append_text(&text, own ? own : "");
    text_buffer_append_text(&text, end);
    bool good = content_set(message, &text);
    text_buffer_fini(&text);
    return good;
}

/* Appends the text of `message` to `before`, if both contents are text, and removes `message`. */
static bool neighbours_join(cJSON *messages, cJSON *before, cJSON *message)
{
    const char *first = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(before, "content"));
    const char *second = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "content"));
    struct text_buffer text = {0};
    if (!first || !second)
        return true;
    text_buffer_append_text(&text, first);
    text_buffer_append_text(&text, "\n");
    text_buffer_append_text(&text, second);
    bool good = content_set(before, &text);
    text_buffer_fini(&text);
    cJSON_Delete(cJSON_DetachItemViaPointer(messages, message));
    return good;
}

static bool result_turn(cJSON *messages, cJSON *message, cJSON **result_before)
{
    cJSON *role = cJSON_CreateString("user");
    cJSON_DeleteItemFromObjectCaseSensitive(message, "role");
    cJSON_DeleteItemFromObjectCaseSensitive(message, "tool_call_id");
    cJSON_DeleteItemFromObjectCaseSensitive(message, "name");
    if (!role || !cJSON_AddItemToObject(message, "role", role) || !result_frame(message))
        return false;
    cJSON *before = *result_before;
    bool joins = before && cJSON_IsString(cJSON_GetObjectItemCaseSensitive(before, "content")) &&
                 cJSON_IsString(cJSON_GetObjectItemCaseSensitive(message, "content"));
    *result_before = joins ? before : message;
    return !joins || neighbours_join(messages, before, message);
}

enum result generic_tools_apply(cJSON *messages, const cJSON *tools)
{
    bool good = true;
    cJSON *result_before = NULL, *next;
    for (cJSON *message = messages->child; message && good; message = next) {
        next = message->next;
        const cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls");
        bool is_result = strcmp(role_of(message), "tool") == 0;
        if (is_result)
            good = result_turn(messages, message, &result_before);
        else
            result_before = NULL;
        if (!is_result && cJSON_IsArray(calls) && calls->child)
            good = calls_write(message, calls);
    }
    if (good && tools)
        good = tools_describe(messages, tools);
    return good ? RESULT_OK : RESULT_OUT_OF_MEMORY;
}
