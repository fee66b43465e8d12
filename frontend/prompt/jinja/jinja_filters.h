/* Filters (`value|name`). Each builtin's self is the value that is filtered. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_FILTERS_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_FILTERS_H

#include "frontend/prompt/jinja/jinja_value.h"

/* NULL if there is no such filter. */
const struct jinja_signature *jinja_filter_find(const char *name, size_t name_bytes);

/* Parts of the table, one per file. */
extern const struct jinja_signature jinja_filters_text[];
extern const struct jinja_signature jinja_filters_number[];
extern const struct jinja_signature jinja_filters_sequence[];
extern const struct jinja_signature jinja_filters_select[];
extern const struct jinja_signature jinja_filters_order[];

#endif
