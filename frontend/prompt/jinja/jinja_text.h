/* Values as text: Python's str() and repr(). */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_TEXT_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_TEXT_H

#include "frontend/prompt/jinja/jinja_string.h"

/*
 * str(value). A string is unchanged; undefined is empty. Text of several values (a list, a dict) is
 * the caller's if any string in it is.
 */
bool jinja_text_str(struct jinja_run *run, struct jinja_value value,
                    struct jinja_value *out) JINJA_CHECKED;
bool jinja_text_repr(struct jinja_run *run, struct jinja_value value,
                     struct jinja_value *out) JINJA_CHECKED;

/* Appends str(value), keeping each byte's provenance if the value is a string. */
bool jinja_text_append(struct jinja_run *run, struct jinja_builder *builder,
                       struct jinja_value value) JINJA_CHECKED;

#define JINJA_FLOAT_BYTES 32u
/* repr(float): the shortest digits that read back as the same number. */
void jinja_text_float(double real, char out[JINJA_FLOAT_BYTES]);

#endif
