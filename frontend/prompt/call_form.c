/*
 * The API carries arguments as text and missing content as null; templates expect various forms and
 * do not declare which.
 *
 * So the form is probed: a conversation with one call is rendered in each form, and the output is
 * searched for the call's argument. A template that never prints it has no calls; then only the
 * content's form matters.
 */
#include "frontend/prompt/call_form.h"

#include <cjson/cJSON.h>
#include <stdint.h>
#include <string.h>

#include "frontend/prompt/chat_template.h"

#define NINE_ID    "abcdefghi"
#define PROBE_TEXT "shoalprobe" /* an argument's value that no template prints by itself */

static const char conversation[] =
    "{\"bos_token\":\"\",\"eos_token\":\"\",\"add_generation_prompt\":true,"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}}}],"
    "\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"" NINE_ID "\","
    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":\"" PROBE_TEXT
    "\"}}}]},"
    "{\"role\":\"tool\",\"name\":\"f\",\"tool_call_id\":\"" NINE_ID "\",\"content\":\"y\"}]}";

#define LONG_ID "call_0123456789abcdef" /* as clients send them */

/* What the output of one form contains. */
struct trial {
    bool renders;
    bool shows_call;
    size_t nones; /* occurrences of None */
};

/* Sets the id of the conversation's call and of its result. */
static bool ids_set(cJSON *messages, const char *id)
{
    cJSON *calls = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(messages, 1), "tool_calls");
    cJSON *of_call = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(calls, 0), "id");
    cJSON *of_result =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(messages, 2), "tool_call_id");
    return cJSON_SetValuestring(of_call, id) && cJSON_SetValuestring(of_result, id);
}

static struct trial form_try(const struct chat_template *template, const struct call_form *form,
                             const char *id)
{
    struct trial trial = {0};
    struct chat_prompt prompt = {0};
    struct error_text error;
    cJSON *variables = cJSON_Parse(conversation);
    cJSON *messages = cJSON_GetObjectItemCaseSensitive(variables, "messages");
    if (variables && ids_set(messages, id) && call_form_apply(form, messages) == RESULT_OK &&
        chat_template_render(template, variables, (const char *const[]){NULL}, 0, NULL, &prompt,
                             &error) == RESULT_OK) {
        trial.renders = true;
        trial.shows_call = strstr(prompt.text, PROBE_TEXT) != NULL;
        for (const char *at = prompt.text; (at = strstr(at, "None")); at++)
            trial.nones++;
    }
    chat_prompt_fini(&prompt);
    cJSON_Delete(variables);
    return trial;
}

/* The content's form for a template that takes both, or neither. */
static enum call_content content_find(struct trial empty, struct trial null)
{
    if (empty.renders && (!null.renders || null.nones > empty.nones))
        return CALL_CONTENT_EMPTY;
    return CALL_CONTENT_AS_SENT;
}

struct call_form call_form_find(const struct chat_template *template)
{
    struct call_form found = {0};
    for (int text = 0; text < 2; text++) {
        struct call_form form = {.arguments_are_text = text, .content = CALL_CONTENT_EMPTY};
        struct trial empty = form_try(template, &form, NINE_ID);
        form.content = CALL_CONTENT_NULL;
        struct trial null = form_try(template, &form, NINE_ID);
        if (empty.shows_call || !null.shows_call)
            form.content = content_find(empty, null);
        if (empty.shows_call && !null.shows_call)
            form.content = CALL_CONTENT_EMPTY;
        if (text == 0)
            found.content = form.content;
        if (empty.shows_call || null.shows_call) {
            form.nine_character_ids = !form_try(template, &form, LONG_ID).shows_call;
            return form;
        }
    }
    return found;
}

