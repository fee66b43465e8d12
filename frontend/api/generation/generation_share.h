/*
 * Several answers to one body: `choices` answers to each of its prompts. Answer i is answer i %
 * choices to prompt i / choices, and equals the answer to a request with that prompt alone and the
 * seed plus i % choices.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_GENERATION_SHARE_H
#define SHOAL_FRONTEND_API_GENERATION_GENERATION_SHARE_H

#include "frontend/api/generation/prepared_generation.h"

/* Number of answers, at least 1. */
uint32_t generation_share_answers(const struct prepared_generation *prepared);
/* The prompt of an answer. */
const struct token_list *generation_share_prompt(const struct prepared_generation *prepared,
                                                 uint32_t answer);
/* Copies what the live request of answer `answer` > 0 needs, without the body. */
enum result generation_share_take(const struct prepared_generation *prepared,
                                  uint32_t context_tokens, uint32_t answer,
                                  struct prepared_generation *own) RESULT_CHECKED;

#endif
