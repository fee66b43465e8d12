/*
 * UTF-8 in and out, and the one Unicode class that tokenizers ask for by code point.
 *
 * Invalid bytes are read as Python's bytes.decode("utf-8", "replace") reads them: one U+FFFD for
 * each maximal subpart of an ill-formed sequence (Unicode 15, section 3.9, table 3-7), so overlong
 * forms and surrogates never pass.
 */
#ifndef SHOAL_PROTO_UTF8_H
#define SHOAL_PROTO_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT    0xFFFDu
#define UTF8_MAX_CHAR_BYTES 4u

/* Reads one character of `byte_count` >= 1 bytes; returns the bytes it took (1..4). Ill-formed:
 * U+FFFD. */
size_t utf8_decode(const char *bytes, size_t byte_count, uint32_t *code_point);

/* Bytes of the ill-formed or well-formed character as above, and whether it was well-formed. */
size_t utf8_scan(const char *bytes, size_t byte_count, bool *valid);

/* Writes 1..4 bytes; `code_point` is a Unicode scalar value. */
size_t utf8_encode(uint32_t code_point, char out[UTF8_MAX_CHAR_BYTES]);

/* Bytes of the character that `lead` starts, in text known to be valid. */
size_t utf8_char_bytes(char lead);

bool utf8_is_valid(const char *bytes, size_t byte_count);

/* Start of the character that ends just before `end` (> 0), in text known to be valid. */
size_t utf8_previous(const char *bytes, size_t end);

/* Unicode's White_Space property. */
bool utf8_is_space(uint32_t code_point);

#endif
