/* HTML escaping, and strings marked as escaped. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_MARKUP_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_MARKUP_H

#include "frontend/prompt/jinja/jinja_string.h"

/* The same string, marked. */
bool jinja_markup_mark(struct jinja_run *run, const struct jinja_string *string,
                       struct jinja_value *out) JINJA_CHECKED;

/* Escaped and marked; a marked string is unchanged. */
bool jinja_markup_escape(struct jinja_run *run, const struct jinja_string *string,
                         struct jinja_value *out) JINJA_CHECKED;

/* left + right, of which at least one is marked: the other is escaped. */
bool jinja_markup_add(struct jinja_run *run, const struct jinja_string *left,
                      const struct jinja_string *right, struct jinja_value *out) JINJA_CHECKED;

#endif
