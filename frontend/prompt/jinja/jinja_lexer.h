/*
 * Template text to tokens, with jinja2's whitespace rules under trim_blocks and lstrip_blocks: the
 * newline after a block or comment is dropped, blanks before one at the start of a line are
 * dropped, `-` strips, `+` keeps, and one newline at the template's end is dropped. \r\n and \r
 * become \n.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_LEXER_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_LEXER_H

#include "frontend/prompt/jinja/jinja_arena.h"
#include "frontend/prompt/jinja/jinja_token.h"
#include "proto/result.h"

enum result jinja_lexer_scan(struct jinja_arena *arena, const char *source, size_t source_bytes,
                             struct jinja_token_list *tokens,
                             struct error_text *error) RESULT_CHECKED;

#endif
