/*
 * A growing list of token ids.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKEN_LIST_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKEN_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

#define PAIR_MIDDLE_TOKENS_MAX 2u /* tokens between the texts of a pair (RoBERTa: 2) */

struct token_list {
    uint32_t *ids; /* malloc'd; token_list_fini() frees */
    size_t count;
    size_t capacity;
};
void token_list_fini(struct token_list *list);

/* RESULT_TOO_LARGE if the list would hold more than `max_tokens`, RESULT_OUT_OF_MEMORY; the list is
 * then as before. */
enum result token_list_append(struct token_list *list, const uint32_t ids[], size_t count,
                              size_t max_tokens) RESULT_CHECKED;

#endif
