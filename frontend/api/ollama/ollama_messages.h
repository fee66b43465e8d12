/*
 * Messages of Ollama's /api/chat, rewritten into those of chat completions.
 */
#ifndef SHOAL_FRONTEND_API_OLLAMA_OLLAMA_MESSAGES_H
#define SHOAL_FRONTEND_API_OLLAMA_OLLAMA_MESSAGES_H

#include "frontend/base/api_error.h"

struct cJSON;

/* Changes the list in place; what is not Ollama's is left to the reader of chats. */
enum result ollama_messages_rewrite(struct cJSON *messages, struct api_error *error) RESULT_CHECKED;
/* Moves the images of `owner` (its member `images`, a list of base64 texts) to the content of a
 * message after its text. `place`: of the message in errors. */
enum result ollama_messages_take_images(struct cJSON *owner, struct cJSON *message,
                                        const char *place, struct api_error *error) RESULT_CHECKED;

#endif
