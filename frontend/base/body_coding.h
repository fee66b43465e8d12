/*
 * Request bodies that a client compressed: gzip, and zstd if the program is built with libzstd.
 *
 * Unpacking is bounded: in memory by the limit of a body, plus a decoder of at most 8 MB, and in
 * time because every step takes input or gives output. A compressed body may be tiny and unpack to
 * any size, so it is unpacked on a preparation thread, never on the event loop.
 */
#ifndef SHOAL_FRONTEND_BASE_BODY_CODING_H
#define SHOAL_FRONTEND_BASE_BODY_CODING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/result.h"

enum body_coding { BODY_PLAIN = 0, BODY_GZIP, BODY_ZSTD };

/* The values of Content-Encoding that are understood, for an error. */
extern const char body_coding_names[];

/* `header`: the value of Content-Encoding, or NULL. RESULT_UNSUPPORTED: another coding, or several.
 */
enum result body_coding_find(const char *header, enum body_coding *coding) RESULT_CHECKED;

/* Unpacks `packed` (not BODY_PLAIN) into *body, malloc'd and NUL-terminated. `cancelled`: NULL, or
 * true once the work is to end. RESULT_INVALID: broken or cut off; RESULT_TOO_LARGE: more than
 * `most_bytes`; RESULT_CANCELLED; RESULT_OUT_OF_MEMORY. */
enum result body_coding_unpack(enum body_coding coding, const char *packed, size_t packed_bytes,
                               size_t most_bytes, const atomic_bool *cancelled, char **body,
                               size_t *body_bytes) RESULT_CHECKED;

/* Bytes of `text` packed as zlib's format; 0: out of memory. A measure of repetition. */
size_t body_coding_packed_bytes(const char *text, size_t bytes);

#endif
