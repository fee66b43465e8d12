/*
 * Anthropic's error object; the type follows from the status by one table.
 *
 * That API has no `param`: the place comes before the message, as in "max_tokens: …". The code goes
 * into details.error_code, where its clients expect one. Agents recognise a prompt that is too long
 * by Anthropic's words and read both numbers from them.
 */
#include "frontend/api/messages/messages_error.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int status;
    int shown; /* the status that is sent */
    const char *type;
} types[] = {
    {401, 401, "authentication_error"}, {403, 403, "permission_error"},
    {404, 404, "not_found_error"},      {408, 408, "timeout_error"},
    {413, 413, "request_too_large"},    {429, 429, "rate_limit_error"},
    {503, 529, "overloaded_error"},     {504, 504, "timeout_error"},
};

static void append_overflow(const struct context_overflow *overflow, struct text_buffer *out)
{
    if (overflow->answer_tokens > 0)
        text_buffer_append_format(
            out,
            "\"input length and `max_tokens` exceed context limit: %zu + %u > "
            "%u, decrease input length or `max_tokens` and try again\"",
            overflow->prompt_tokens, overflow->answer_tokens, overflow->most_tokens);
    else
        text_buffer_append_format(out, "\"prompt is too long: %s%zu tokens > %u maximum\"",
                                  overflow->at_least ? "at least " : "", overflow->prompt_tokens,
                                  overflow->most_tokens - 1);
}

static void append_message(const struct api_error *error, struct text_buffer *out)
{
    if (error->overflow.most_tokens > 0) {
        append_overflow(&error->overflow, out);
        return;
    }
    char words[sizeof error->param + sizeof error->message + 2];
    size_t bytes = strlen(error->param);
    bool named = bytes == 0 || strncmp(error->message, error->param, bytes) == 0;
    if (named)
        snprintf(words, sizeof words, "%s", error->message);
    else
        snprintf(words, sizeof words, "%s: %s", error->param, error->message);
    api_error_append_words(words, out);
}

int messages_error_write(const struct api_error *error, const char *request_id,
                         struct text_buffer *out)
{
    int status = error->status;
    const char *type = status >= 500 ? "api_error" : "invalid_request_error";
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].status != error->status)
            continue;
        status = types[i].shown;
        type = types[i].type;
    }
    text_buffer_append_format(out,
                              "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type);
    append_message(error, out);
    if (error->code)
        text_buffer_append_format(out, ",\"details\":{\"error_code\":\"%s\"}", error->code);
    text_buffer_append_text(out, "},\"request_id\":");
    api_error_append_words(request_id, out);
    text_buffer_append_text(out, "}");
    return status;
}
