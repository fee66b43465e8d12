/*
 * Decodes the bytes that a client wrote into its request: `data:` URIs (RFC 2397) and plain base64.
 *
 * A URI is data:[TYPE][;NAME=VALUE…][;base64],BYTES. Its type is ignored: the kind of file follows
 * from the bytes. Escapes (%41) are decoded in both forms. Base64 is as base64.h reads it.
 */
#ifndef SHOAL_FRONTEND_IMAGE_DATA_URI_H
#define SHOAL_FRONTEND_IMAGE_DATA_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

/* The owned bytes of a file; malloc'd. */
struct file_bytes {
    uint8_t *bytes;
    size_t count;
};
void file_bytes_fini(struct file_bytes *file);

/* RESULT_TOO_LARGE over `most_bytes`, found before anything is decoded; RESULT_INVALID,
 * RESULT_OUT_OF_MEMORY. On failure *file is empty. The error text quotes nothing of the URI. */
enum result data_uri_read(const char *uri, size_t most_bytes, struct file_bytes *file,
                          struct error_text *error) RESULT_CHECKED;
/* The same for plain base64, which has no escapes. */
enum result data_uri_read_base64(const char *text, size_t most_bytes, struct file_bytes *file,
                                 struct error_text *error) RESULT_CHECKED;
/* Undoes the escapes of a part of a URI; malloc'd. NULL without memory, or if an escape is invalid
 * or a NUL. */
char *data_uri_unescape(const char *text);

#endif
