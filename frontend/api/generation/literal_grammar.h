/*
 * The arguments of a call in a notation without JSON's quotes, {a:<|"|>x<|"|>,b:[1,{c:true}]}, as a
 * grammar: the counterpart of reply/literal_arguments.h for the formats of ARGUMENTS_LITERAL.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_LITERAL_GRAMMAR_H
#define SHOAL_FRONTEND_API_GENERATION_LITERAL_GRAMMAR_H

#include "frontend/api/generation/tool_grammar_parts.h"
#include "proto/result.h"

/*
 * The members of an object schema in their order, without the braces. All that is written satisfies
 * the schema: objects have their declared members only, unless none are declared. False: refused,
 * *error says where, or the builder failed. Compiled are type, enum, const, properties, required,
 * additionalProperties, items, minItems, maxItems, minLength, maxLength, pattern, all that
 * json_schema_compile.h knows of numbers, anyOf, oneOf of different types, allOf of one, and $ref
 * within the schema.
 */
bool literal_grammar_build(const struct tool_grammar *grammar, const struct cJSON *schema,
                           symbol_id *out, struct grammar_error *error) RESULT_CHECKED;
/* One member, whose name is a plain word: a string of this text. */
symbol_id literal_grammar_text(const struct tool_grammar *grammar, const char *name,
                               symbol_id text);
/* Any members. */
bool literal_grammar_any(const struct tool_grammar *grammar, symbol_id *out,
                         struct grammar_error *error) RESULT_CHECKED;

#endif
