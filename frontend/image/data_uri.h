/*
 * Bytes that a client wrote into its request: `data:` URIs (RFC 2397) and base64 by itself.
 *
 * A URI is data:[TYPE][;NAME=VALUE…][;base64],BYTES. What it says of its type is not looked at:
 * what the bytes are is seen from the bytes. Escapes (%41) are read in both forms. Base64 is the
 * standard alphabet; white space in it is skipped and its padding may be missing, as the URL
 * standard has it; anything else in it, and bits behind the last byte, are refused.
 */
#ifndef SHOAL_FRONTEND_IMAGE_DATA_URI_H
#define SHOAL_FRONTEND_IMAGE_DATA_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"
#include "proto/result.h"

/* Owned bytes of a file as it was made; malloc'd. */
struct file_bytes {
    uint8_t *bytes;
    size_t count;
};
void file_bytes_fini(struct file_bytes *file);

/* Whether the text begins as such a URI does, in whatever case. */
bool data_uri_is(const char *text);
/* RESULT_TOO_LARGE: more than `most_bytes`, which is seen before anything is decoded.
 * RESULT_INVALID and RESULT_OUT_OF_MEMORY otherwise. On failure *file is empty. Words quote nothing
 * of the text. */
enum result data_uri_read(const char *uri, size_t most_bytes, struct file_bytes *file,
                          struct error_text *error) RESULT_CHECKED;
/* The same of base64 without a URI around it, in which nothing is escaped. */
enum result data_uri_read_base64(const char *text, size_t most_bytes, struct file_bytes *file,
                                 struct error_text *error) RESULT_CHECKED;
/* Writes base64, in which such a URI and JSON need no escapes. */
void data_uri_append_base64(const uint8_t *bytes, size_t count, struct text_buffer *out);
/* Undoes the escapes of a part of a URI; malloc'd. NULL where there is no memory or an escape is
 * none, or is a NUL. */
char *data_uri_unescape(const char *text);

#endif
