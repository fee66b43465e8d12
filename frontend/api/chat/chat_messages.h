/*
 * The `messages` array of a chat request: checked, then brought into the form that chat templates
 * expect.
 *
 * After chat_messages_normalize(): every role is system, user, assistant or tool (developer becomes
 * system); every content is a string, or null where an assistant only calls tools; lists of text
 * parts are joined with newlines; a list with images (user and tool only) stays a list of {"type":
 * "text", "text": …} and {"type": "image"} in order; arguments of tool calls are objects if they
 * are valid JSON (the API has them as text, templates expect values).
 */
#ifndef SHOAL_FRONTEND_API_CHAT_CHAT_MESSAGES_H
#define SHOAL_FRONTEND_API_CHAT_CHAT_MESSAGES_H

#include "frontend/api/generation/request_images.h"

struct cJSON;

/* Changes `messages` in place and adds their images to `images`. An error's param names the place:
 * "messages[2].content". */
enum result chat_messages_normalize(struct cJSON *messages, struct request_images *images,
                                    struct api_error *error) RESULT_CHECKED;
/* The same for messages that another API's reader made, whose lists are already normalized. */
enum result chat_messages_normalize_made(struct cJSON *messages,
                                         struct api_error *error) RESULT_CHECKED;

#endif
