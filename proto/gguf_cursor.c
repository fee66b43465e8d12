/*
 * Reads the primitive values of a GGUF file without trusting any length.
 *
 * take_bytes() compares a 64-bit length with the bytes left before it moves; all other
 * functions are built on it. A count of elements is compared with the bytes left divided by the
 * element's size, so no product can overflow. Arrays of strings are walked once here, so that a
 * later walk cannot leave the file.
 *
 * Arrays of arrays are unsupported: no checkpoint uses them, and they would need recursion. The
 * host must be little-endian.
 */
#include "proto/gguf_cursor.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF bytes are read in place");

/* Bytes of one element of a fixed-size type; 0 for strings and arrays. */
static const uint8_t value_bytes[GGUF_VALUE_TYPE_COUNT] = {
    [GGUF_UINT8] = 1,  [GGUF_INT8] = 1,  [GGUF_UINT16] = 2,  [GGUF_INT16] = 2,
    [GGUF_UINT32] = 4, [GGUF_INT32] = 4, [GGUF_FLOAT32] = 4, [GGUF_BOOL] = 1,
    [GGUF_UINT64] = 8, [GGUF_INT64] = 8, [GGUF_FLOAT64] = 8,
};

static bool take_bytes(struct gguf_cursor *cursor, uint64_t byte_count, const uint8_t **out)
{
    if (byte_count > (uint64_t)(cursor->end - cursor->at))
        return false;
    *out = cursor->at;
    cursor->at += byte_count;
    return true;
}

bool gguf_cursor_take_u32(struct gguf_cursor *cursor, uint32_t *out)
{
    const uint8_t *bytes;
    if (!take_bytes(cursor, sizeof *out, &bytes))
        return false;
    memcpy(out, bytes, sizeof *out);
    return true;
}

bool gguf_cursor_take_u64(struct gguf_cursor *cursor, uint64_t *out)
{
    const uint8_t *bytes;
    if (!take_bytes(cursor, sizeof *out, &bytes))
        return false;
    memcpy(out, bytes, sizeof *out);
    return true;
}

bool gguf_cursor_take_string(struct gguf_cursor *cursor, struct gguf_string *out)
{
    struct gguf_cursor probe = *cursor;
    uint64_t length;
    const uint8_t *bytes;
    if (!gguf_cursor_take_u64(&probe, &length) || !take_bytes(&probe, length, &bytes))
        return false;
    out->bytes = (const char *)bytes;
    out->length = (size_t)length;
    *cursor = probe;
    return true;
}

static enum result take_elements(struct gguf_cursor *cursor, struct gguf_array *out,
                                 struct error_text *error)
{
    uint64_t left = (uint64_t)(cursor->end - cursor->at);
    uint64_t smallest = out->type == GGUF_STRING ? sizeof(uint64_t) : value_bytes[out->type];
    if (out->count > left / smallest)
        return error_set(error, RESULT_CORRUPT, "%llu elements of type %d do not fit in the file",
                         (unsigned long long)out->count, (int)out->type);
    out->first = cursor->at;
    if (out->type == GGUF_STRING) {
        struct gguf_string string;
        for (uint64_t i = 0; i < out->count; i++)
            if (!gguf_cursor_take_string(cursor, &string))
                return error_set(error, RESULT_CORRUPT, "string %llu runs past the end",
                                 (unsigned long long)i);
    } else {
        cursor->at += out->count * smallest;
    }
    out->end = cursor->at;
    if (out->type == GGUF_BOOL)
        for (const uint8_t *at = out->first; at < out->end; at++)
            if (*at > 1)
                return error_set(error, RESULT_CORRUPT, "a bool holds %u", (unsigned)*at);
    return RESULT_OK;
}

enum result gguf_cursor_take_value(struct gguf_cursor *cursor, uint32_t type, bool *is_array,
                                   struct gguf_array *out, struct error_text *error)
{
    uint64_t count = 1;
    *is_array = type == GGUF_ARRAY;
    if (*is_array) {
        if (!gguf_cursor_take_u32(cursor, &type) || !gguf_cursor_take_u64(cursor, &count))
            return error_set(error, RESULT_CORRUPT, "the file ends inside an array's head");
        if (type == GGUF_ARRAY)
            return error_set(error, RESULT_UNSUPPORTED, "it is an array of arrays");
    }
    if (type >= GGUF_VALUE_TYPE_COUNT)
        return error_set(error, RESULT_UNSUPPORTED, "value type %u is not known", type);
    *out = (struct gguf_array){.type = (enum gguf_value_type)type, .count = count};
    return take_elements(cursor, out, error);
}
