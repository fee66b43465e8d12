/*
 * Lists of token ids in replies.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_TOKEN_IDS_H
#define SHOAL_FRONTEND_API_GENERATION_TOKEN_IDS_H

#include "frontend/base/text_buffer.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

/* Writes `before`, which ends with the opening bracket, the ids and the closing bracket. */
void token_ids_write(const char *before, const struct token_list *tokens, struct text_buffer *out);

#endif
