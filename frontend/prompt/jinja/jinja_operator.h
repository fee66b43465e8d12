/* Python's operators. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_OPERATOR_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_OPERATOR_H

#include "frontend/prompt/jinja/jinja_run.h"
#include "frontend/prompt/jinja/jinja_token.h"

/* TOKEN_ADD … TOKEN_POW. */
bool jinja_operator_apply(struct jinja_run *run, enum jinja_token_type operator,
                          struct jinja_value left, struct jinja_value right,
                          struct jinja_value *out) JINJA_CHECKED;

bool jinja_operator_sign(struct jinja_run *run, bool negate, struct jinja_value value,
                         struct jinja_value *out) JINJA_CHECKED;

/* TOKEN_EQ … TOKEN_GE, TOKEN_PIPE for `in`, TOKEN_TILDE for `not in`. */
bool jinja_operator_compare(struct jinja_run *run, enum jinja_token_type operator,
                            struct jinja_value left, struct jinja_value right,
                            bool *holds) JINJA_CHECKED;

#endif
