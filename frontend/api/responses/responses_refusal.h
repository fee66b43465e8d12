/*
 * The stream of a response that fails before it begins because its input is too long.
 *
 * Agents of this API shorten the conversation when a `response.failed` event has the code
 * context_length_exceeded; an error status ends their turn. Such a response is not stored.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_REFUSAL_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_REFUSAL_H

#include <stdint.h>

#include "frontend/base/api_error.h"

void responses_refusal_write(const char *id, const char *model_id, int64_t created_unix_s,
                             const struct api_error *error, struct text_buffer *out);

#endif
