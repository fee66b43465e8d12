/* The `attribute=` of filters: a path `a.b.0`, looked up in each item. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_PATH_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_PATH_H

#include "frontend/prompt/jinja/jinja_run.h"

struct jinja_path {
    const struct jinja_value *parts; /* strings and integers */
    size_t count;
    struct jinja_value fallback; /* replaces undefined values on the path; JINJA_MISSING: none */
    bool lower;                  /* lower the case of the string found */
};

/* From a dotted name, an index, or nothing (JINJA_MISSING, JINJA_NONE: the item itself). */
bool jinja_path_parse(struct jinja_run *run, struct jinja_value attribute,
                      struct jinja_path *path) JINJA_CHECKED;

bool jinja_path_follow(struct jinja_run *run, const struct jinja_path *path,
                       struct jinja_value item, struct jinja_value *out) JINJA_CHECKED;

#endif
