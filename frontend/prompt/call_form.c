/*
 * The API carries arguments as text and no content as null; templates want them in one form or
 * another, and nothing says which.
 *
 * So the template is asked: a conversation with one call is rendered in each form, and the call's
 * argument is looked for. A template that never shows it has no calls, and then the form does not
 * matter.
 */
#include "frontend/prompt/call_form.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/prompt/chat_template.h"

#define SIGN "shoalprobe" /* an argument's value, which no template says by itself */

static const char conversation[] =
    "{\"bos_token\":\"\",\"eos_token\":\"\",\"add_generation_prompt\":true,"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}}}],"
    "\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"abcdefghi\","
    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":\"" SIGN "\"}}}]},"
    "{\"role\":\"tool\",\"name\":\"f\",\"tool_call_id\":\"abcdefghi\",\"content\":\"y\"}]}";

/* What a rendering of the conversation in a form shows. */
struct trial {
    bool shows_call;
    size_t nones; /* times that it says None */
};

static struct trial form_try(const struct chat_template *template, const struct call_form *form)
{
    struct trial trial = {0};
    struct chat_prompt prompt = {0};
    struct error_text error;
    cJSON *variables = cJSON_Parse(conversation);
    cJSON *messages = cJSON_GetObjectItemCaseSensitive(variables, "messages");
    if (variables && call_form_apply(form, messages) == RESULT_OK &&
        chat_template_render(template, variables, (const char *const[]){NULL}, 0, &prompt,
                             &error) == RESULT_OK) {
        trial.shows_call = strstr(prompt.text, SIGN) != NULL;
        for (const char *at = prompt.text; (at = strstr(at, "None")); at++)
            trial.nones++;
    }
    chat_prompt_fini(&prompt);
    cJSON_Delete(variables);
    return trial;
}

struct call_form call_form_find(const struct chat_template *template)
{
    for (int text = 0; text < 2; text++) {
        struct call_form form = {.arguments_are_text = text, .content = CALL_CONTENT_EMPTY};
        struct trial empty = form_try(template, &form);
        form.content = CALL_CONTENT_NULL;
        struct trial null = form_try(template, &form);
        if (empty.shows_call && null.shows_call)
            form.content = null.nones > empty.nones ? CALL_CONTENT_EMPTY : CALL_CONTENT_AS_SENT;
        else if (empty.shows_call)
            form.content = CALL_CONTENT_EMPTY;
        if (empty.shows_call || null.shows_call)
            return form;
    }
    return (struct call_form){0};
}

/* Replaces one call's arguments by what tojson makes of them. */
static enum result arguments_write_text(const struct chat_template *printer, cJSON *function)
{
    cJSON *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments");
    if (!cJSON_IsObject(arguments))
        return RESULT_OK;
    struct chat_prompt text = {0};
    struct error_text error;
    cJSON *variables = cJSON_CreateObject(), *printed = NULL;
    if (cJSON_AddItemReferenceToObject(variables, "arguments", arguments) &&
        chat_template_render(printer, variables, (const char *const[]){NULL}, 0, &text, &error) ==
            RESULT_OK)
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

/* The content beside a call, if there is none. */
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
