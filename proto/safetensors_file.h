/*
 * The safetensors container: a table of tensors, read in place from bytes that the caller holds (an
 * mmap). Format: the length of a header (8 bytes, little-endian), the header (a JSON object: tensor
 * name to element type, shape and place of its data), the data. Source: the format's published
 * description and what its own library enforces.
 *
 * Every length, offset, type and shape is checked before use. Tensors cover the data without
 * overlap or gap, as the format demands; names are unique, valid UTF-8 and without control
 * characters. After a successful open every pointer and length handed out lies inside the caller's
 * bytes.
 */
#ifndef SHOAL_PROTO_SAFETENSORS_FILE_H
#define SHOAL_PROTO_SAFETENSORS_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/result.h"

/* X(name in the file, bytes of an element). Types smaller than a byte are refused. */
#define SAFETENSORS_TYPE_LIST(X)                                                                   \
    X(BOOL, 1)                                                                                     \
    X(U8, 1)                                                                                       \
    X(I8, 1)                                                                                       \
    X(F8_E5M2, 1)                                                                                  \
    X(F8_E4M3, 1)                                                                                  \
    X(F8_E8M0, 1)                                                                                  \
    X(I16, 2)                                                                                      \
    X(U16, 2)                                                                                      \
    X(F16, 2)                                                                                      \
    X(BF16, 2)                                                                                     \
    X(I32, 4)                                                                                      \
    X(U32, 4)                                                                                      \
    X(F32, 4)                                                                                      \
    X(I64, 8)                                                                                      \
    X(U64, 8)                                                                                      \
    X(F64, 8)                                                                                      \
    X(C64, 8)

enum safetensors_type {
#define SAFETENSORS_ENUM(name, bytes) SAFETENSORS_##name,
    SAFETENSORS_TYPE_LIST(SAFETENSORS_ENUM)
#undef SAFETENSORS_ENUM
        SAFETENSORS_TYPE_COUNT
};
const char *safetensors_type_name(enum safetensors_type type);

struct safetensors_tensor {
    const char *name; /* NUL-terminated, at most LIMIT_GGUF_NAME_BYTES; the file's */
    enum safetensors_type type;
    uint32_t dimension_count;                          /* 0 for a single number */
    uint64_t dimensions[LIMIT_SAFETENSORS_DIMENSIONS]; /* slowest first, as in the file; may be 0 */
    uint64_t data_bytes;
    const uint8_t *data; /* inside the caller's bytes, of any alignment */
};

struct safetensors_file; /* opaque: index over the caller's bytes */

/* `file` keeps pointing into `bytes`; the caller keeps them mapped until safetensors_file_close().
 */
enum result safetensors_file_open(const void *bytes, size_t byte_count,
                                  struct safetensors_file **file,
                                  struct error_text *error) RESULT_CHECKED;
void safetensors_file_close(struct safetensors_file *file);

/* Bytes in front of the data: the length and the header. */
size_t safetensors_file_header_bytes(const struct safetensors_file *file);

/* Tensors, sorted by name as strcmp() does, and by name (O(log n)). NULL when absent. */
uint32_t safetensors_file_tensor_count(const struct safetensors_file *file);
const struct safetensors_tensor *safetensors_file_tensor(const struct safetensors_file *file,
                                                         uint32_t index);
const struct safetensors_tensor *safetensors_file_find_tensor(const struct safetensors_file *file,
                                                              const char *name);

#endif
