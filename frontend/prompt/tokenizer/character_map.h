/*
 * A map of characters that SentencePiece compiled into a model (nmt_nfkc and others): a double-array
 * trie over UTF-8 and the texts that its values point to.
 *
 * Follows Hugging Face `tokenizers` (normalizers Precompiled, crate spm_precompiled): an extended
 * grapheme cluster of fewer than 6 bytes is replaced whole by the text of the shortest prefix that
 * the trie has; in other clusters each character is looked up alone. Clusters are those of the
 * linked PCRE2.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_CHARACTER_MAP_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_CHARACTER_MAP_H

#include <stdatomic.h>

#include "frontend/prompt/tokenizer/marked_text.h"
#include "proto/result.h"

struct character_map;

/* From base64, as in tokenizer.json. RESULT_INVALID, RESULT_OUT_OF_MEMORY. */
enum result character_map_open(const char *base64, struct character_map **map,
                               struct error_text *error) RESULT_CHECKED;
void character_map_close(struct character_map *map);

/* Appends the mapped text to `out`; a replacement is trusted if all bytes it replaces are.
 * RESULT_TOO_LARGE, RESULT_OUT_OF_MEMORY, RESULT_CANCELLED once *cancelled is true (may be NULL). */
enum result character_map_apply(const struct character_map *map, const struct marked_text *text,
                                struct marked_text *out,
                                const atomic_bool *cancelled) RESULT_CHECKED;

#endif
