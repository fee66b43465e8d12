/*
 * Clients show the words as they are, so the parameter's name comes first if the words do not have
 * it.
 */
#include "frontend/api/ollama/ollama_error.h"

#include <stdio.h>
#include <string.h>

int ollama_error_write(const struct api_error *error, const char *request_id,
                       struct text_buffer *out)
{
    (void)request_id;
    char words[sizeof error->param + sizeof error->message + 2];
    if (!error->param[0] || strstr(error->message, error->param))
        snprintf(words, sizeof words, "%s", error->message);
    else
        snprintf(words, sizeof words, "%s: %s", error->param, error->message);
    text_buffer_append_text(out, "{\"error\":");
    api_error_append_words(words, out);
    text_buffer_append_text(out, "}");
    return error->status;
}
