/*
 * OpenAI's completions: POST /v1/completions. Prompts are continued as they are, without a chat
 * template: texts, or token ids; several of them are answered together, `n` times each. Nothing is
 * split off an answer: its text is all that the model wrote.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_COMPLETIONS_FORMAT_H
#define SHOAL_FRONTEND_API_CHAT_COMPLETIONS_FORMAT_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format completions_format;

#endif
