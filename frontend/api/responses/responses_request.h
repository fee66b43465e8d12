/*
 * The body of POST /v1/responses, checked. Fields whose feature this server lacks are refused by
 * name, never silently dropped; unknown fields are ignored. Two are accepted and change nothing:
 * `include` of members of built-in tools or images and of reasoning.encrypted_content (reasoning is
 * sent as plain text), and a function's `strict` (shown as false in the reply).
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_REQUEST_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_REQUEST_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"

/* context->format_context is the struct response_store. request->own.state becomes a struct
 * response_record, a reference of the request. On failure *request is empty. */
enum result responses_request_parse(const struct parse_context *context, const char *json,
                                    size_t json_bytes, struct generation_request *request,
                                    struct api_error *error) RESULT_CHECKED;

/* struct api_format's keep(): writes the record's file, if the client gets its id before its end. */
void responses_request_keep(const struct parse_context *context, const char *json,
                            size_t json_bytes, int64_t now_unix_s,
                            const struct generation_request *request);

/* The body of POST /v1/responses/input_tokens: the same fields; `model` and `input` may be absent;
 * nothing is stored. */
enum result responses_count_parse(const struct parse_context *context, const char *json,
                                  size_t json_bytes, struct generation_request *request,
                                  struct api_error *error) RESULT_CHECKED;

#endif
