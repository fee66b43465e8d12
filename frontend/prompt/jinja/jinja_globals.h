/* The functions that every template can call: range, dict, namespace, cycler, joiner,
 * raise_exception … */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_GLOBALS_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_GLOBALS_H

#include "frontend/prompt/jinja/jinja_run.h"

/* Adds them to `globals`; the caller's own variables may replace them. */
bool jinja_globals_add(struct jinja_run *run, struct jinja_dict *globals) JINJA_CHECKED;

const struct jinja_signature *jinja_globals_cycler_methods(void);

#endif
