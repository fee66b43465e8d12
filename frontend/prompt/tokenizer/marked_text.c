/*
 * Bytes and, in a second array, one trust mark for each.
 *
 * Spans are joined first, so that splitting and normalization see one string; the marks keep the
 * information of the spans. One mark per byte survives rewriting of the text, and prompts are
 * small. A character is trusted only if all of its bytes are.
 */
#include "frontend/prompt/tokenizer/marked_text.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/utf8.h"

void marked_text_fini(struct marked_text *text)
{
    free(text->bytes);
    free(text->trusted);
    *text = (struct marked_text){0};
}

static enum result marked_text_reserve(struct marked_text *text, size_t more)
{
    if (more > LIMIT_NORMALIZED_BYTES - text->count)
        return RESULT_TOO_LARGE;
    if (text->count + more <= text->capacity)
        return RESULT_OK;
    size_t capacity = text->capacity ? text->capacity : 256;
    while (capacity < text->count + more)
        capacity *= 2;
    char *bytes = realloc(text->bytes, capacity);
    if (bytes)
        text->bytes = bytes;
    uint8_t *trusted = realloc(text->trusted, capacity);
    if (trusted)
        text->trusted = trusted;
    if (!bytes || !trusted)
        return RESULT_OUT_OF_MEMORY;
    text->capacity = capacity;
    return RESULT_OK;
}

enum result marked_text_append(struct marked_text *text, const char *bytes, size_t byte_count,
                               uint8_t trusted)
{
    if (byte_count == 0)
        return RESULT_OK;
    enum result result = marked_text_reserve(text, byte_count);
    if (result)
        return result;
    memcpy(text->bytes + text->count, bytes, byte_count);
    memset(text->trusted + text->count, trusted, byte_count);
    text->count += byte_count;
    return RESULT_OK;
}

enum result marked_text_append_marked(struct marked_text *text, const char *bytes,
                                      const uint8_t trusted[], size_t byte_count)
{
    enum result result = marked_text_append(text, bytes, byte_count, 0);
    if (result == RESULT_OK && byte_count > 0)
        memcpy(text->trusted + text->count - byte_count, trusted, byte_count);
    return result;
}

/* Copies characters one by one and replaces ill-formed ones. */
static enum result marked_text_repair(const struct marked_text *raw, struct marked_text *text)
{
    enum result result = RESULT_OK;
    for (size_t at = 0; at < raw->count && !result;) {
        bool valid;
        size_t bytes = utf8_scan(raw->bytes + at, raw->count - at, &valid);
        uint8_t trusted = memchr(raw->trusted + at, 0, bytes) == NULL; /* all bytes */
        if (valid)
            result = marked_text_append(text, raw->bytes + at, bytes, trusted);
        else
            result = marked_text_append(text, "\xEF\xBF\xBD", 3, trusted);
        at += bytes;
    }
    return result;
}

enum result marked_text_join(struct marked_text *text, const struct prompt_span spans[],
                             size_t span_count)
{
    enum result result = RESULT_OK;
    for (size_t i = 0; i < span_count && !result; i++)
        result = marked_text_append(text, spans[i].text, spans[i].text_bytes, spans[i].trusted);
    if (result || utf8_is_valid(text->bytes, text->count))
        return result;
    struct marked_text raw = *text;
    *text = (struct marked_text){0};
    result = marked_text_repair(&raw, text);
    marked_text_fini(&raw);
    return result;
}
