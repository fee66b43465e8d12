/*
 * Element access for arrays of a GGUF file's metadata. gguf_file_open() has checked that all of
 * their bytes lie inside the file.
 */
#ifndef SHOAL_PROTO_GGUF_ARRAY_H
#define SHOAL_PROTO_GGUF_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/gguf_value.h"

/* Element `index` of a numeric or bool array, converted. Wrong index or type: a bug (must()). */
int64_t gguf_array_i64(const struct gguf_array *array, uint64_t index);
double gguf_array_f64(const struct gguf_array *array, uint64_t index);
/* Iteration over strings: `cursor` starts at array->first; returns false at the end. */
bool gguf_array_next_string(const struct gguf_array *array, const uint8_t **cursor,
                            struct gguf_string *out);

#endif
