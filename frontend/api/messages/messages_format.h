/*
 * Anthropic's messages: POST /v1/messages. A stream is events in the order message_start, ping,
 * then for each block content_block_start, deltas, content_block_stop, then message_delta and
 * message_stop; a failure is an error event. Otherwise the reply is one message object.
 *
 * Blocks are thinking, text and tool_use, in the model's order; an empty answer has none.
 * input_tokens counts prompt tokens that no cache had. The cached part is known once the worker has
 * started, so a stream reports it with its last counts.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_MESSAGES_FORMAT_H
#define SHOAL_FRONTEND_API_MESSAGES_MESSAGES_FORMAT_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format messages_format;

#endif
