/*
 * Token ids back to text: whole UTF-8 characters only (bytes that can never become valid become
 * U+FFFD, once per maximal bad subpart as Python's decoder does), special tokens left out unless
 * they are to be shown.
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

/* Appends to *out the text that became certain with this token. Returns how many bytes of it are
 * for earlier tokens alone: U+FFFD for a character of theirs that this one does not go on with. */
size_t reply_text_push(struct reply_text *reply, uint32_t token, struct text_buffer *out);
/* At the end of generation: incomplete bytes become U+FFFD. */
void reply_text_finish(struct reply_text *reply, struct text_buffer *out);

#endif
