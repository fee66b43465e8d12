/*
 * GBNF, llama.cpp's notation of grammars, also what vLLM and SGLang take as EBNF:
 *
 *     root  ::= "yes" | "no" ("," ws word){1,3}   # a comment
 *     word  ::= [a-zA-Z_] [^\x00-\x1F"]* .?
 *     ws    ::= [ \t\n]*
 *     think ::= <think> <[151668]>                # special tokens, by text and by id
 *
 * `.` is any character; `*`, `+`, `?`, `{m}`, `{m,}`, `{m,n}` bind to the item before them; a rule
 * ends where the next one begins. Escapes: \n \r \t \\ \" \[ \] \- \^
 * \xHH \uHHHH \UHHHHHHHH. The answer is a text of the rule `root`.
 *
 * Refused: a token that is not special (its text can be written as a string), !<token>, look-ahead,
 * two definitions of one rule, rules that are not defined.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_GBNF_H
#define SHOAL_FRONTEND_GRAMMAR_GBNF_H

#include <stddef.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"
#include "frontend/grammar/grammar_text.h"
#include "proto/result.h"

/* The text is UTF-8 and need not be NUL-terminated. False: refused (*error has
 * place and reason), the builder failed, or memory ran out (the message is empty). */
bool gbnf_compile(struct grammar_builder *builder, const char *text, size_t length,
                  const struct special_finder *specials, symbol_id *out,
                  struct grammar_error *error) RESULT_CHECKED;

#endif
