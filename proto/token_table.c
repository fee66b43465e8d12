/*
 * Places and checks the payload of a vocabulary record. The sizes are bounded before anything is
 * computed from them, so nothing overflows; every offset is compared with the one before it, so a
 * checked table can be read without further tests.
 */
#include "proto/token_table.h"

enum result token_table_check_sizes(const struct token_table_sizes *sizes, struct error_text *error)
{
    if (sizes->token_count < 1 || sizes->token_count > LIMIT_VOCAB_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S20: token_count %u", sizes->token_count);
    if (sizes->end_count > LIMIT_STOP_TOKENS)
        return error_set(error, RESULT_CORRUPT, "S20: end_count %u", sizes->end_count);
    if (sizes->text_bytes > LIMIT_TOKEN_TABLE_BYTES)
        return error_set(error, RESULT_CORRUPT, "S20: text_bytes %llu",
                         (unsigned long long)sizes->text_bytes);
    return RESULT_OK;
}

uint64_t token_table_bytes(const struct token_table_sizes *sizes)
{
    uint64_t words = (uint64_t)sizes->token_count + 1 + sizes->end_count;
    return words * sizeof(uint32_t) + sizes->text_bytes;
}

struct token_table token_table_place(const struct token_table_sizes *sizes, void *payload)
{
    uint32_t *words = payload;
    struct token_table table = {.offsets = words, .end_tokens = words + sizes->token_count + 1};
    table.text = (uint8_t *)(table.end_tokens + sizes->end_count);
    return table;
}

enum result token_table_check(const struct token_table_sizes *sizes,
                              const struct token_table *table, struct error_text *error)
{
    const uint32_t *offsets = table->offsets;
    if (offsets[0] != 0 || offsets[sizes->token_count] != sizes->text_bytes)
        return error_set(error, RESULT_CORRUPT, "the tokens' bytes do not cover the text");
    for (uint32_t t = 0; t < sizes->token_count; t++) {
        if (offsets[t + 1] < offsets[t] || offsets[t + 1] - offsets[t] > LIMIT_TOKEN_BYTES)
            return error_set(error, RESULT_CORRUPT, "token %u: bytes %u up to %u", t, offsets[t],
                             offsets[t + 1]);
    }
    for (uint32_t i = 0; i < sizes->end_count; i++) {
        if (table->end_tokens[i] >= sizes->token_count)
            return error_set(error, RESULT_CORRUPT, "end token %u of %u", table->end_tokens[i],
                             sizes->token_count);
    }
    return RESULT_OK;
}
