/* The tojson filter as Hugging Face defines it: json.dumps without ASCII escapes by default. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_TOJSON_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_TOJSON_H

#include "frontend/prompt/jinja/jinja_value.h"

jinja_builtin jinja_tojson_filter;

#endif
