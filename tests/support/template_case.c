/*
 * Golden cases of chat templates.
 *
 * The kind of an error decides the comparison: the template's own message (TemplateError) must be
 * equal; messages about undefined and unsafe values must be contained in ours, which also name the
 * line; for other kinds any error passes.
 */
#include "tests/support/template_case.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *template_case_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    if (text == NULL || fread(text, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        exit(1);
    }
    text[size] = '\0';
    (void)fclose(file);
    *bytes = (size_t)size;
    return text;
}

struct cJSON *template_case_read_json(const char *path)
{
    size_t bytes;
    char *text = template_case_read(path, &bytes);
    struct cJSON *json = cJSON_ParseWithLength(text, bytes);
    if (json == NULL) {
        (void)fprintf(stderr, "%s: no JSON\n", path);
        exit(1);
    }
    free(text);
    return json;
}

enum result template_case_render(const char *source, size_t source_bytes,
                                 const struct cJSON *variables, const char *const trusted_names[],
                                 struct chat_prompt *prompt, struct error_text *error)
{
    struct chat_template *template;
    enum result result = chat_template_open(source, source_bytes, &template, error);
    if (result != RESULT_OK)
        return result;
    result = chat_template_render(template, variables, trusted_names, TEMPLATE_CASE_NOW_UNIX_S,
                                  NULL, prompt, error);
    chat_template_close(template);
    return result;
}

static bool error_agrees(const struct cJSON *expected, enum result result, const char *words)
{
    const struct cJSON *kind = cJSON_GetObjectItemCaseSensitive(expected, "error");
    const struct cJSON *message = cJSON_GetObjectItemCaseSensitive(expected, "message");
    if (kind == NULL)
        return false;
    if (strcmp(kind->valuestring, "RecursionError") == 0)
        return result == RESULT_TOO_LARGE;
    if (result != RESULT_INVALID && result != RESULT_UNSUPPORTED)
        return false;
    if (message == NULL)
        return true;
    if (strcmp(kind->valuestring, "TemplateError") == 0)
        return strncmp(words, message->valuestring, sizeof(struct error_text) - 1) == 0;
    return strstr(words, message->valuestring) != NULL;
}

bool template_case_agrees(const char *name, const char *source, size_t source_bytes,
                          const struct cJSON *variables, const struct cJSON *expected)
{
    const char *const trusted_names[] = {"bos_token", "eos_token", NULL};
    struct chat_prompt prompt = {0};
    struct error_text error = {""};
    enum result result =
        template_case_render(source, source_bytes, variables, trusted_names, &prompt, &error);
    const struct cJSON *output = cJSON_GetObjectItemCaseSensitive(expected, "output");
    bool agrees = output != NULL
                      ? result == RESULT_OK && prompt.text_bytes == strlen(output->valuestring) &&
                            strcmp(prompt.text, output->valuestring) == 0
                      : error_agrees(expected, result, error.text);
    if (!agrees) {
        char *wanted = cJSON_PrintUnformatted(expected);
        struct cJSON *shown = cJSON_CreateString(result == RESULT_OK ? prompt.text : error.text);
        char *got = cJSON_PrintUnformatted(shown);
        (void)fprintf(stderr, "%s\n  wanted %s\n  got    %s %s\n", name, wanted,
                      result_name(result), got);
        cJSON_Delete(shown);
        free(wanted);
        free(got);
    }
    chat_prompt_fini(&prompt);
    return agrees;
}

char *template_case_spans(const struct chat_prompt *prompt)
{
    char *text = malloc(prompt->text_bytes + prompt->span_count + 1);
    size_t length = 0;
    if (text == NULL)
        exit(1);
    for (size_t i = 0; i < prompt->span_count; i++) {
        text[length++] = prompt->spans[i].trusted ? 'T' : 'U';
        memcpy(text + length, prompt->spans[i].text, prompt->spans[i].text_bytes);
        length += prompt->spans[i].text_bytes;
    }
    text[length] = '\0';
    return text;
}
