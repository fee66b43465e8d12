/* String formatting: `text % values`, the format filter, and str.format(). */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_FORMAT_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_FORMAT_H

#include "frontend/prompt/jinja/jinja_run.h"

/* text % values; inserted strings keep their provenance. */
bool jinja_format_percent(struct jinja_run *run, const struct jinja_string *text,
                          struct jinja_value values, struct jinja_value *out) JINJA_CHECKED;

jinja_builtin jinja_format_filter; /* value|format(…): with percent fields */
jinja_builtin jinja_format_method; /* text.format(…): with braces */

#endif
