/*
 * The answer to one chat request, built token by token: SSE chunks in the order role, deltas,
 * finish_reason, usage, [DONE]; or one chat.completion object. Knows JSON and text, nothing of HTTP
 * or workers: it appends bytes to a buffer that the caller sends.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_REPLY_H
#define SHOAL_FRONTEND_API_CHAT_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/api/api_error.h"
#include "frontend/api/chat_prepare.h"
#include "proto/token_event.h"

struct chat_reply;

/* `id` ("chatcmpl-…") is copied; assets and prepared must outlive the reply. */
struct chat_reply *chat_reply_create(const struct model_assets *assets,
                                     const struct prepared_chat *prepared, const char *id,
                                     int64_t created_unix_s);
void chat_reply_destroy(struct chat_reply *reply);

/* Streaming: the role-only first chunk. Not streaming: nothing. */
void chat_reply_begin(struct chat_reply *reply, struct text_buffer *out);
/* One generated token (stop tokens included: they count, but show no text). Returns true when a
 * stop string ended the answer: the caller cancels the worker's part and calls chat_reply_end(…,
 * FINISH_STOP_TOKEN). */
bool chat_reply_token(struct chat_reply *reply, uint32_t token, bool is_stop_token,
                      struct text_buffer *out);
/* Streaming: rest of the text, the finish_reason chunk, usage when asked, [DONE]. Not streaming:
 * the whole object. */
void chat_reply_end(struct chat_reply *reply, enum finish_reason finish, uint32_t cached_tokens,
                    struct text_buffer *out);
/* After the stream began: `data: {"error":…}` then [DONE], so that no client waits for ever. Not
 * streaming: the error object. */
void chat_reply_fail(struct chat_reply *reply, const struct api_error *error,
                     struct text_buffer *out);

uint32_t chat_reply_generated_tokens(const struct chat_reply *reply);

#endif
