/* `x.name`, `x[key]` and `x[a:b:c]`, with the sandbox's rules. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_MEMBER_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_MEMBER_H

#include "frontend/prompt/jinja/jinja_run.h"

/* An attribute (a method, a namespace's name), else an item, else undefined. `name` is a string. */
bool jinja_member_get(struct jinja_run *run, struct jinja_value object, struct jinja_value name,
                      struct jinja_value *out) JINJA_CHECKED;

/* An item, else an attribute if the key is a string, else undefined. */
bool jinja_member_index(struct jinja_run *run, struct jinja_value object, struct jinja_value key,
                        struct jinja_value *out) JINJA_CHECKED;

/* Absent bounds are JINJA_NONE or JINJA_MISSING. */
bool jinja_member_slice(struct jinja_run *run, struct jinja_value object,
                        const struct jinja_value bounds[3], struct jinja_value *out) JINJA_CHECKED;

#endif
