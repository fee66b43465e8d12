/*
 * The tools of a request in the shape of OpenAI's chat API, checked and brought into the form that
 * chat templates and call parsers expect. Readers of other APIs convert theirs to this shape first
 * and pass their own names for its parts.
 *
 * After chat_tools_read(): every tool is {"type":"function","function":{"name","parameters",…}};
 * names are unique, of 1 to 128 letters, digits, '_', '-', '.' and ':'; parameters is an object
 * (without properties if none was given); null members are removed.
 *
 * Effect of the choice: with none the template gets no tools; else calls are held to a grammar
 * (generation/tool_grammar.h). A tool that is `strict` needs a schema that can be enforced.
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
 * tool_choice, tool_name, allowed_tools, strict_tools and single_tool_call. Refuses the former `functions` and `function_call`
 * by name. */
enum result chat_tools_read(struct cJSON *body, struct generation_request *request,
                            struct api_error *error) RESULT_CHECKED;

/* Checks and normalizes a list in place, as chat_tools_read() does with `tools`. An empty list is
 * valid. */
enum result chat_tools_normalize(struct cJSON *tools, const struct chat_tools_words *words,
                                 struct api_error *error) RESULT_CHECKED;

/* What `tool_choice` says. */
struct chat_tools_choice {
    enum tool_choice choice;
    const char *name;            /* NAMED; inside the body */
    const struct cJSON *allowed; /* generation_request.allowed_tools */
};

/* Reads `tool_choice` in the shape of the chat API, or of Responses if words->function is empty. */
enum result chat_tools_choice_read(struct cJSON *body, const struct chat_tools_words *words,
                                   struct chat_tools_choice *choice,
                                   struct api_error *error) RESULT_CHECKED;

/* Adds a name to the body's member `list`, of which *names is the value; NULL: it is made. */
enum result chat_tools_note(struct cJSON *body, const char *list, const char *name,
                            const struct cJSON **names, struct api_error *error) RESULT_CHECKED;

/* Sets the choice for `tools` (NULL or empty: none). A choice of a tool that does not exist is
 * refused. */
enum result chat_tools_choose(struct cJSON *tools, const struct chat_tools_choice *choice,
                              const struct chat_tools_words *words,
                              struct generation_request *request,
                              struct api_error *error) RESULT_CHECKED;

#endif
