/*
 * A question about a body that needs no worker: how many tokens it has, what the template makes of
 * it. Parsing and tokenizing can take a second, so it is answered on a preparation thread.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_INSPECTION_H
#define SHOAL_FRONTEND_API_GENERATION_INSPECTION_H

#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"
#include "frontend/base/text_buffer.h"

/* Appends the answer's JSON to *reply, or says why there is none in *error. */
typedef enum result inspection(const struct parse_context *context, const char *body,
                               size_t body_bytes, int64_t now_unix_s, struct text_buffer *reply,
                               struct api_error *error);

#endif
