/*
 * The tools of a request, in the shape of OpenAI's chat API, checked and brought into the one form
 * that chat templates and parsers of calls expect. Readers of other APIs bring theirs into this
 * shape first, and say how their clients call its parts.
 *
 * After chat_tools_read(): every tool is {"type":"function","function":{"name","parameters",…}};
 * names are unique, of 1 to 128 letters, digits, '_', '-', '.' and ':'; parameters is an object
 * (one without properties where none was given); members that are null are gone.
 *
 * How far a choice binds the model: none keeps the tools from the template; with required and named
 * the answer begins with the opening of a call (tool_format.h), which a format that has none
 * refuses. `strict` is taken and changes nothing: arguments are not held to their schema.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_CHAT_TOOLS_H
#define SHOAL_FRONTEND_API_CHAT_CHAT_TOOLS_H

#include "frontend/api/generation/generation_request.h"

struct cJSON;

/* What an API's clients call the places that errors name. */
struct chat_tools_words {
    const char *list;       /* "tools" */
    const char *function;   /* from a tool to its function: ".function"; "" where they are one */
    const char *parameters; /* "parameters"; "input_schema" */
    const char *choice;     /* "tool_choice" */
};

/* Reads `tools`, `tool_choice` and `parallel_tool_calls` of a chat body into request->tools,
 * tool_choice, tool_name and single_tool_call. Refuses the former `functions` and `function_call`
 * by name. */
enum result chat_tools_read(struct cJSON *body, struct generation_request *request,
                            struct api_error *error) RESULT_CHECKED;

/* Checks and normalizes a list in place: what chat_tools_read() does with `tools`. An empty list is
 * good. */
enum result chat_tools_normalize(struct cJSON *tools, const struct chat_tools_words *words,
                                 struct api_error *error) RESULT_CHECKED;

/* Settles on `choice` for `tools` (NULL or empty: there are none); `name` is the tool of NAMED. One
 * that needs a tool that is not there is refused. */
enum result chat_tools_choose(struct cJSON *tools, enum tool_choice choice, const char *name,
                              const struct chat_tools_words *words,
                              struct generation_request *request,
                              struct api_error *error) RESULT_CHECKED;

#endif
