/*
 * The text of the member `input` out of the arguments of a call, a JSON object that arrives in
 * pieces: a model writes the freeform input of a `custom` tool as {"input": "…"}.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_CALL_INPUT_H
#define SHOAL_FRONTEND_API_RESPONSES_CALL_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"

/* Zeroed: at the start of the object. */
struct call_input {
    uint32_t depth; /* open objects and lists */
    bool in_string;
    bool in_key;
    bool key_next;  /* the next string at depth 1 is a key */
    bool in_input;  /* inside the text */
    bool found;     /* the text has begun */
    uint8_t escape; /* bytes of an escape so far, with its backslash */
    uint8_t key_bytes;
    uint32_t unit; /* of \uXXXX so far */
    uint32_t high; /* a high surrogate that waits for its low one, or 0 */
    char key[8];   /* of the last key: its first bytes */
};

/* Appends the text of this piece to `out`: whole characters, valid UTF-8. Lone surrogates become
 * U+FFFD. The pieces are cut between characters and join to valid JSON or its beginning. */
void call_input_push(struct call_input *input, const char *bytes, size_t length,
                     struct text_buffer *out);

#endif
