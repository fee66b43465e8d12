/*
 * Tools of Anthropic's API that the client runs but whose schema the model is expected to know:
 * bash, text editor, memory, computer. Models here are not trained on them, so the server supplies
 * description and schema.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_BUILTIN_TOOLS_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_BUILTIN_TOOLS_H

#include "frontend/base/api_error.h"

struct cJSON;

/* Adds `description` and `input_schema` to a tool of such a type, after checking its own fields.
 * Other tools are left alone. `place`: of the tool in errors. */
enum result messages_builtin_tools_expand(struct cJSON *tool, const char *place,
                                          struct api_error *error) RESULT_CHECKED;

#endif
