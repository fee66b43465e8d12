/*
 * An error reply in Anthropic's shape:
 * {"type":"error","error":{"type","message","details"?},"request_id"}.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_ERROR_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_ERROR_H

#include "frontend/base/api_error.h"

/* An api_error_writer; also writes the data of an error event. A 503 of the other APIs (loading,
 * restarting, shutting down) is 529 here, which Anthropic's clients know as "overloaded" and retry.
 */
int messages_error_write(const struct api_error *error, const char *request_id,
                         struct text_buffer *out);

#endif