/* Replaces one call's arguments by the output of tojson for them. */
static enum result arguments_write_text(const struct chat_template *printer, cJSON *function)
{
    cJSON *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments");
    if (!cJSON_IsObject(arguments))
        return RESULT_OK;
    struct chat_prompt text = {0};
    struct error_text error;
    cJSON *variables = cJSON_CreateObject(), *printed = NULL;
    if (cJSON_AddItemReferenceToObject(variables, "arguments", arguments) &&
        chat_template_render(printer, variables, (const char *const[]){NULL}, 0, NULL, &text,
                             &error) == RESULT_OK)
        printed = cJSON_CreateString(text.text);
    cJSON_Delete(variables);
    chat_prompt_fini(&text);
    if (printed && cJSON_ReplaceItemInObjectCaseSensitive(function, "arguments", printed))
        return RESULT_OK;
    cJSON_Delete(printed);
    return RESULT_OUT_OF_MEMORY;
}

static enum result calls_write_text(const struct chat_template *printer, const cJSON *calls)
{
    enum result result = RESULT_OK;
    const cJSON *call;
    cJSON_ArrayForEach(call, calls)
    {
        if (result == RESULT_OK)
            result =
                arguments_write_text(printer, cJSON_GetObjectItemCaseSensitive(call, "function"));
    }
    return result;
}

/* Replaces any other id by nine letters and digits of its hash (FNV-1a). */
static enum result id_make_nine(cJSON *object, const char *name)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsString(id) ||
        (strlen(id->valuestring) == 9 && strspn(id->valuestring, alphabet) == 9))
        return RESULT_OK;
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *at = id->valuestring; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    char nine[10] = "";
    for (int i = 0; i < 9; i++, hash /= 62)
        nine[i] = alphabet[hash % 62];
    cJSON *made = cJSON_CreateString(nine);
    if (made && cJSON_ReplaceItemInObjectCaseSensitive(object, name, made))
        return RESULT_OK;
    cJSON_Delete(made);
    return RESULT_OUT_OF_MEMORY;
}

static enum result ids_make_nine(cJSON *message, const cJSON *calls)
{
    enum result result = id_make_nine(message, "tool_call_id");
    cJSON *call;
    cJSON_ArrayForEach(call, calls)
    {
        if (result == RESULT_OK)
            result = id_make_nine(call, "id");
    }
    return result;
}

/* Sets the content of a message that has calls and no content. */
static enum result content_set(cJSON *message, enum call_content form)
{
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
    bool is_none = !content || cJSON_IsNull(content) ||
                   (cJSON_IsString(content) && content->valuestring[0] == '\0');
    if (form == CALL_CONTENT_AS_SENT || !is_none)
        return RESULT_OK;
    cJSON *wanted = form == CALL_CONTENT_EMPTY ? cJSON_CreateString("") : cJSON_CreateNull();
    bool is_set = content ? cJSON_ReplaceItemInObjectCaseSensitive(message, "content", wanted)
                          : cJSON_AddItemToObject(message, "content", wanted);
    if (!is_set)
        cJSON_Delete(wanted);
    return is_set ? RESULT_OK : RESULT_OUT_OF_MEMORY;
}

enum result call_form_apply(const struct call_form *form, cJSON *messages)
{
    static const char source[] = "{{ arguments|tojson }}";
    struct chat_template *printer = NULL;
    struct error_text error;
    enum result result = RESULT_OK;
    cJSON *message;
    cJSON_ArrayForEach(message, messages)
    {
        const cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls");
        if (form->nine_character_ids)
            result = ids_make_nine(message, calls);
        if (result != RESULT_OK)
            break;
        if (!calls || !calls->child)
            continue;
        if (form->arguments_are_text && !printer)
            result = chat_template_open(source, sizeof source - 1, &printer, &error);
        if (result == RESULT_OK && printer)
            result = calls_write_text(printer, calls);
        if (result == RESULT_OK)
            result = content_set(message, form->content);
        if (result != RESULT_OK)
            break;
    }
    chat_template_close(printer);
    return result;
}

bool call_form_fill_content(cJSON *messages)
{
    bool changed = false;
    cJSON *message;
    cJSON_ArrayForEach(message, messages)
    {
        const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
        const cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
        if (role && strcmp(role, "assistant") == 0 && (!content || cJSON_IsNull(content)) &&
            content_set(message, CALL_CONTENT_EMPTY) == RESULT_OK)
            changed = true;
    }
    return changed;
}
