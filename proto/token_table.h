/*
 * The payload of a vocabulary record: the bytes of every token, with which a worker, which has no
 * tokenizer, matches grammars. The frontend sends it before a worker's first request that has a
 * grammar.
 *
 * Layout, little-endian and without padding: u32 offsets[token_count + 1], u32
 * end_tokens[end_count], u8 text[text_bytes]. Token t has the bytes text[offsets[t]] up to
 * text[offsets[t + 1]]; special tokens have none, because no text matches them.
 */
#ifndef SHOAL_PROTO_TOKEN_TABLE_H
#define SHOAL_PROTO_TOKEN_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/result.h"

/*
 * The sizes of the payload.
 *
 * Byte map of struct token_table_sizes, 16 bytes. Written by the frontend.
 *
 *   offset  size  field        rule
 *   0       4     token_count  S20: 1..LIMIT_VOCAB_TOKENS; the worker compares it with its model
 *   4       4     end_count    S20: <= LIMIT_STOP_TOKENS
 *   8       8     text_bytes   S20: <= LIMIT_TOKEN_TABLE_BYTES
 */
struct token_table_sizes {
    uint32_t token_count;
    uint32_t end_count;
    uint64_t text_bytes;
};
_Static_assert(sizeof(struct token_table_sizes) == 16, "crosses shared memory: layout is fixed");

/* S20. RESULT_CORRUPT, and the error text begins with the rule's name. The other functions require
 * sizes within these bounds. */
enum result token_table_check_sizes(const struct token_table_sizes *sizes,
                                    struct error_text *error) RESULT_CHECKED;
/* Size of the payload. */
uint64_t token_table_bytes(const struct token_table_sizes *sizes);

/* The parts of a payload, which is aligned to 4 bytes. */
struct token_table {
    uint32_t *offsets;    /* [token_count + 1] */
    uint32_t *end_tokens; /* [end_count] */
    uint8_t *text;        /* [text_bytes] */
};
struct token_table token_table_place(const struct token_table_sizes *sizes, void *payload);

/* Checks a payload: offsets ascend from 0 to text_bytes, no token is longer than
 * LIMIT_TOKEN_BYTES, end tokens are of the vocabulary. RESULT_CORRUPT and the first wrong element.
 */
enum result token_table_check(const struct token_table_sizes *sizes,
                              const struct token_table *table,
                              struct error_text *error) RESULT_CHECKED;

#endif
