/* Converts a caller's JSON to values. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_INPUT_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_INPUT_H

#include "frontend/prompt/jinja/jinja_run.h"

struct cJSON;

/* Adds the members of a JSON object to `globals`; strings of those named in trusted_names
 * (NULL-terminated) are trusted. Strings are not copied: the JSON must outlive the run. */
bool jinja_input_add(struct jinja_run *run, const struct cJSON *variables,
                     const char *const trusted_names[], struct jinja_dict *globals) JINJA_CHECKED;

#endif
