/*
 * JSON Schema (2020-12, and what draft 4 to 2019-09 wrote otherwise) to grammar symbols, exactly: a
 * text of the grammar is a JSON text that the schema accepts. Members of objects come in any order,
 * undeclared ones, unless their names begin with $, after the required ones; with `strict` they come
 * in the order in which the schema declares them, then the required ones it does not declare, then
 * others. Each string and each declared constant has one spelling. What cannot be compiled exactly is refused.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_JSON_SCHEMA_COMPILE_H
#define SHOAL_FRONTEND_GRAMMAR_JSON_SCHEMA_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"

struct cJSON;

/* Blanks (space, tab, line ends) that may stand between two marks. */
#define JSON_SCHEMA_BLANKS 8u

struct json_schema_options {
    bool strict;         /* OpenAI's rules are checked first, and members keep their order */
    bool closed_objects; /* where no additionalProperties is given beside properties: false */
    uint32_t blanks;     /* most blanks between two marks; 0: none */
};

/* Adds the schema to the builder; *out is its start symbol. False: refused (`error` names the place
 * in the schema), or the builder has failed (`error` has its reason). */
bool json_schema_compile(struct grammar_builder *builder, const struct cJSON *schema,
                         const struct json_schema_options *options, symbol_id *out,
                         struct grammar_error *error);
/* Any JSON object (`json_object` mode). */
bool json_schema_compile_object(struct grammar_builder *builder,
                                const struct json_schema_options *options, symbol_id *out,
                                struct grammar_error *error);

#endif
