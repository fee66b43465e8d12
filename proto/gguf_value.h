/*
 * Value types, strings and arrays of a GGUF file's metadata; gguf_array.h reads their elements.
 */
#ifndef SHOAL_PROTO_GGUF_VALUE_H
#define SHOAL_PROTO_GGUF_VALUE_H

#include <stddef.h>
#include <stdint.h>

enum gguf_value_type {
    GGUF_UINT8 = 0,
    GGUF_INT8,
    GGUF_UINT16,
    GGUF_INT16,
    GGUF_UINT32,
    GGUF_INT32,
    GGUF_FLOAT32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_UINT64,
    GGUF_INT64,
    GGUF_FLOAT64,
    GGUF_VALUE_TYPE_COUNT
};

/* Bytes inside the file, not NUL-terminated. */
struct gguf_string {
    const char *bytes;
    size_t length;
};

/* Element type and count, then element access. Strings have no fixed stride, so they are read in
 * order with gguf_array_next_string(). */
struct gguf_array {
    enum gguf_value_type type;
    uint64_t count;
    const uint8_t *first; /* first element, unaligned little-endian */
    const uint8_t *end;   /* one past the array's last byte */
};

#endif
