/*
 * The log-probability of a token and of its alternatives as OpenAI's APIs show them (chat and
 * Responses alike): {"token","logprob","bytes","top_logprobs":[{"token","logprob","bytes"}, …]}.
 */
#ifndef SHOAL_FRONTEND_API_LOGPROB_TEXT_H
#define SHOAL_FRONTEND_API_LOGPROB_TEXT_H

#include "frontend/api/api_format.h"

/* `bytes` joined over all tokens is the answer's text; `token` shows U+FFFD where a token is a part
 * of a character. What cannot be drawn has -9999. */
void logprob_text_write(const struct tokenizer *tokenizer, const struct reply_token *token,
                        struct text_buffer *out);

#endif
