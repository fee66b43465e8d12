/*
 * Growing buffers for reply bytes.
 *
 * A reply is written by many small appends. A failed allocation is remembered and later appends do
 * nothing, so that writers check for memory once, at the end. All writers escape JSON strings here.
 */
#include "frontend/base/text_buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_buffer_fini(struct text_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct text_buffer){0};
}

void text_buffer_clear(struct text_buffer *buffer)
{
    buffer->length = 0;
    if (buffer->bytes)
        buffer->bytes[0] = '\0';
}

static bool text_buffer_reserve(struct text_buffer *buffer, size_t more)
{
    if (buffer->failed)
        return false;
    if (more >= SIZE_MAX / 2 - buffer->length) {
        buffer->failed = true;
        return false;
    }
    size_t needed = buffer->length + more + 1;
    if (needed <= buffer->capacity)
        return true;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity < needed)
        capacity *= 2;
    char *bytes = realloc(buffer->bytes, capacity);
    if (!bytes) {
        buffer->failed = true;
        return false;
    }
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return true;
}

void text_buffer_append(struct text_buffer *buffer, const char *bytes, size_t count)
{
    if (!text_buffer_reserve(buffer, count))
        return;
    if (count)
        memcpy(buffer->bytes + buffer->length, bytes, count);
    buffer->length += count;
    buffer->bytes[buffer->length] = '\0';
}

void text_buffer_append_text(struct text_buffer *buffer, const char *text)
{
    text_buffer_append(buffer, text, strlen(text));
}

void text_buffer_append_format(struct text_buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0 || !text_buffer_reserve(buffer, (size_t)length))
        return;
    va_start(args, format);
    vsnprintf(buffer->bytes + buffer->length, (size_t)length + 1, format, args);
    va_end(args);
    buffer->length += (size_t)length;
}

void text_buffer_append_json_string(struct text_buffer *buffer, const char *bytes, size_t count)
{
    text_buffer_append(buffer, "\"", 1);
    size_t plain = 0; /* start of the run not yet appended */
    for (size_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        text_buffer_append(buffer, bytes + plain, i - plain);
        plain = i + 1;
        switch (c) {
        case '"': text_buffer_append(buffer, "\\\"", 2); break;
        case '\\': text_buffer_append(buffer, "\\\\", 2); break;
        case '\n': text_buffer_append(buffer, "\\n", 2); break;
        case '\r': text_buffer_append(buffer, "\\r", 2); break;
        case '\t': text_buffer_append(buffer, "\\t", 2); break;
        default: text_buffer_append_format(buffer, "\\u%04x", c); break;
        }
    }
    text_buffer_append(buffer, bytes + plain, count - plain);
    text_buffer_append(buffer, "\"", 1);
}

void text_buffer_cut(struct text_buffer *buffer, size_t length)
{
    if (length >= buffer->length)
        return;
    buffer->length = length;
    buffer->bytes[length] = '\0';
}

void text_buffer_consume(struct text_buffer *buffer, size_t count)
{
    if (count >= buffer->length) {
        text_buffer_clear(buffer);
        return;
    }
    memmove(buffer->bytes, buffer->bytes + count, buffer->length - count);
    buffer->length -= count;
    buffer->bytes[buffer->length] = '\0';
}
