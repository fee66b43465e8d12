/*
 * OpenAI's Responses API: POST /v1/responses. A stream is the API's events in order, numbered from
 * 0, and ends with response.completed, .incomplete or .failed (no [DONE]); otherwise the reply is
 * one response object. In all cases the response has a record (response_store.h).
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_FORMAT_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_FORMAT_H

#include "frontend/api/generation/inspection.h"

/* The format_context of its routes is a struct response_store. */
extern const struct api_format responses_format;

/* POST /v1/responses/input_tokens: {"object":"response.input_tokens","input_tokens":…} of the
 * prompt that the body would get. */
inspection responses_count_tokens;

#endif
