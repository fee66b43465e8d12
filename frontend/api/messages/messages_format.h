/*
 * Anthropic's messages: POST /v1/messages. Streams are events in the order message_start, ping,
 * then for each block content_block_start, deltas, content_block_stop, then message_delta and
 * message_stop; an error event where it fails. Else one message object.
 *
 * Blocks are thinking, text and tool_use, in the order in which the model wrote them; an answer
 * without any has none. input_tokens are those of the prompt that no cache had; what the cache had
 * is known when the worker has begun, so a stream tells it with its last counts.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_FORMAT_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_FORMAT_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format messages_format;

#endif
