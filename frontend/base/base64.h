/*
 * Base64 (RFC 4648), standard alphabet. White space is skipped and padding may be missing, as in the
 * URL standard; other characters, and bits after the last byte, are errors.
 */
#ifndef SHOAL_FRONTEND_BASE_BASE64_H
#define SHOAL_FRONTEND_BASE_BASE64_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"
#include "proto/result.h"

/* Decodes *count characters in place and sets *count to the bytes. RESULT_INVALID; the bytes are
 * then lost. */
enum result base64_decode(uint8_t *bytes, size_t *count, struct error_text *error) RESULT_CHECKED;

/* Appends base64, which needs no escapes in a data: URI or JSON. */
void base64_append(const uint8_t *bytes, size_t count, struct text_buffer *out);

#endif
