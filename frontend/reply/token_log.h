/*
 * The log-probabilities of one answer's tokens, kept until their text is shown.
 *
 * Invariant: while an answer is plain text, the bytes of the entries taken join to exactly the text
 * shown, whatever was held back or cut by a stop string: a token is taken only after its last byte
 * is shown, the token that contains the cut has only the bytes before it, and tokens after it are
 * never taken. (Bytes that are not UTF-8 are shown as U+FFFD but unchanged here.) Tokens without
 * text have no bytes.
 *
 * If an answer contains more than text (reasoning, calls), marks are removed and positions shift:
 * from there on every token is taken as it comes, marks included.
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
    size_t skipped_bytes; /* bytes at the token's beginning that are not shown */
    size_t shown_bytes;   /* bytes of the token after these */
    uint64_t text_offset; /* characters of the answer before it */
};

/* The tokenizer must outlive the log. */
struct token_log *token_log_create(const struct tokenizer *tokenizer);
void token_log_destroy(struct token_log *log); /* NULL is allowed */

/* One generated token that is not a stop token. */
void token_log_push(struct token_log *log, struct token_logprob own,
                    const struct token_logprob *alternatives, uint32_t alternative_count);
/* `bytes` more bytes of text are shown. */
void token_log_show(struct token_log *log, size_t bytes);
/* The answer contains more than text. */
void token_log_set_mixed(struct token_log *log);
/* End of the answer. `cut`: by a stop string; text that is not shown yet never will be. */
void token_log_end(struct token_log *log, bool cut);

/* Takes the next entry that is complete; false if there is none now. */
bool token_log_take(struct token_log *log, struct token_log_entry *entry);

/* Takes all complete entries and appends them in the format of OpenAI's APIs, separated by commas:
 * {"token","logprob","bytes","top_logprobs":[…]}. Returns their number. */
size_t token_log_write(struct token_log *log, struct text_buffer *out);
/* For other formats: appends a token's text as a JSON string, what is not UTF-8 in it as U+FFFD; a
 * logarithm as a JSON number. */
void token_log_write_text(const struct tokenizer *tokenizer, uint32_t token,
                          struct text_buffer *out);
void token_log_write_logprob(float logprob, struct text_buffer *out);

#endif
