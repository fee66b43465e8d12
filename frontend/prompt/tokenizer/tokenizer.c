/*
 * Queries of an open tokenizer, and the settings that files next to tokenizer.json change.
 */
#include "frontend/prompt/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/tokenizer_state.h"

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    vocabulary_fini(&tokenizer->vocabulary);
    added_tokens_fini(&tokenizer->added);
    normalizer_fini(&tokenizer->normalizer);
    pretokenizer_fini(&tokenizer->pretokenizer);
    unigram_model_fini(&tokenizer->unigram);
    bpe_model_fini(&tokenizer->model);
    free(tokenizer);
}

void tokenizer_add_end_token(struct tokenizer *tokenizer, int32_t id)
{
    if (id < 0 || !vocabulary_has(&tokenizer->vocabulary, (uint32_t)id, VOCABULARY_PRESENT))
        return;
    for (uint32_t i = 0; i < tokenizer->end_token_count; i++) {
        if (tokenizer->end_tokens[i] == (uint32_t)id)
            return;
    }
    if (tokenizer->end_token_count < LIMIT_STOP_TOKENS)
        tokenizer->end_tokens[tokenizer->end_token_count++] = (uint32_t)id;
}

void tokenizer_set_bos(struct tokenizer *tokenizer, int32_t id)
{
    tokenizer->bos_token = id;
}

void tokenizer_set_eos(struct tokenizer *tokenizer, int32_t id)
{
    tokenizer->eos_token = id;
    tokenizer_add_end_token(tokenizer, id);
}

void tokenizer_set_adds_bos(struct tokenizer *tokenizer, bool adds)
{
    tokenizer->adds_bos = adds;
}

uint32_t tokenizer_vocab_tokens(const struct tokenizer *tokenizer)
{
    return tokenizer->vocabulary.token_count;
}

uint32_t tokenizer_end_tokens(const struct tokenizer *tokenizer, uint32_t ids[])
{
    memcpy(ids, tokenizer->end_tokens, tokenizer->end_token_count * sizeof *ids);
    return tokenizer->end_token_count;
}

int32_t tokenizer_bos_token(const struct tokenizer *tokenizer)
{
    return tokenizer->bos_token;
}

int32_t tokenizer_eos_token(const struct tokenizer *tokenizer)
{
    return tokenizer->eos_token;
}

bool tokenizer_adds_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->adds_bos && tokenizer->bos_token >= 0;
}

int32_t tokenizer_tail_token(const struct tokenizer *tokenizer)
{
    return tokenizer->tail_token;
}

uint32_t tokenizer_pair_middle(const struct tokenizer *tokenizer,
                               uint32_t ids[PAIR_MIDDLE_TOKENS_MAX], bool *segments)
{
    memcpy(ids, tokenizer->pair_middle, sizeof tokenizer->pair_middle);
    *segments = tokenizer->pair_segments;
    return tokenizer->pair_middle_count;
}

int32_t tokenizer_find_token(const struct tokenizer *tokenizer, const char *text, size_t text_bytes)
{
    const struct added_token *token = added_tokens_find(&tokenizer->added, text, text_bytes);
    return token ? (int32_t)token->id : vocabulary_find(&tokenizer->vocabulary, text, text_bytes);
}

size_t tokenizer_special_at(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                            uint32_t *id)
{
    const struct added_token *token = added_tokens_special_at(&tokenizer->added, text, text_bytes);
    if (!token || !tokenizer_is_special(tokenizer, token->id))
        return 0;
    *id = token->id;
    return token->content_bytes;
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id)
{
    return vocabulary_has(&tokenizer->vocabulary, id, VOCABULARY_SPECIAL);
}

void tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id, const char **bytes,
                           size_t *byte_count)
{
    *bytes = vocabulary_shown(&tokenizer->vocabulary, id, byte_count);
}

bool tokenizer_strips_space(const struct tokenizer *tokenizer)
{
    return tokenizer->strips_space;
}
