/*
 * Token ids back to text: whole UTF-8 characters only (bytes that can never become valid become
 * U+FFFD, once per maximal subpart as in Python's decoder); special tokens are left out unless
 * listed.
 */
#ifndef SHOAL_FRONTEND_REPLY_REPLY_TEXT_H
#define SHOAL_FRONTEND_REPLY_REPLY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

struct reply_text;

/* The tokenizer must outlive the reply. */
struct reply_text *reply_text_create(const struct tokenizer *tokenizer);
void reply_text_destroy(struct reply_text *reply);

/* These special tokens, in ascending order, give their text (mark_tokens.h). The list must outlive
 * the reply. */
void reply_text_show(struct reply_text *reply, const struct token_list *tokens);

/* Appends to *out the text that became certain with this token. Returns how many of its bytes
 * belong to earlier tokens only: U+FFFD for an incomplete character of theirs that this token does
 * not continue. */
size_t reply_text_push(struct reply_text *reply, uint32_t token, struct text_buffer *out);
/* At the end of generation: incomplete bytes become U+FFFD. */
void reply_text_finish(struct reply_text *reply, struct text_buffer *out);

/* Text of a list of tokens, special ones included: of a prompt whose ids the client wrote. */
void reply_text_write_all(const struct tokenizer *tokenizer, const struct token_list *tokens,
                          struct text_buffer *out);

#endif
