/*
 * A bounded read position over little-endian GGUF bytes. Every take either yields a value that lies
 * wholly inside the bytes and moves on, or returns false and leaves the cursor where it was.
 * Private to proto/gguf_*.c.
 */
#ifndef SHOAL_PROTO_GGUF_CURSOR_H
#define SHOAL_PROTO_GGUF_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/gguf_value.h"
#include "proto/result.h"

struct gguf_cursor {
    const uint8_t *at;
    const uint8_t *end;
};

bool gguf_cursor_take_u32(struct gguf_cursor *cursor, uint32_t *out);
bool gguf_cursor_take_u64(struct gguf_cursor *cursor, uint64_t *out);
bool gguf_cursor_take_string(struct gguf_cursor *cursor, struct gguf_string *out);

/*
 * Takes the value of a metadata key whose type number was just read: a scalar or string as an array
 * of one, an array as itself (`*is_array` says which). RESULT_CORRUPT when it does not fit in the
 * bytes or a bool is neither 0 nor 1, RESULT_UNSUPPORTED for a type number the format does not have
 * and for arrays of arrays.
 */
enum result gguf_cursor_take_value(struct gguf_cursor *cursor, uint32_t type, bool *is_array,
                                   struct gguf_array *out, struct error_text *error) RESULT_CHECKED;

#endif
