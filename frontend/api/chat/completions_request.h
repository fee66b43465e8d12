/*
 * The body of POST /v1/completions, checked.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_COMPLETIONS_REQUEST_H
#define SHOAL_FRONTEND_API_CHAT_COMPLETIONS_REQUEST_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"

/* On failure *request is empty. request->prompts is a list, whatever the shape in the body. */
enum result completions_request_parse(const struct parse_context *context, const char *json,
                                      size_t json_bytes, struct generation_request *request,
                                      struct api_error *error) RESULT_CHECKED;

#endif
