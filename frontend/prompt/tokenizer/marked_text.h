/*
 * Text with a mark on each byte: whether the chat template wrote it.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_MARKED_TEXT_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_MARKED_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/prompt/tokenizer/prompt_span.h"
#include "proto/result.h"

struct marked_text {
    char *bytes;
    uint8_t *trusted; /* [count] 1: from a trusted span */
    size_t count;
    size_t capacity;
};
void marked_text_fini(struct marked_text *text);

/* Appends bytes that share one mark. RESULT_TOO_LARGE over LIMIT_NORMALIZED_BYTES. */
enum result marked_text_append(struct marked_text *text, const char *bytes, size_t byte_count,
                               uint8_t trusted) RESULT_CHECKED;
/* Appends bytes with one mark for each. */
enum result marked_text_append_marked(struct marked_text *text, const char *bytes,
                                      const uint8_t trusted[], size_t byte_count) RESULT_CHECKED;

/* Joins the spans to one valid text: ill-formed UTF-8 becomes U+FFFD, also across spans (then
 * untrusted). */
enum result marked_text_join(struct marked_text *text, const struct prompt_span spans[],
                             size_t span_count) RESULT_CHECKED;

#endif
