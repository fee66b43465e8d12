/*
 * Unicode normalization form C (UAX #15), preserving a mark on each character.
 *
 * Qwen's tokenizers normalize before they split. The mark (bit 31 of a character) carries "this
 * came from the template" through the rewriting: a composed character is marked only if all of its
 * parts were.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_UTF8_NFC_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_UTF8_NFC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

#define UTF8_NFC_MARK 0x80000000u

/* True if valid UTF-8 text is certainly in form C; false means that it has to be normalized. */
bool utf8_nfc_is_inert(const char *bytes, size_t byte_count);

/* Code points (with marks) in; a malloc'd array out, which the caller frees. O(n log n). */
enum result utf8_nfc_normalize(const uint32_t chars[], size_t char_count, uint32_t **normal,
                               size_t *normal_count) RESULT_CHECKED;

/* The same for form D: decomposed, marks in canonical order. */
enum result utf8_nfc_decompose(const uint32_t chars[], size_t char_count, uint32_t **decomposed,
                               size_t *decomposed_count) RESULT_CHECKED;

#endif
