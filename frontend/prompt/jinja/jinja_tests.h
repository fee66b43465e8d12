/* Tests (`value is name`). */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_TESTS_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_TESTS_H

#include "frontend/prompt/jinja/jinja_value.h"

/* NULL if there is no such test. */
const struct jinja_signature *jinja_test_find(const char *name, size_t name_bytes);

#endif
