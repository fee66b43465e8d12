/*
 * Growing buffers for reply bytes.
 *
 * A reply is written by many small appends. A failed allocation is remembered and later appends do
 * nothing, so that writers check for memory once, at the end: a buffer that failed has no room. All
 * writers escape JSON strings here.
 */
#include "frontend/base/text_buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/must.h"

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

static bool text_buffer_grow(struct text_buffer *buffer, size_t more)
{
    if (buffer->failed)
        return false;
    if (more >= SIZE_MAX / 2 - buffer->length) {
        buffer->failed = true;
        return false;
    }
    size_t needed = buffer->length + more + 1;
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

static inline bool text_buffer_reserve(struct text_buffer *buffer, size_t more)
{
    bool has_room = buffer->capacity > buffer->length && more < buffer->capacity - buffer->length;
    return (has_room && !buffer->failed) || text_buffer_grow(buffer, more);
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

void text_buffer_append_whole(struct text_buffer *buffer, uint64_t number, unsigned digits)
{
    char text[20]; /* of the largest number */
    size_t at = sizeof text;
    must(digits <= sizeof text);
    while (number > 0 || at == sizeof text || sizeof text - at < digits) {
        text[--at] = (char)('0' + number % 10);
        number /= 10;
    }
    text_buffer_append(buffer, text + at, sizeof text - at);
}

void text_buffer_append_format(struct text_buffer *buffer, const char *format, ...)
{
    va_list args;
    if (!text_buffer_reserve(buffer, 0))
        return;
    size_t room = buffer->capacity - buffer->length;
    va_start(args, format);
    int length = vsnprintf(buffer->bytes + buffer->length, room, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length >= room && text_buffer_reserve(buffer, (size_t)length)) {
        room = buffer->capacity - buffer->length;
        va_start(args, format);
        length = vsnprintf(buffer->bytes + buffer->length, room, format, args);
        va_end(args);
    }
    if (length >= 0 && (size_t)length < room)
        buffer->length += (size_t)length;
    else
        buffer->bytes[buffer->length] = '\0';
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
