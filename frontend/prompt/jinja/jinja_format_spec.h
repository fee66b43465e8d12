/* Formats one value by a specification; shared by percent fields and braces. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_FORMAT_SPEC_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_FORMAT_SPEC_H

#include "frontend/prompt/jinja/jinja_string.h"

struct jinja_format_spec {
    const struct jinja_string *fill; /* one character; NULL: a blank */
    char align;                      /* '<' '>' '^' '=', or 0 for the default of the value's type */
    char sign;                       /* '+', ' ', or 0 */
    char grouping;                   /* ',' or '_' between thousands, or 0 */
    char type;                       /* d b o x X c e E f F g G % s, or 0 */
    bool alternate;                  /* with a prefix such as 0x */
    int64_t width;
    int64_t precision; /* -1: the default of the type */
};

/* Parses the text after the colon of a brace field. */
bool jinja_format_spec_parse(struct jinja_run *run, const struct jinja_string *text,
                             struct jinja_format_spec *spec) JINJA_CHECKED;

bool jinja_format_spec_number(struct jinja_run *run, struct jinja_builder *builder,
                              const struct jinja_format_spec *spec,
                              struct jinja_value value) JINJA_CHECKED;

bool jinja_format_spec_text(struct jinja_run *run, struct jinja_builder *builder,
                            const struct jinja_format_spec *spec,
                            const struct jinja_string *text) JINJA_CHECKED;

#endif
