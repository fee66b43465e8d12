/*
 * OpenAI's error object; the type follows from the status by one table.
 */
#include "frontend/base/api_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "frontend/base/utf8_stream.h"

static const struct {
    int status;
    const char *type;
} error_types[] = {
    {401, "authentication_error"},
    {403, "permission_error"},
    {429, "rate_limit_error"},
};

static const char *api_error_type(int status)
{
    for (size_t i = 0; i < sizeof error_types / sizeof error_types[0]; i++) {
        if (error_types[i].status == status)
            return error_types[i].type;
    }
    return status >= 500 ? "server_error" : "invalid_request_error";
}

enum result api_error_invalid(struct api_error *error, const char *param, const char *format, ...)
{
    *error = (struct api_error){.status = 400, .type = api_error_type(400)};
    snprintf(error->param, sizeof error->param, "%s", param);
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return RESULT_INVALID;
}

enum result api_error_set(struct api_error *error, enum result result, int status, const char *code,
                          const char *format, ...)
{
    *error = (struct api_error){.status = status, .type = api_error_type(status), .code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return result;
}

enum result api_error_memory(struct api_error *error)
{
    return api_error_set(error, RESULT_OUT_OF_MEMORY, 500, NULL, "out of memory");
}

void api_error_append_words(const char *words, struct text_buffer *out)
{
    struct text_buffer valid = {0};
    struct utf8_stream stream = {0};
    utf8_stream_push(&stream, words, strlen(words), &valid);
    utf8_stream_finish(&stream, &valid);
    text_buffer_append_json_string(out, valid.failed || !valid.bytes ? "" : valid.bytes,
                                   valid.failed ? 0 : valid.length);
    text_buffer_fini(&valid);
}

void api_error_write_json(const struct api_error *error, struct text_buffer *out)
{
    text_buffer_append_text(out, "{\"error\":{\"message\":");
    api_error_append_words(error->message, out);
    text_buffer_append_format(out, ",\"type\":\"%s\",\"param\":", error->type);
    if (error->param[0])
        api_error_append_words(error->param, out);
    else
        text_buffer_append_text(out, "null");
    if (error->code)
        text_buffer_append_format(out, ",\"code\":\"%s\"}}", error->code);
    else
        text_buffer_append_text(out, ",\"code\":null}}");
}

void api_error_write_event(const struct api_error *error, struct text_buffer *out)
{
    text_buffer_append_text(out, "data: ");
    api_error_write_json(error, out);
    text_buffer_append_text(out, "\n\n");
}

void api_error_write_last_events(const struct api_error *error, struct text_buffer *out)
{
    api_error_write_event(error, out);
    text_buffer_append_text(out, "data: [DONE]\n\n");
}
