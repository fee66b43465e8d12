/*
 * The arguments of a call whose values stand between tags, as a grammar: the counterpart of
 * reply/tagged_arguments.h.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_TAGGED_GRAMMAR_H
#define SHOAL_FRONTEND_API_GENERATION_TAGGED_GRAMMAR_H

#include "frontend/api/generation/tool_grammar_parts.h"
#include "proto/result.h"

/*
 * The members of an object schema in their order; optional ones may be left out. A value that is a
 * string is its text, without any end of a value; all others are JSON. False: the schema is not
 * among those that can be written so exactly: an object with `properties` and `required`, whose
 * strings have at most enum, const, pattern, minLength and maxLength; or it is refused; *error.
 * `tool` has the types by which the parser reads values.
 */
bool tagged_grammar_build(const struct tool_grammar *grammar, const struct cJSON *tool,
                          const struct cJSON *schema, symbol_id *out,
                          struct grammar_error *error) RESULT_CHECKED;

/* One member of bare text. */
symbol_id tagged_grammar_value(const struct tool_grammar *grammar, const char *name,
                               symbol_id text);

/* `name=value` for each member with a JSON value, separated by ", ". As above. */
bool keyword_grammar_build(const struct tool_grammar *grammar, const struct cJSON *schema,
                           symbol_id *out, struct grammar_error *error) RESULT_CHECKED;

/* Any members of plain names. */
bool tagged_grammar_any(const struct tool_grammar *grammar, symbol_id *out,
                        struct grammar_error *error) RESULT_CHECKED;
bool keyword_grammar_any(const struct tool_grammar *grammar, symbol_id *out,
                         struct grammar_error *error) RESULT_CHECKED;

#endif
