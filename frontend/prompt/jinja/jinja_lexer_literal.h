/* One token of code: a name, number, string or operator. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_LEXER_LITERAL_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_LEXER_LITERAL_H

#include "frontend/prompt/jinja/jinja_arena.h"
#include "frontend/prompt/jinja/jinja_token.h"
#include "proto/result.h"

/* Reads the token at text[at], at < length, which is not a blank. *token_bytes is its length in the
 * text. */
enum result jinja_lexer_literal(struct jinja_arena *arena, const char *text, size_t length,
                                size_t at, int line, struct jinja_token *token, size_t *token_bytes,
                                struct error_text *error) RESULT_CHECKED;

#endif
