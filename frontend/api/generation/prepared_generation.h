/*
 * A prepared request: what a worker needs to run it (prompt tokens, images, forced tokens) and the
 * settings that its reply needs.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_PREPARED_GENERATION_H
#define SHOAL_FRONTEND_API_GENERATION_PREPARED_GENERATION_H

#include "frontend/api/generation/forced_tokens.h"
#include "frontend/api/generation/generation_request.h"
#include "frontend/image/image_set.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

struct prepared_generation {
    struct generation_request request;
    struct token_list prompt;
    struct token_list *more_prompts; /* [more_prompt_count] owned; of a body with several prompts */
    uint32_t more_prompt_count;
    struct image_set *images;    /* of the prompt; a reference; NULL: none */
    struct forced_tokens forced; /* owned */
    bool reasoning_open;         /* the prompt ends inside a reasoning section */
    uint32_t max_new_tokens; /* given, or what the context leaves; >= 1 where answers are written */
};

/* Number of tokens an answer may have after a prompt of `prompt_tokens` (less than the context).
 * `asked`: the request's own maximum; 0: none. */
uint32_t prepared_generation_room(uint32_t context_tokens, size_t prompt_tokens, uint32_t asked);
void prepared_generation_fini(struct prepared_generation *prepared);

#endif
