/* Arguments between the parentheses of calls, filters and tests. NULL or false: the parser
 * failed. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_ARGUMENTS_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_ARGUMENTS_H

#include "frontend/prompt/jinja/jinja_expression.h"

struct jinja_arguments *jinja_arguments_parse(struct jinja_parser *parser);
struct jinja_arguments *jinja_arguments_none(struct jinja_parser *parser);
struct jinja_arguments *jinja_arguments_one(struct jinja_parser *parser, struct jinja_node *node);

/* A trusted string constant over bytes of the arena. */
bool jinja_arguments_string(struct jinja_parser *parser, const char *bytes, size_t length,
                            struct jinja_value *out);

#endif
