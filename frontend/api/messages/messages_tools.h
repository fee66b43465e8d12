/*
 * `tools` and `tool_choice` of Anthropic's API, converted to OpenAI's shape (chat_tools.h).
 *
 * Tools that the client runs are accepted: {"name","description","input_schema"}. Tools that run on
 * Anthropic's servers, or whose schema only its models know, are refused, and so are options that
 * this server does not implement (strict, defer_loading).
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
