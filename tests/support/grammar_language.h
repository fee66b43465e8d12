/*
 * Whether a text is in the language of a compiled grammar, asked of the worker's matcher with a
 * vocabulary of the 256 bytes, two special tokens and an end token.
 */
#ifndef SHOAL_TESTS_SUPPORT_GRAMMAR_LANGUAGE_H
#define SHOAL_TESTS_SUPPORT_GRAMMAR_LANGUAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"
#include "frontend/grammar/grammar_text.h"

/* Special tokens, by their text; an end token follows. */
#define LANGUAGE_CALL_TOKEN  256u /* <|call|> */
#define LANGUAGE_THINK_TOKEN 257u /* <think> */
#define LANGUAGE_END_TOKEN   258u

/* Finds the two special tokens. */
extern const struct special_finder language_specials;

struct grammar_language;

/* Finishes the builder with this root and closes it. NULL: it failed. */
struct grammar_language *grammar_language_open(struct grammar_builder *builder, symbol_id root);
void grammar_language_close(struct grammar_language *language);
/* `text` may spell the special tokens, which are then followed as tokens. */
bool grammar_language_has(struct grammar_language *language, const char *text);
/* True if some text of the language begins so. */
bool grammar_language_begins(struct grammar_language *language, const char *text);

#endif
