/*
 * The body of POST /v1/chat/completions, checked: types, ranges, roles, bounds. Unknown fields are
 * ignored as the official API's clients expect of compatible servers; known fields whose feature
 * this build lacks are refused, never silently dropped.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_REQUEST_H
#define SHOAL_FRONTEND_API_CHAT_REQUEST_H

#include "frontend/api/api_format.h"

/* On failure *request is empty. */
enum result chat_request_parse(const struct parse_context *context, const char *json,
                               size_t json_bytes, struct generation_request *request,
                               struct api_error *error) RESULT_CHECKED;

#endif
