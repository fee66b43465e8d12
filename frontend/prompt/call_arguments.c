/*
 * The API carries arguments as text, templates want them in one of two forms and nothing says
 * which.
 *
 * So the template is asked: a conversation with one call is rendered with an object and, where that
 * fails or leaves the argument out, with text. A template that shows neither has no calls, and then
 * the form does not matter.
 */
#include "frontend/prompt/call_arguments.h"

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

static bool shows_sign(const struct chat_template *template, const cJSON *variables)
{
    struct chat_prompt prompt = {0};
    struct error_text error;
    bool shows = chat_template_render(template, variables, (const char *const[]){NULL}, 0, &prompt,
                                      &error) == RESULT_OK &&
                 strstr(prompt.text, SIGN) != NULL;
    chat_prompt_fini(&prompt);
    return shows;
}

/* With an empty text beside the call, or with none: a template may know calls by one of these. */
static bool shows_arguments(const struct chat_template *template, const cJSON *variables)
{
    cJSON *messages = cJSON_GetObjectItemCaseSensitive(variables, "messages");
    cJSON *content = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(messages, 1), "content");
    if (shows_sign(template, variables))
        return true;
    int type = content->type; /* "" and null have nothing that is freed differently */
    content->type = cJSON_NULL;
    bool shows = shows_sign(template, variables);
    content->type = type;
    return shows;
}

bool call_arguments_are_text(const struct chat_template *template)
{
    cJSON *variables = cJSON_Parse(conversation);
    bool are_text = variables && !shows_arguments(template, variables) &&
                    call_arguments_write_text(
                        cJSON_GetObjectItemCaseSensitive(variables, "messages")) == RESULT_OK &&
                    shows_arguments(template, variables);
    cJSON_Delete(variables);
    return are_text;
}

/* Replaces one call's arguments by what tojson makes of them. */
static enum result call_write_text(const struct chat_template *printer, cJSON *function)
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

enum result call_arguments_write_text(cJSON *messages)
{
    static const char source[] = "{{ arguments|tojson }}";
    struct chat_template *printer;
    struct error_text error;
    enum result result = chat_template_open(source, sizeof source - 1, &printer, &error);
    if (result != RESULT_OK)
        return RESULT_OUT_OF_MEMORY;
    cJSON *message, *call;
    cJSON_ArrayForEach(message, messages)
    {
        cJSON_ArrayForEach(call, cJSON_GetObjectItemCaseSensitive(message, "tool_calls"))
        {
            if (result == RESULT_OK)
                result =
                    call_write_text(printer, cJSON_GetObjectItemCaseSensitive(call, "function"));
        }
    }
    chat_template_close(printer);
    return result;
}
