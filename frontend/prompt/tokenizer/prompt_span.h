/*
 * A prompt is a sequence of spans. In a `trusted` span (written by the chat template) the text of a
 * special token becomes that token; in an untrusted one (a user's text) it stays ordinary text.
 * Normalization and splitting treat adjoining trusted and untrusted text as one string wherever no
 * special token stands between, exactly as if the whole prompt had been one string.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_PROMPT_SPAN_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_PROMPT_SPAN_H

#include <stdbool.h>
#include <stddef.h>

struct prompt_span {
    const char *text; /* any bytes; ill-formed UTF-8 becomes U+FFFD, as in Hugging Face's Python
                         bindings */
    size_t text_bytes;
    bool trusted;
};

#endif
