/*
 * The body of POST /v1/chat/completions, checked: types, ranges, roles, limits. Unknown fields are
 * ignored, as clients expect of compatible servers; known fields whose feature this server lacks
 * are refused, never silently dropped.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_CHAT_REQUEST_H
#define SHOAL_FRONTEND_API_CHAT_CHAT_REQUEST_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"

struct cJSON;

/* On failure *request is empty. */
enum result chat_request_parse(const struct parse_context *context, const char *json,
                               size_t json_bytes, struct generation_request *request,
                               struct api_error *error) RESULT_CHECKED;

/* The fields of a body that is already request->body; on failure the caller frees the request. */
enum result chat_request_read(const struct parse_context *context,
                              struct generation_request *request,
                              struct api_error *error) RESULT_CHECKED;

/* Reads `verbosity` of `holder`, an object (NULL: none), into a variable of the template. */
enum result chat_request_read_verbosity(struct cJSON *body, const struct cJSON *holder,
                                        const char *param, struct generation_request *request,
                                        struct api_error *error) RESULT_CHECKED;
/* Parts that other APIs share: `stream` and its options; sampling, stop
 * strings, biases and the form of the answer; the last by itself. */
enum result chat_request_read_stream(struct cJSON *body, struct generation_request *request,
                                     struct api_error *error) RESULT_CHECKED;
/* Fields about thinking, and template variables, to which the effort belongs. */
enum result chat_request_read_thinking(struct cJSON *body, struct generation_request *request,
                                       struct api_error *error) RESULT_CHECKED;
enum result chat_request_read_settings(const struct parse_context *context, struct cJSON *body,
                                       struct generation_request *request,
                                       struct api_error *error) RESULT_CHECKED;
enum result chat_request_read_form(struct cJSON *body, struct generation_request *request,
                                   struct api_error *error) RESULT_CHECKED;

/* Reads vLLM's prompt_logprobs; `stream` is read already. */
enum result chat_request_read_prompt_logprobs(const struct cJSON *body,
                                              struct generation_request *request,
                                              struct api_error *error) RESULT_CHECKED;

#endif
