/*
 * A question about a body that needs no worker: the number of its tokens, the rendered template.
 * Parsing and tokenizing can take a second, so a preparation thread answers it.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_INSPECTION_H
#define SHOAL_FRONTEND_API_GENERATION_INSPECTION_H

#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"
#include "frontend/base/text_buffer.h"

/* Appends the answer's JSON to *reply, or sets *error. */
typedef enum result inspection(const struct parse_context *context, const char *body,
                               size_t body_bytes, int64_t now_unix_s, struct text_buffer *reply,
                               struct api_error *error);

#endif
