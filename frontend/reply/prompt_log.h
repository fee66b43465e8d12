/*
 * The log-probabilities of a prompt's tokens, kept until the reply is written. The first token has
 * none.
 */
#ifndef SHOAL_FRONTEND_REPLY_PROMPT_LOG_H
#define SHOAL_FRONTEND_REPLY_PROMPT_LOG_H

#include <stdint.h>

#include "frontend/base/text_buffer.h"
#include "frontend/prompt/tokenizer/tokenizer.h"
#include "proto/token_event.h"

struct prompt_log;

struct prompt_log_entry {
    struct token_logprob own;                 /* of the first token: logprob 0, no alternatives */
    uint32_t rank;                            /* proto/token_event.h; of the first token 0 */
    const struct token_logprob *alternatives; /* [alternative_count] in descending order */
    uint32_t alternative_count;
};

/* The tokenizer must outlive the log. */
struct prompt_log *prompt_log_create(const struct tokenizer *tokenizer, uint32_t first_token);
void prompt_log_destroy(struct prompt_log *log); /* NULL is allowed */

/* The next token. */
void prompt_log_push(struct prompt_log *log, struct token_logprob own, uint32_t rank,
                     const struct token_logprob *alternatives, uint32_t alternative_count);
uint32_t prompt_log_count(const struct prompt_log *log);
struct prompt_log_entry prompt_log_at(const struct prompt_log *log, uint32_t index);

/* Appends vLLM's form: [null,{"<id>":{"logprob","rank","decoded_token"},…},…], with up to `top`
 * alternatives and the token itself. The rank of an alternative is its place. */
void prompt_log_write(const struct prompt_log *log, uint32_t top, struct text_buffer *out);

#endif
