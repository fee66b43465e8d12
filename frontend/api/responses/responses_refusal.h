/*
 * The stream of a response that fails before it begins: its input is too long, or its model was being
 * loaded when the stream had to begin.
 *
 * Agents of this API shorten the conversation when a `response.failed` event has the code
 * context_length_exceeded; an error status ends their turn. Such a response is not stored.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_REFUSAL_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_REFUSAL_H

#include "frontend/api/generation/api_format.h"

void responses_refusal_write(const struct reply_refusal *refusal, struct text_buffer *out);

#endif
