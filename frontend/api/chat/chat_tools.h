/*
 * The tools of a request in the shape of OpenAI's chat API, checked and brought into the form that
 * chat templates and call parsers expect. Readers of other APIs convert theirs to this shape first
 * and pass their own names for its parts.
 *
 * After chat_tools_read(): every tool is {"type":"function","function":{"name","parameters",…}};
 * names are unique, of 1 to 128 letters, digits, '_', '-', '.' and ':'; parameters is an object
 * (without properties if none was given); null members are removed.
 *
 * Effect of the choice: with none the template gets no tools; with required and named the answer
 * starts with the opening of a call (tool_format.h), which is refused for a format without one.
 * `strict` is accepted and ignored: arguments are not held to their schema.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_CHAT_TOOLS_H
#define SHOAL_FRONTEND_API_CHAT_CHAT_TOOLS_H

#include "frontend/api/generation/generation_request.h"

struct cJSON;

/* Names of an API's parts in errors. */
struct chat_tools_words {
    const char *list;       /* "tools" */
    const char *function;   /* from a tool to its function: ".function"; "" if they are one */
    const char *parameters; /* "parameters"; "input_schema" */
    const char *choice;     /* "tool_choice" */
};

/* Reads `tools`, `tool_choice` and `parallel_tool_calls` of a chat body into request->tools,
 * tool_choice, tool_name and single_tool_call. Refuses the former `functions` and `function_call`
 * by name. */
enum result chat_tools_read(struct cJSON *body, struct generation_request *request,
                            struct api_error *error) RESULT_CHECKED;

/* Checks and normalizes a list in place, as chat_tools_read() does with `tools`. An empty list is
 * valid. */
enum result chat_tools_normalize(struct cJSON *tools, const struct chat_tools_words *words,
                                 struct api_error *error) RESULT_CHECKED;

/* Sets `choice` for `tools` (NULL or empty: none); `name` is the tool of NAMED. A choice of a tool
 * that does not exist is refused. */
enum result chat_tools_choose(struct cJSON *tools, enum tool_choice choice, const char *name,
                              const struct chat_tools_words *words,
                              struct generation_request *request,
                              struct api_error *error) RESULT_CHECKED;

#endif
