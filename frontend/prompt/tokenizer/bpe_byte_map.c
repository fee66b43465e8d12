/*
 * The byte alphabet as arithmetic: a code point below 256 is its own byte unless that byte is one
 * of the 68 unprintable ones; U+0100 + n is the n-th unprintable byte. The unprintable ones are
 * 00-20, 7F-A0 and AD, so no table is needed. Only decoding exists, because Shoal writes no
 * vocabularies.
 */
#include "frontend/prompt/tokenizer/bpe_byte_map.h"

#include <stdint.h>

#include "proto/utf8.h"

static bool is_unprintable(uint32_t byte)
{
    return byte <= 0x20 || (byte >= 0x7F && byte <= 0xA0) || byte == 0xAD;
}

/* -1 if the code point is not in the alphabet. */
static int byte_of(uint32_t code)
{
    if (code < 0x100)
        return is_unprintable(code) ? -1 : (int)code;
    uint32_t index = code - 0x100;
    if (index <= 0x20)
        return (int)index;
    index -= 0x21;
    if (index <= 0xA0 - 0x7F)
        return (int)(0x7F + index);
    return index == 0xA0 - 0x7F + 1 ? 0xAD : -1;
}

bool bpe_byte_map_decode(const char *text, size_t text_bytes, char *out, size_t *out_bytes)
{
    size_t written = 0;
    for (size_t at = 0; at < text_bytes;) {
        uint32_t code;
        at += utf8_decode(text + at, text_bytes - at, &code);
        int byte = byte_of(code);
        if (byte < 0)
            return false;
        out[written++] = (char)byte;
    }
    *out_bytes = written;
    return true;
}
