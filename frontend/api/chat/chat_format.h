/*
 * OpenAI's chat completions: POST /v1/chat/completions. A stream is SSE chunks in the order role,
 * deltas, finish_reason, usage, [DONE]; otherwise the reply is one chat.completion object.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_CHAT_FORMAT_H
#define SHOAL_FRONTEND_API_CHAT_CHAT_FORMAT_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format chat_format;

#endif
