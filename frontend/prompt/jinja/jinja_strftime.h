/* strftime(), in UTC and in English, independent of the process's locale and time zone. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_STRFTIME_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_STRFTIME_H

#include "frontend/prompt/jinja/jinja_string.h"

bool jinja_strftime(struct jinja_run *run, const struct jinja_string *format, int64_t unix_s,
                    struct jinja_value *out) JINJA_CHECKED;

#endif
