/*
 * The error of a request that is longer than the context. Agents recognise it by its words and then
 * shorten the conversation: the message has those of OpenAI's API, and messages_error.h writes
 * those of Anthropic's from the same numbers.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_CONTEXT_ERROR_H
#define SHOAL_FRONTEND_API_GENERATION_CONTEXT_ERROR_H

#include "frontend/base/api_error.h"

/* A 400 `context_length_exceeded` about `param`. Returns RESULT_CONTEXT_EXCEEDED. */
enum result context_error_set(struct api_error *error, const char *param,
                              const struct context_overflow *overflow);

#endif
