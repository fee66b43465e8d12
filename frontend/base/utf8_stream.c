/*
 * The UTF-8 decoder's state machine. A lead byte fixes how many bytes follow and the range of the
 * first of them, so that overlong forms, surrogates and values above U+10FFFF are never completed.
 * Any other byte ends the character with one U+FFFD and is read again as a new start.
 */
#include "frontend/base/utf8_stream.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* Starts a character at its lead byte. Returns false if the byte starts no character. */
static int utf8_stream_begin(struct utf8_stream *stream, uint8_t lead)
{
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    uint8_t expected;
    if (lead >= 0xc2 && lead <= 0xdf) {
        expected = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        expected = 3;
        if (lead == 0xe0)
            low = 0xa0;
        else if (lead == 0xed)
            high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        expected = 4;
        if (lead == 0xf0)
            low = 0x90;
        else if (lead == 0xf4)
            high = 0x8f;
    } else {
        return 0;
    }
    stream->pending[0] = (char)lead;
    stream->pending_bytes = 1;
    stream->expected_bytes = expected;
    stream->next_low = low;
    stream->next_high = high;
    return 1;
}

void utf8_stream_push(struct utf8_stream *stream, const char *bytes, size_t count,
                      struct text_buffer *out)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        if (stream->pending_bytes > 0) {
            if (byte >= stream->next_low && byte <= stream->next_high) {
                stream->pending[stream->pending_bytes++] = (char)byte;
                stream->next_low = 0x80;
                stream->next_high = 0xbf;
                if (stream->pending_bytes == stream->expected_bytes) {
                    text_buffer_append(out, stream->pending, stream->pending_bytes);
                    stream->pending_bytes = 0;
                }
                continue;
            }
            text_buffer_append(out, REPLACEMENT, 3);
            stream->pending_bytes = 0;
        }
        if (byte < 0x80)
            text_buffer_append(out, &bytes[i], 1);
        else if (!utf8_stream_begin(stream, byte))
            text_buffer_append(out, REPLACEMENT, 3);
    }
}

void utf8_stream_finish(struct utf8_stream *stream, struct text_buffer *out)
{
    if (stream->pending_bytes > 0)
        text_buffer_append(out, REPLACEMENT, 3);
    stream->pending_bytes = 0;
}

size_t utf8_whole_bytes(const char *bytes, size_t count)
{
    for (size_t back = 1; back <= 3 && back <= count; back++) {
        unsigned char c = (unsigned char)bytes[count - back];
        if (c < 0x80)
            break;
        if (c >= 0xc0) {
            size_t wanted = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
            return wanted > back ? count - back : count;
        }
    }
    return count;
}

uint64_t utf8_characters(const char *bytes, size_t count)
{
    uint64_t characters = 0;
    for (size_t i = 0; i < count; i++)
        characters += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return characters;
}
