/*
 * From a request body to what a worker needs: parse, render the chat template, tokenize, check
 * against the context. Pure and possibly slow (a million tokens): it runs on a preparation thread,
 * never on the event loop.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_PREPARE_H
#define SHOAL_FRONTEND_API_CHAT_PREPARE_H

#include "frontend/api/chat_request.h"

struct prepared_chat {
    struct chat_request request;
    struct token_list prompt;
    uint32_t max_new_tokens; /* given, or what the context leaves; >= 1 */
};

/* On failure *prepared is empty and *error is complete. */
enum result chat_prepare(const struct model_assets *assets, const char *body, size_t body_bytes,
                         uint64_t random_seed, int64_t now_unix_s, struct prepared_chat *prepared,
                         struct api_error *error) RESULT_CHECKED;
void prepared_chat_fini(struct prepared_chat *prepared);

#endif
