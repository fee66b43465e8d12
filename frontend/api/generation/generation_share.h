/*
 * One body that asks for several answers: `choices` of them for each of its prompts. Answer i is
 * the (i % choices)-th of prompt i / choices, and the one that a request of its own with that
 * prompt and the seed plus i % choices gets.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_GENERATION_SHARE_H
#define SHOAL_FRONTEND_API_GENERATION_GENERATION_SHARE_H

#include "frontend/api/generation/prepared_generation.h"

/* How many, at least 1. */
uint32_t generation_share_answers(const struct prepared_generation *prepared);
/* The prompt of an answer. */
const struct token_list *generation_share_prompt(const struct prepared_generation *prepared,
                                                 uint32_t answer);
/* What a live request of answer `answer` > 0 needs, in memory of its own and without a body. */
enum result generation_share_take(const struct prepared_generation *prepared,
                                  uint32_t context_tokens, uint32_t answer,
                                  struct prepared_generation *own) RESULT_CHECKED;

#endif
