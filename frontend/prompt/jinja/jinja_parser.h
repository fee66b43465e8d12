/*
 * Tokens to a syntax tree, by jinja2's grammar with the extensions that Hugging Face turns on (loop
 * controls, generation blocks).
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_PARSER_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_PARSER_H

#include "frontend/prompt/jinja/jinja_arena.h"
#include "frontend/prompt/jinja/jinja_node.h"
#include "proto/result.h"

/* *root is a NODE_BODY. RESULT_UNSUPPORTED for tags that load other templates (include, extends,
 * import, block). */
enum result jinja_parser_parse(struct jinja_arena *arena, const struct jinja_token_list *tokens,
                               struct jinja_node **root, struct error_text *error) RESULT_CHECKED;

#endif
