/*
 * Bytes arriving in arbitrary pieces, turned into valid UTF-8. An incomplete character at the end
 * waits for the next piece; bytes that cannot become a character are replaced by U+FFFD, one per
 * maximal subpart (Unicode 15, section 3.9, as Python's errors="replace" decoder does).
 */
#ifndef SHOAL_FRONTEND_BASE_UTF8_STREAM_H
#define SHOAL_FRONTEND_BASE_UTF8_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"

/* Zero-initialized before first use. */
struct utf8_stream {
    char pending[4]; /* bytes of a started character */
    uint8_t pending_bytes;
    uint8_t expected_bytes; /* of the started character */
    uint8_t
        next_low; /* range of its next byte: the first continuation is narrower for some leads */
    uint8_t next_high;
};

void utf8_stream_push(struct utf8_stream *stream, const char *bytes, size_t count,
                      struct text_buffer *out);
/* No more bytes will come: an incomplete character becomes one U+FFFD. */
void utf8_stream_finish(struct utf8_stream *stream, struct text_buffer *out);

/* Number of these bytes (valid UTF-8 that may end within a character) that form whole characters.
 */
size_t utf8_whole_bytes(const char *bytes, size_t count);
/* Number of characters that begin in these bytes. */
uint64_t utf8_characters(const char *bytes, size_t count);

#endif
