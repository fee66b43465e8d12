/*
 * The body of POST /v1/messages and /v1/messages/count_tokens, checked. Fields that Anthropic's API
 * does not have are ignored; fields that it has and this server lacks are refused. cache_control is
 * accepted everywhere and ignored: what is cached does not depend on it.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_REQUEST_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_REQUEST_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"

/* What the reader leaves to the writer in generation_request.own. */
struct messages_state {
    bool omits_thinking; /* thinking.display is "omitted" */
};

/* On failure *request is empty. */
enum result messages_request_parse(const struct parse_context *context, const char *json,
                                   size_t json_bytes, struct generation_request *request,
                                   struct api_error *error) RESULT_CHECKED;
/* Reads a body of which only the prompt matters: max_tokens and sampling are ignored. */
enum result messages_request_parse_prompt(const struct parse_context *context, const char *json,
                                          size_t json_bytes, struct generation_request *request,
                                          struct api_error *error) RESULT_CHECKED;

#endif
