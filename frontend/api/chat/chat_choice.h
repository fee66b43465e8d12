/*
 * One choice of a chat completion: tokens in, OpenAI's shapes out. Streaming it yields deltas, else
 * one message. What stands around them is chat_format.c's.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_CHAT_CHOICE_H
#define SHOAL_FRONTEND_API_CHAT_CHAT_CHOICE_H

#include "frontend/api/generation/answer.h"

struct chat_choice;

struct chat_choice *chat_choice_create(const struct reply_config *config, uint32_t index);
void chat_choice_destroy(struct chat_choice *choice); /* NULL is fine */

/* True: a stop string, or the one call that the request allows, ended it. */
bool chat_choice_push(struct chat_choice *choice, const struct reply_token *token);
void chat_choice_finish(struct chat_choice *choice, enum finish_reason finish,
                        struct cached_prompt cached);

/* Streaming: takes the next delta, an object; false when there is none now. Valid until the next
 * push. */
bool chat_choice_take_delta(struct chat_choice *choice, const char **json, size_t *length);
/* Appends {"content":[…],"refusal":null} with the log-probabilities that may be told by now and
 * were not yet (not streaming: of all tokens), or null. */
void chat_choice_write_logprobs(struct chat_choice *choice, struct text_buffer *out);
/* Not streaming, after the end. */
void chat_choice_write_message(struct chat_choice *choice, struct text_buffer *out);

/* "stop", "length" or "tool_calls"; after the end. */
const char *chat_choice_finish_name(const struct chat_choice *choice);
const struct answer_usage *chat_choice_usage(const struct chat_choice *choice);

#endif
