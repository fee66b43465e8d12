/*
 * The `messages` array of a chat request: checked, then brought into the one form that chat
 * templates expect.
 *
 * After chat_messages_normalize(): every role is system, user, assistant or tool (developer becomes
 * system); every content is a string, or null where an assistant only calls tools; lists of text
 * parts are joined by newlines; the arguments of tool calls are objects where they are valid JSON
 * (the API carries them as text, templates want values).
 */
#ifndef SHOAL_FRONTEND_API_CHAT_MESSAGES_H
#define SHOAL_FRONTEND_API_CHAT_MESSAGES_H

#include "frontend/api/api_error.h"

struct cJSON;

/* Changes `messages` in place. An error's param names the place: "messages[2].content". */
enum result chat_messages_normalize(struct cJSON *messages, struct api_error *error) RESULT_CHECKED;

#endif
