/*
 * Iterates over the fields of a protocol buffer message, front to back, without copying. A failure
 * is permanent: later calls report the end, so a caller checks `failed` once after its loop.
 * Format: the published encoding of protocol buffers; groups, which are deprecated, are refused.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_PROTOBUF_READER_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_PROTOBUF_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

enum protobuf_kind { PROTOBUF_NUMBER, PROTOBUF_FIXED64, PROTOBUF_BYTES, PROTOBUF_FIXED32 };

struct protobuf_field {
    uint32_t number;
    enum protobuf_kind kind;
    uint64_t value;       /* of numbers; fixed ones as their bits */
    const uint8_t *bytes; /* of PROTOBUF_BYTES */
    size_t byte_count;
};

struct protobuf_reader protobuf_reader_open(const void *bytes, size_t byte_count);

/* Advances to the next field; false after the last, and on failure. */
bool protobuf_reader_next(struct protobuf_reader *reader, struct protobuf_field *field);

#endif
