/*
 * The GGUF container (versions 2 and 3, little-endian): metadata keys and a table of tensors, read
 * in place from bytes that the caller holds (an mmap). Both processes read it: the frontend takes
 * tokenizer and template, the worker takes tensors. Format: ggml's published GGUF specification.
 *
 * Every length, offset, count, type and alignment is checked before use; a file that is truncated,
 * has overlapping or out-of-range tensors, duplicate names or absurd sizes is refused naming what
 * and why. After a successful open every pointer and length handed out lies inside the caller's
 * bytes.
 */
#ifndef SHOAL_PROTO_GGUF_FILE_H
#define SHOAL_PROTO_GGUF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/ggml_type_list.h"
#include "proto/gguf_array.h"
#include "proto/limits.h"
#include "proto/result.h"

/* Element types by their number in a GGUF file: those of proto/ggml_type_list.h that are supported.
 * Loading a file with any other fails with RESULT_UNSUPPORTED. */
enum ggml_type {
#define GGML_QUANT_ENUM(kind, name, number, ...)          GGML_##name = number,
#define GGML_FLOAT_ENUM(kind, name, number, ...)          GGML_##name = number,
#define GGML_CONVERTED_ENUM(name, number, columns, bytes) GGML_##name = number,
    GGML_QUANT_LIST(GGML_QUANT_ENUM) GGML_FLOAT_LIST(GGML_FLOAT_ENUM)
        GGML_CONVERTED_LIST(GGML_CONVERTED_ENUM)
#undef GGML_QUANT_ENUM
#undef GGML_FLOAT_ENUM
#undef GGML_CONVERTED_ENUM
            GGML_TYPE_END = 66 /* greater than every supported type */
};

/* Elements and bytes of one block of a type. */
struct ggml_block {
    uint32_t elements;
    uint32_t bytes;
};
/* Of a type that kernels read; {0,0} for others. */
struct ggml_block ggml_type_block(enum ggml_type type);
/* Of a supported type that a file may hold: kernels read it, or it becomes another type at load
 * (worker/plan/weight_source.h); {0,0} for others. */
struct ggml_block ggml_type_stored_block(enum ggml_type type);
const char *ggml_type_name(enum ggml_type type); /* "Q4_1"; "?" when unknown */

struct gguf_tensor {
    struct gguf_string name;
    enum ggml_type type;
    uint32_t dimension_count;                   /* 1..4 */
    uint64_t dimensions[LIMIT_GGUF_DIMENSIONS]; /* fastest first (dimensions[0] is the row length);
                                                   unused ones are 1 */
    uint64_t data_bytes;
    const uint8_t *data; /* inside the caller's bytes, aligned as the file says (>= 8) */
};

struct gguf_file; /* opaque: index over the caller's bytes */

/* `file` keeps pointing into `bytes`, which start at a multiple of 8; the caller keeps them mapped
 * until gguf_file_close(). */
enum result gguf_file_open(const void *bytes, size_t byte_count, struct gguf_file **file,
                           struct error_text *error) RESULT_CHECKED;
void gguf_file_close(struct gguf_file *file);

/* Tensors, in file order, and by name (O(log n)). NULL when absent. */
uint32_t gguf_file_tensor_count(const struct gguf_file *file);
const struct gguf_tensor *gguf_file_tensor(const struct gguf_file *file, uint32_t index);
const struct gguf_tensor *gguf_file_find_tensor(const struct gguf_file *file, const char *name);
/* `next` is another part of the same checkpoint: tensors that `file` lacks are found by name in it,
 * and in what follows it. It outlives the look-ups; no part follows itself. */
void gguf_file_set_next(struct gguf_file *file, const struct gguf_file *next);

/*
 * Metadata by key. Each returns RESULT_OK, RESULT_NOT_FOUND (key absent: *out untouched) or
 * RESULT_INVALID (other type or out of range: *out untouched). Integers of any width and signedness
 * are accepted where they fit.
 */
enum result gguf_file_u32(const struct gguf_file *file, const char *key, uint32_t *out);
enum result gguf_file_f32(const struct gguf_file *file, const char *key, float *out);
enum result gguf_file_bool(const struct gguf_file *file, const char *key, bool *out);
enum result gguf_file_string(const struct gguf_file *file, const char *key,
                             struct gguf_string *out);

enum result gguf_file_array(const struct gguf_file *file, const char *key, struct gguf_array *out);

#endif
