/*
 * The special tokens of a tokenizer, for compilers of grammars (grammar/grammar_text.h).
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_VOCABULARY_SPECIALS_H
#define SHOAL_FRONTEND_API_GENERATION_VOCABULARY_SPECIALS_H

#include "frontend/grammar/grammar_text.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

/* The tokenizer outlives the result. */
struct special_finder vocabulary_specials(const struct tokenizer *tokenizer);

#endif
