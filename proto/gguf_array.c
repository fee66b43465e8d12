/*
 * Element access for the metadata arrays of a GGUF file (contract in proto/gguf_array.h).
 *
 * gguf_file_open() has checked that an array's bytes lie inside the file and that its strings fill
 * them exactly. So input cannot make a function here fail; a wrong index or type is the caller's
 * bug.
 */
#include "proto/gguf_array.h"

#include <string.h>

#include "proto/gguf_cursor.h"
#include "proto/must.h"

/* Copies one little-endian element into a variable of its own type and returns it converted. */
#define ELEMENT(c_type, to_type)                                                                   \
    do {                                                                                           \
        c_type value;                                                                              \
        must(index < array->count);                                                                \
        memcpy(&value, array->first + index * sizeof value, sizeof value);                         \
        return (to_type)value;                                                                     \
    } while (0)

int64_t gguf_array_i64(const struct gguf_array *array, uint64_t index)
{
    switch (array->type) {
    case GGUF_UINT8:
    case GGUF_BOOL: ELEMENT(uint8_t, int64_t);
    case GGUF_INT8: ELEMENT(int8_t, int64_t);
    case GGUF_UINT16: ELEMENT(uint16_t, int64_t);
    case GGUF_INT16: ELEMENT(int16_t, int64_t);
    case GGUF_UINT32: ELEMENT(uint32_t, int64_t);
    case GGUF_INT32: ELEMENT(int32_t, int64_t);
    case GGUF_UINT64:
    case GGUF_INT64: ELEMENT(int64_t, int64_t);
    case GGUF_FLOAT32:
    case GGUF_FLOAT64: {
        double value = gguf_array_f64(array, index);
        /* 2^63 is the first double that int64_t cannot hold; outside values and NaN saturate or
         * become 0. */
        if (value >= 9223372036854775808.0)
            return INT64_MAX;
        if (value < -9223372036854775808.0)
            return INT64_MIN;
        return value == value ? (int64_t)value : 0;
    }
    default: must_fail("a numeric array", __FILE__, __LINE__);
    }
}

double gguf_array_f64(const struct gguf_array *array, uint64_t index)
{
    switch (array->type) {
    case GGUF_FLOAT32: ELEMENT(float, double);
    case GGUF_FLOAT64: ELEMENT(double, double);
    case GGUF_UINT64: ELEMENT(uint64_t, double);
    default: return (double)gguf_array_i64(array, index);
    }
}

bool gguf_array_next_string(const struct gguf_array *array, const uint8_t **cursor,
                            struct gguf_string *out)
{
    must(array->type == GGUF_STRING);
    must(*cursor >= array->first && *cursor <= array->end);
    struct gguf_cursor position = {.at = *cursor, .end = array->end};
    if (!gguf_cursor_take_string(&position, out))
        return false;
    *cursor = position.at;
    return true;
}
