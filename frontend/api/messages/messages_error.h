/*
 * An answer that says no, in Anthropic's shape:
 * {"type":"error","error":{"type","message","details"?},"request_id"}.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_ERROR_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_ERROR_H

#include "frontend/base/api_error.h"

/* An api_error_writer; also the data of an error event. What is 503 elsewhere (loading, restarting,
 * shutting down) is 529 here, which Anthropic's clients know as "overloaded" and try again. */
int messages_error_write(const struct api_error *error, const char *request_id,
                         struct text_buffer *out);

#endif
