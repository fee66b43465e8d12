/*
 * continue_final_message: the rendered prompt ends where the last message's text ends, so that the
 * answer goes on with it. The rule is the one of transformers' apply_chat_template().
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_FINAL_MESSAGE_H
#define SHOAL_FRONTEND_API_GENERATION_FINAL_MESSAGE_H

#include "frontend/base/api_error.h"
#include "frontend/prompt/chat_template.h"

struct cJSON;

/* The last message must be the assistant's and have text. */
enum result final_message_check(const struct cJSON *messages,
                                struct api_error *error) RESULT_CHECKED;
/* Cuts the prompt behind the text's last place in it. Refused where the template changed it. */
enum result final_message_cut(const struct cJSON *messages, struct chat_prompt *prompt,
                              struct api_error *error) RESULT_CHECKED;

#endif
