/*
 * OpenAI's Responses API: POST /v1/responses. Streams are the API's events in their order, numbered
 * from 0, and end with response.completed, .incomplete or .failed (no [DONE]); else the answer is
 * one response object. Whatever was asked for, the response's record (response_store.h) follows it.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_FORMAT_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_FORMAT_H

#include "frontend/api/generation/inspection.h"

/* Its routes' format_context is a struct response_store. */
extern const struct api_format responses_format;

/* POST /v1/responses/input_tokens: {"object":"response.input_tokens","input_tokens":…}, of the
 * prompt that the body would get. */
inspection responses_count_tokens;

#endif
