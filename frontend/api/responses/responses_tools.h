/*
 * `tools` and `tool_choice` of a Responses request as functions, which is all that chat templates,
 * grammars and parsers of calls know:
 *
 *   function        itself
 *   namespace       its functions and custom tools, named namespace__name
 *   custom          a function with one argument `input`, which a grammar may describe
 *   local_shell, shell, apply_patch   a function of that name (response_calls.h)
 *   web_search and other tools that run on their provider's servers: left out, and reported
 *
 * Calls are shown in the tools' own form again.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_TOOLS_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_TOOLS_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/base/api_error.h"

struct cJSON;

/* The member of the body that responses_tools_read() adds: {function: label of its calls}. */
#define RESPONSES_TOOL_LABELS "tool labels"

/* What the reply shows: JSON, malloc'd; NULL: the default. */
struct responses_tools_shown {
    char *tools;
    char *choice;
};

/* Fills request->tools, tool_choice, tool_name, allowed_tools, strict_tools, tool_inputs,
 * ignored_tools and single_tool_call. *shown is the caller's in any case. */
enum result responses_tools_read(struct cJSON *body, struct generation_request *request,
                                 struct responses_tools_shown *shown,
                                 struct api_error *error) RESULT_CHECKED;
void responses_tools_shown_fini(struct responses_tools_shown *shown);

#endif
