/*
 * OpenAI's Responses API: POST /v1/responses. A stream is the API's events in order, numbered from
 * 0, and ends with response.completed, .incomplete or .failed (no [DONE]); otherwise the reply is
 * one response object. In all cases the response has a record (response_store.h).
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_FORMAT_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_FORMAT_H

#include "frontend/api/generation/inspection.h"
#include "frontend/api/responses/response_store.h"

/* The format_context of its routes is a struct response_store. */
extern const struct api_format responses_format;

/* Finishes a record whose answer was not begun in this process. `status` is final; `error`: why it
 * failed, or NULL. */
void responses_format_abandon(struct response_record *record, enum response_status status,
                              const struct api_error *error);

/* POST /v1/responses/input_tokens: {"object":"response.input_tokens","input_tokens":…} of the
 * prompt that the body would get. */
inspection responses_count_tokens;

#endif
