/*
 * Counts by preparing the prompt and discarding it, so that both always agree.
 */
#include "frontend/api/messages/messages_count.h"

#include "frontend/api/generation/generation_prepare.h"
#include "frontend/api/messages/messages_request.h"

/* A format without replies. */
static const struct api_format prompt_format = {.parse = messages_request_parse_prompt};

enum result messages_count_tokens(const struct parse_context *context, const char *body,
                                  size_t body_bytes, int64_t now_unix_s, struct text_buffer *reply,
                                  struct api_error *error)
{
    struct prepared_generation prepared;
    enum result result =
        generation_prepare(&prompt_format, context, body, body_bytes, now_unix_s, &prepared, error);
    if (result != RESULT_OK)
        return result;
    text_buffer_append_format(reply, "{\"input_tokens\":%zu}", prepared.prompt.count);
    prepared_generation_fini(&prepared);
    return RESULT_OK;
}
