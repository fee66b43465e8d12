/*
 * Probes a template for its form of images, as call_form.c does for calls: a conversation is
 * rendered and the output searched. Forms in which an image's marker would be part of a user's text
 * are refused: it could not be told from the same words written by the user.
 */
#include "frontend/prompt/image_form.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/prompt/chat_template.h"

#define PROBE_TEXT "shoalprobe" /* a message that no template prints by itself */

static const char frame[] = "{\"bos_token\":\"\",\"eos_token\":\"\",\"add_generation_prompt\":true,"
                            "\"messages\":[{\"role\":\"user\"}]}";

/* Renders one user's message with this content and takes ownership of it. Empty if the template
 * fails. */
static struct chat_prompt try_content(const struct chat_template *template, cJSON *content)
{
    struct chat_prompt prompt = {0};
    struct error_text error;
    cJSON *variables = cJSON_Parse(frame);
    cJSON *message = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(variables, "messages"), 0);
    if (!cJSON_AddItemToObject(message, "content", content))
        cJSON_Delete(content);
    else if (chat_template_render(template, variables, (const char *const[]){NULL}, 0, NULL,
                                  &prompt, &error) != RESULT_OK)
        prompt = (struct chat_prompt){0};
    cJSON_Delete(variables);
    return prompt;
}

cJSON *image_form_text(const char *text)
{
    cJSON *part = cJSON_CreateObject();
    if (cJSON_AddStringToObject(part, "type", "text") &&
        cJSON_AddStringToObject(part, "text", text))
        return part;
    cJSON_Delete(part);
    return NULL;
}

static bool shows_strings(const struct chat_template *template)
{
    struct chat_prompt prompt = try_content(template, cJSON_CreateString(PROBE_TEXT));
    bool shows = prompt.text && strstr(prompt.text, PROBE_TEXT);
    chat_prompt_fini(&prompt);
    return shows;
}

bool image_form_shows(const struct chat_template *template, const char *type, const char *marker)
{
    cJSON *content = cJSON_CreateArray();
    cJSON *image = cJSON_CreateObject();
    cJSON_AddStringToObject(image, "type", type);
    cJSON_AddItemToArray(content, image);
    cJSON_AddItemToArray(content, image_form_text(PROBE_TEXT));
    struct chat_prompt prompt = try_content(template, content);
    bool shows =
        prompt.text && strstr(prompt.text, PROBE_TEXT) && image_form_count(&prompt, marker) == 1;
    chat_prompt_fini(&prompt);
    return shows;
}

struct image_form image_form_find(const struct chat_template *template, const char *marker)
{
    static const char *const types[] = {"image", "image_url"};
    struct image_form form = {.texts_are_lists = !shows_strings(template)};
    for (size_t i = 0; i < sizeof types / sizeof types[0] && !form.type; i++) {
        if (image_form_shows(template, types[i], marker))
            form.type = types[i];
    }
    return form;
}

size_t image_form_count(const struct chat_prompt *prompt, const char *marker)
{
    size_t count = 0, marker_bytes = strlen(marker);
    for (size_t i = 0; i < prompt->span_count; i++) {
        const struct prompt_span *span = &prompt->spans[i];
        const char *at = span->text, *end = span->text + span->text_bytes;
        while (span->trusted && (at = memmem(at, (size_t)(end - at), marker, marker_bytes))) {
            count++;
            at += marker_bytes;
        }
    }
    return count;
}

/* --- applying -------------------------------------------------------------------------------- */

static enum result text_wrap(cJSON *message, const cJSON *content)
{
    cJSON *list = cJSON_CreateArray();
    cJSON *part = image_form_text(content->valuestring);
    if (!cJSON_AddItemToArray(list, part)) {
        cJSON_Delete(part);
        cJSON_Delete(list);
        return RESULT_OUT_OF_MEMORY;
    }
    if (cJSON_ReplaceItemInObjectCaseSensitive(message, "content", list))
        return RESULT_OK;
    cJSON_Delete(list);
    return RESULT_OUT_OF_MEMORY;
}

static enum result parts_rename(cJSON *content, const char *type)
{
    cJSON *part;
    cJSON_ArrayForEach(part, content)
    {
        cJSON *name = cJSON_GetObjectItemCaseSensitive(part, "type");
        if (cJSON_IsString(name) && strcmp(name->valuestring, "image") == 0 &&
            !cJSON_SetValuestring(name, type))
            return RESULT_OUT_OF_MEMORY;
    }
    return RESULT_OK;
}

enum result image_form_apply(const struct image_form *form, cJSON *messages)
{
    cJSON *message;
    enum result result = RESULT_OK;
    cJSON_ArrayForEach(message, messages)
    {
        cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
        if (cJSON_IsString(content) && form->texts_are_lists)
            result = text_wrap(message, content);
        else if (cJSON_IsArray(content) && form->type && strcmp(form->type, "image") != 0)
            result = parts_rename(content, form->type);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}
