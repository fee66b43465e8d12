/*
 * Numbers as JSON: minus infinity has no form in it, so the value that the official API gives for
 * the least likely tokens stands for it. Floats are written with nine digits, which is what it
 * takes to read the same float back.
 */
#include "frontend/api/logprob_text.h"

#include <math.h>

#include "frontend/reply/utf8_stream.h"

#define LEAST_LOGPROB (-9999.0)

/* {"token":…,"logprob":…,"bytes":[…] without the closing brace */
static void entry_open(const struct tokenizer *tokenizer, uint32_t id, float logprob,
                       struct text_buffer *out)
{
    struct text_buffer text = {0};
    struct utf8_stream stream = {0};
    const char *bytes;
    size_t count;
    tokenizer_token_bytes(tokenizer, id, &bytes, &count);
    utf8_stream_push(&stream, bytes, count, &text);
    utf8_stream_finish(&stream, &text);
    text_buffer_append_text(out, "{\"token\":");
    text_buffer_append_json_string(out, text.length > 0 ? text.bytes : "", text.length);
    text_buffer_append_format(out, ",\"logprob\":%.9g,\"bytes\":[",
                              isfinite(logprob) ? (double)logprob : LEAST_LOGPROB);
    for (size_t i = 0; i < count; i++)
        text_buffer_append_format(out, "%s%u", i > 0 ? "," : "", (unsigned)(unsigned char)bytes[i]);
    text_buffer_append_text(out, "]");
    out->failed |= text.failed;
    text_buffer_fini(&text);
}

void logprob_text_write(const struct tokenizer *tokenizer, const struct reply_token *token,
                        struct text_buffer *out)
{
    entry_open(tokenizer, token->id, token->logprob, out);
    text_buffer_append_text(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < token->alternative_count; i++) {
        const struct token_logprob *alternative = &token->alternatives[i];
        if (i > 0)
            text_buffer_append_text(out, ",");
        entry_open(tokenizer, alternative->token, alternative->logprob, out);
        text_buffer_append_text(out, "}");
    }
    text_buffer_append_text(out, "]}");
}
