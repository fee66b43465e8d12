/*
 * Binds every name of a syntax tree to a slot of a scope, by jinja2's rules: which scope a `set`
 * writes to, the value of a name before it is set, and which outer variables a loop, macro or block
 * sees.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_SCOPE_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_SCOPE_H

#include "frontend/prompt/jinja/jinja_arena.h"
#include "frontend/prompt/jinja/jinja_node.h"
#include "proto/result.h"

enum result jinja_scope_bind(struct jinja_arena *arena, struct jinja_node *root,
                             struct jinja_scope **scope, struct error_text *error) RESULT_CHECKED;

#endif
