/*
 * continue_final_message: the rendered prompt ends where the last message's text ends, and the
 * answer continues it. The rule is that of transformers' apply_chat_template().
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_FINAL_MESSAGE_H
#define SHOAL_FRONTEND_API_GENERATION_FINAL_MESSAGE_H

#include "frontend/base/api_error.h"
#include "frontend/prompt/chat_template.h"

struct cJSON;

/* Checks that the last message is the assistant's and has text. */
enum result final_message_check(const struct cJSON *messages,
                                struct api_error *error) RESULT_CHECKED;
/* Cuts the prompt after the last place of the text. Refused if the template changed the text. */
enum result final_message_cut(const struct cJSON *messages, struct chat_prompt *prompt,
                              struct api_error *error) RESULT_CHECKED;

#endif
