/*
 * One choice of a chat completion: tokens in, OpenAI's shapes out: deltas when streaming, otherwise
 * one message. chat_format.c writes what surrounds them.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_CHAT_CHOICE_H
#define SHOAL_FRONTEND_API_CHAT_CHAT_CHOICE_H

#include "frontend/api/generation/answer.h"

struct chat_choice;

struct chat_choice *chat_choice_create(const struct reply_config *config, uint32_t index);
void chat_choice_destroy(struct chat_choice *choice); /* NULL is allowed */

/* True: a stop string, or the one call that the request allows, ended the choice. */
bool chat_choice_push(struct chat_choice *choice, const struct reply_token *token);
void chat_choice_finish(struct chat_choice *choice, enum finish_reason finish,
                        struct cached_prompt cached);

/* Streaming: takes the next delta, an object; false if there is none now. Valid until the next
 * push. */
bool chat_choice_take_delta(struct chat_choice *choice, const char **json, size_t *length);
/* Appends {"content":[…],"refusal":null} with the log-probabilities that are final and not yet sent
 * (not streaming: of all tokens), or null. */
void chat_choice_write_logprobs(struct chat_choice *choice, struct text_buffer *out);
/* Writes `,"token_ids":[…]`: ids of the answer that were not written yet; nothing if the request does
 * not want them. */
void chat_choice_write_token_ids(struct chat_choice *choice, struct text_buffer *out);
/* Writes `,"stop_reason":…` (generation/own_stops.h). */
void chat_choice_write_stop_reason(const struct chat_choice *choice, struct text_buffer *out);
/* Not streaming, after the end. */
void chat_choice_write_message(struct chat_choice *choice, struct text_buffer *out);

/* "stop", "length" or "tool_calls"; after the end. */
const char *chat_choice_finish_name(const struct chat_choice *choice);
const struct answer_usage *chat_choice_usage(const struct chat_choice *choice);

#endif
