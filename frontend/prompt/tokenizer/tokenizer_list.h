/*
 * Appending to a struct token_list under a bound.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_LIST_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_LIST_H

#include "frontend/prompt/tokenizer/tokenizer.h"

/* RESULT_TOO_LARGE when the list would hold more than `max_tokens`; the list is then as before. */
enum result token_list_append(struct token_list *list, const uint32_t ids[], size_t count,
                              size_t max_tokens) RESULT_CHECKED;

#endif
