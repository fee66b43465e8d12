/*
 * UTF-8 by its table of well-formed sequences.
 *
 * The second byte carries all the special cases: its allowed range depends on the lead byte (E0,
 * ED, F0 and F4 narrow it), which rules out overlong forms, surrogates and numbers over 10FFFF.
 * Later bytes are always 80..BF. A decoder that stops at the first byte outside its range has
 * consumed exactly the "maximal subpart" that Python replaces by one U+FFFD. There is no Latin-1
 * fallback and no lenient mode.
 */
#include "proto/utf8.h"

#include "proto/must.h"

/* Length of the sequence that a lead byte starts and the range of its second byte; 0 for a byte
 * that starts none. */
static size_t utf8_lead(uint8_t lead, uint8_t *second_low, uint8_t *second_high)
{
    *second_low = 0x80;
    *second_high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF)
        return 2;
    if (lead >= 0xE0 && lead <= 0xEF) {
        if (lead == 0xE0)
            *second_low = 0xA0;
        if (lead == 0xED)
            *second_high = 0x9F;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        if (lead == 0xF0)
            *second_low = 0x90;
        if (lead == 0xF4)
            *second_high = 0x8F;
        return 4;
    }
    return 0;
}

size_t utf8_scan(const char *bytes, size_t byte_count, bool *valid)
{
    must(byte_count > 0);
    uint8_t low;
    uint8_t high;
    uint8_t lead = (uint8_t)bytes[0];
    *valid = true;
    if (lead < 0x80)
        return 1;
    size_t length = utf8_lead(lead, &low, &high);
    for (size_t i = 1; i < length; i++) {
        if (i >= byte_count || (uint8_t)bytes[i] < low || (uint8_t)bytes[i] > high) {
            *valid = false;
            return i;
        }
        low = 0x80;
        high = 0xBF;
    }
    *valid = length != 0;
    return length ? length : 1;
}

size_t utf8_decode(const char *bytes, size_t byte_count, uint32_t *code_point)
{
    bool valid;
    size_t length = utf8_scan(bytes, byte_count, &valid);
    if (!valid) {
        *code_point = UTF8_REPLACEMENT;
        return length;
    }
    static const uint8_t lead_mask[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t value = (uint8_t)bytes[0] & lead_mask[length];
    for (size_t i = 1; i < length; i++)
        value = value << 6 | ((uint8_t)bytes[i] & 0x3F);
    *code_point = value;
    return length;
}

size_t utf8_encode(uint32_t code_point, char out[UTF8_MAX_CHAR_BYTES])
{
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    static const uint8_t lead_bits[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3F));
        code_point >>= 6;
    }
    out[0] = (char)(lead_bits[length] | code_point);
    return length;
}

size_t utf8_char_bytes(char lead)
{
    uint8_t byte = (uint8_t)lead;
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

bool utf8_is_valid(const char *bytes, size_t byte_count)
{
    bool valid = true;
    for (size_t at = 0; at < byte_count && valid;)
        at += utf8_scan(bytes + at, byte_count - at, &valid);
    return valid;
}

size_t utf8_previous(const char *bytes, size_t end)
{
    must(end > 0);
    size_t at = end - 1;
    while (at > 0 && ((uint8_t)bytes[at] & 0xC0) == 0x80)
        at--;
    return at;
}

bool utf8_is_space(uint32_t code_point)
{
    if (code_point < 0x80)
        return code_point == ' ' || (code_point >= '\t' && code_point <= '\r');
    return code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
           (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
           code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F ||
           code_point == 0x3000;
}
