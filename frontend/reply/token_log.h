/*
 * The log-probabilities of one answer's tokens, kept until the text that they stand for is shown.
 *
 * The law: while an answer is plain text, the bytes of the entries that were taken join to exactly
 * the text that was shown, whatever was held back or cut by a stop string on the way: a token is
 * taken no sooner than the last of its bytes is shown, the one in which the cut lies has only the
 * bytes before it, and those behind it never come. (Bytes that are no UTF-8 are shown as U+FFFD and
 * are themselves here.) Tokens that show nothing have no bytes.
 *
 * Where an answer is more than text (reasoning, calls), marks vanish and places move: from there on
 * every token is taken as it comes, marks included.
 */
#ifndef SHOAL_FRONTEND_REPLY_TOKEN_LOG_H
#define SHOAL_FRONTEND_REPLY_TOKEN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"
#include "frontend/prompt/tokenizer/tokenizer.h"
#include "proto/limits.h"
#include "proto/token_event.h"

struct token_log;

struct token_log_entry {
    struct token_logprob own;
    struct token_logprob alternatives[LIMIT_TOP_LOGPROBS];
    uint32_t alternative_count;
    size_t skipped_bytes; /* of the token's bytes, from its beginning, that are not shown */
    size_t shown_bytes;   /* of the token's bytes, behind these */
    uint64_t text_offset; /* characters of the answer before it */
};

/* The tokenizer must outlive the log. */
struct token_log *token_log_create(const struct tokenizer *tokenizer);
void token_log_destroy(struct token_log *log); /* NULL is fine */

/* One generated token that is no stop token. */
void token_log_push(struct token_log *log, struct token_logprob own,
                    const struct token_logprob *alternatives, uint32_t alternative_count);
/* So much more text is shown. */
void token_log_show(struct token_log *log, size_t bytes);
/* The answer is not only text. */
void token_log_loosen(struct token_log *log);
/* No more comes. `cut`: by a stop string, what is not shown yet never will be. */
void token_log_end(struct token_log *log, bool cut);

/* Takes the next entry that may be told; false when there is none now. */
bool token_log_take(struct token_log *log, struct token_log_entry *entry);

/* Takes all that may be told and appends them as OpenAI's APIs shape them, with commas between:
 * {"token","logprob","bytes","top_logprobs":[…]}. Returns how many. */
size_t token_log_write(struct token_log *log, struct text_buffer *out);
/* A token's text as a JSON string, and a logarithm as a JSON number, for other shapes. */
void token_log_write_text(const struct token_log *log, uint32_t token, size_t skipped_bytes,
                          size_t shown_bytes, struct text_buffer *out);
void token_log_write_logprob(float logprob, struct text_buffer *out);

#endif
