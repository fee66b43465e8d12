/*
 * Lark grammars, as vLLM and llguidance take them:
 *
 *     start: pair ("," pair)*          // rules are lower case,
 *     pair: KEY "=" (NUMBER | /[a-z]+/ | "none"i)
 *     KEY: "a".."f" ~ 1..3             // terminals upper case
 *     %import common.NUMBER
 *     %import common (WS, LETTER)
 *     %ignore WS
 *
 * The answer is a text of the rule `start`. The language is that of the context-free grammar: no
 * terminal is preferred for being longer or more important, so priorities have no effect. Ignored
 * terminals may stand at both ends and after every string, regular expression and terminal of a
 * rule. Aliases (-> name) and the modifiers ? and ! have no effect on the language. Also read:
 * special tokens (<|name|>, <[id]>) and %json {schema}, from llguidance.
 *
 * Refused: templates, rule attributes, %declare, %override, %extend, imports from other modules than
 * common, flags of regular expressions but u, two definitions of one rule.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_LARK_H
#define SHOAL_FRONTEND_GRAMMAR_LARK_H

#include <stddef.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"
#include "frontend/grammar/grammar_text.h"
#include "proto/result.h"

/* As gbnf_compile(). */
bool lark_compile(struct grammar_builder *builder, const char *text, size_t length,
                  const struct special_finder *specials, symbol_id *out,
                  struct grammar_error *error) RESULT_CHECKED;
/* The texts of the grammar as the content of a JSON string, without quotes (json_text_regex.h).
 * Refuses special tokens and %json. */
bool lark_compile_spelled(struct grammar_builder *builder, const char *text, size_t length,
                          symbol_id *out, struct grammar_error *error) RESULT_CHECKED;

#endif
