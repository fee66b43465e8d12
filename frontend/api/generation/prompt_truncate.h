/*
 * `truncation: "auto"` of the Responses API: the oldest turns of a conversation that is longer than
 * the context are left out. A turn is a user's message with all that follows it up to the next one,
 * so no tool's output is left without its call. System messages and the last turn stay.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_PROMPT_TRUNCATE_H
#define SHOAL_FRONTEND_API_GENERATION_PROMPT_TRUNCATE_H

#include <stdbool.h>

#include "frontend/base/api_error.h"

struct cJSON;

/* Removes as many turns from the list as the overflow suggests, at least one. `answer_tokens`: room
 * that the answer needs. False: only the last turn is left. */
bool prompt_truncate(struct cJSON *messages, const struct context_overflow *overflow,
                     uint32_t answer_tokens);

#endif
