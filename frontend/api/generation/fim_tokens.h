/*
 * Fill in the middle: the special tokens that a model is trained with to write the text between a
 * prefix and a suffix, and the prompt made of them.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_FIM_TOKENS_H
#define SHOAL_FRONTEND_API_GENERATION_FIM_TOKENS_H

#include "frontend/base/api_error.h"
#include "frontend/prompt/tokenizer/tokenizer.h"

struct cJSON;

/* Ids; -1: the vocabulary has none. */
struct fim_tokens {
    int32_t prefix;
    int32_t suffix;
    int32_t middle;
    int32_t repository; /* before the name of a repository */
    int32_t file;       /* before each file of a repository */
};

struct fim_parts {
    const char *prefix;
    const char *suffix;
    const char *middle;         /* the beginning of the answer that is given; NULL: none */
    const struct cJSON *extras; /* [{"filename": …, "text": …}]: other files; NULL: none */
};

/* True if the vocabulary has the prefix, suffix and middle tokens. */
bool fim_tokens_find(const struct tokenizer *tokenizer, struct fim_tokens *tokens);
/* The error for a model without these tokens. */
enum result fim_tokens_refuse(const struct fim_tokens *tokens, const char *param, int status,
                              struct api_error *error);
/*
 * A prompt of token ids and texts (generation_request.prompts_mixed), the caller's:
 * prefix-token prefix suffix-token suffix middle-token middle. Other files come first: each after
 * its own token and its name if the model has such tokens, otherwise as snippets. NULL: out of
 * memory.
 */
struct cJSON *fim_tokens_prompt(const struct tokenizer *tokenizer, const struct fim_tokens *tokens,
                                const struct fim_parts *parts);

#endif
