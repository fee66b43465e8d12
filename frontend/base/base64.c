/*
 * Decoding works in place: three bytes never overtake the four characters that they come from.
 */
#include "frontend/base/base64.h"

enum { SIGN_PAD = 64, SIGN_SPACE, SIGN_NONE };

static uint8_t sign_value(uint8_t sign)
{
    if (sign >= 'A' && sign <= 'Z')
        return (uint8_t)(sign - 'A');
    if (sign >= 'a' && sign <= 'z')
        return (uint8_t)(sign - 'a' + 26);
    if (sign >= '0' && sign <= '9')
        return (uint8_t)(sign - '0' + 52);
    switch (sign) {
    case '+': return 62;
    case '/': return 63;
    case '=': return SIGN_PAD;
    case ' ':
    case '\t':
    case '\n':
    case '\r':
    case '\f': return SIGN_SPACE;
    default: return SIGN_NONE;
    }
}

enum result base64_decode(uint8_t *bytes, size_t *count, struct error_text *error)
{
    uint8_t values[256];
    for (unsigned sign = 0; sign < 256; sign++)
        values[sign] = sign_value((uint8_t)sign);
    uint32_t group = 0;
    size_t made = 0, signs = 0, pads = 0;
    for (size_t i = 0; i < *count; i++) {
        uint8_t value = values[bytes[i]];
        if (value == SIGN_SPACE)
            continue;
        if (value == SIGN_NONE || (pads > 0 && value != SIGN_PAD))
            return error_set(error, RESULT_INVALID, "the base64 is broken at its byte %zu", i);
        if (value == SIGN_PAD) {
            pads++;
            continue;
        }
        group = group << 6 | value;
        if (++signs % 4 != 0)
            continue;
        bytes[made++] = (uint8_t)(group >> 16);
        bytes[made++] = (uint8_t)(group >> 8);
        bytes[made++] = (uint8_t)group;
        group = 0;
    }
    size_t rest = signs % 4;
    uint32_t tail = rest == 2 ? group & 15u : group & 3u;
    bool padded = pads == 0 || (rest > 1 && pads == 4 - rest);
    if (rest == 1 || !padded || (rest > 1 && tail != 0))
        return error_set(error, RESULT_INVALID, "the base64 does not end as base64 does");
    if (rest > 1)
        bytes[made++] = (uint8_t)(rest == 2 ? group >> 4 : group >> 10);
    if (rest == 3)
        bytes[made++] = (uint8_t)(group >> 2);
    *count = made;
    return RESULT_OK;
}

void base64_append(const uint8_t *bytes, size_t count, struct text_buffer *out)
{
    static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        uint32_t group = 0;
        char four[4];
        for (size_t j = 0; j < 3; j++)
            group = group << 8 | (i + j < count ? bytes[i + j] : 0u);
        for (size_t j = 0; j < 4; j++)
            four[j] = i + j > count ? '=' : signs[group >> (18 - 6 * j) & 63];
        text_buffer_append(out, four, 4);
    }
}
