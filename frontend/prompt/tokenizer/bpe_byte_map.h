/*
 * The alphabet of byte-level BPE files: every byte is written as one printable character, so that a
 * vocabulary can be stored as text. Bytes that are printable in Latin-1 stand for themselves, the
 * other 68 are U+0100.. in order of the byte (GPT-2's published table).
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_BPE_BYTE_MAP_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_BPE_BYTE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Decodes the file's spelling into bytes (never more than `text_bytes`). False, with *out
 * unspecified, if a character is not in the alphabet: such a token cannot come from text and is
 * used literally.
 */
bool bpe_byte_map_decode(const char *text, size_t text_bytes, char *out, size_t *out_bytes);

#endif
