/*
 * A growing byte buffer with JSON writing. If memory runs out, `failed` becomes true and further
 * appends do nothing; the writer checks once, at the end. Always NUL-terminated unless failed.
 */
#ifndef SHOAL_FRONTEND_BASE_TEXT_BUFFER_H
#define SHOAL_FRONTEND_BASE_TEXT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text_buffer {
    char *bytes; /* malloc'd; text_buffer_fini() frees */
    size_t length;
    size_t capacity;
    bool failed;
};

void text_buffer_fini(struct text_buffer *buffer);
void text_buffer_clear(struct text_buffer *buffer); /* keeps the memory */
void text_buffer_append(struct text_buffer *buffer, const char *bytes, size_t count);
/* Here, so that the length of a literal is known at compile time. */
static inline void text_buffer_append_text(struct text_buffer *buffer, const char *text)
{
    text_buffer_append(buffer, text, strlen(text));
}
/* Decimal, with at least `digits` digits. */
void text_buffer_append_whole(struct text_buffer *buffer, uint64_t number, unsigned digits);
/* Slow beside the others: not for what is written for every token. */
void text_buffer_append_format(struct text_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A quoted JSON string. `bytes` is valid UTF-8 (reply_text guarantees it); control characters,
 * quotes and backslashes are escaped. */
void text_buffer_append_json_string(struct text_buffer *buffer, const char *bytes, size_t count);
/* Drops all bytes from `length` on. */
void text_buffer_cut(struct text_buffer *buffer, size_t length);
/* Drops the first `count` bytes. */
void text_buffer_consume(struct text_buffer *buffer, size_t count);

#endif
