/*
 * The `messages` array of a chat request: checked, then brought into the one form that chat
 * templates expect.
 *
 * After chat_messages_normalize(): every role is system, user, assistant or tool (developer becomes
 * system); every content is a string, or null where an assistant only calls tools; lists of text
 * parts are joined by newlines; a list with pictures in it (of user and tool only) stays a list, of
 * {"type": "text", "text": …} and {"type": "image"} as they stood; the arguments of tool calls are
 * objects where they are valid JSON (the API carries them as text, templates want values).
 */
#ifndef SHOAL_FRONTEND_API_CHAT_CHAT_MESSAGES_H
#define SHOAL_FRONTEND_API_CHAT_CHAT_MESSAGES_H

#include "frontend/api/generation/request_images.h"

struct cJSON;

/* Changes `messages` in place and adds their pictures to `images`. An error's param names the
 * place: "messages[2].content". */
enum result chat_messages_normalize(struct cJSON *messages, struct request_images *images,
                                    struct api_error *error) RESULT_CHECKED;
/* The same of messages that a reader of another API made, whose lists are as they shall be. */
enum result chat_messages_normalize_made(struct cJSON *messages,
                                         struct api_error *error) RESULT_CHECKED;

#endif
