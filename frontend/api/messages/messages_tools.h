/*
 * `tools` and `tool_choice` of Anthropic's API in the shape of OpenAI's (chat_tools.h).
 *
 * Tools that a client runs itself are taken: {"name","description","input_schema"}. Tools that
 * Anthropic's servers run, or whose schema only its models know, are refused, and so are promises
 * about tools that are not kept here (strict, defer_loading).
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_TOOLS_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_TOOLS_H

#include "frontend/api/generation/generation_request.h"

struct cJSON;

/* Sets tools, tool_choice, tool_name and single_tool_call of the request; rewrites the body's
 * `tools`. */
enum result messages_tools_read(struct cJSON *body, struct generation_request *request,
                                struct api_error *error) RESULT_CHECKED;

#endif
