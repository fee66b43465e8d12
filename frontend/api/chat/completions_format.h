/*
 * OpenAI's completions: POST /v1/completions. Prompts (texts or token ids) are continued without a
 * chat template; several are answered together, `n` times each. The answer is not parsed: its text
 * is all that the model wrote.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_COMPLETIONS_FORMAT_H
#define SHOAL_FRONTEND_API_CHAT_COMPLETIONS_FORMAT_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format completions_format;

#endif
