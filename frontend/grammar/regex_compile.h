/*
 * Regular expressions to regexes of the grammar builder, exactly: ECMAScript's syntax with the u
 * flag (JSON Schema's `pattern`) and what Python and PCRE share with it. Anchors and look-ahead are
 * compiled to intersection and complement. What is not regular or has another meaning in another
 * dialect is refused: look-behind, back references, word boundaries, flags, Unicode properties.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_REGEX_COMPILE_H
#define SHOAL_FRONTEND_GRAMMAR_REGEX_COMPILE_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"

struct regex_options {
    bool search; /* a match anywhere suffices, as in `pattern`; false: the whole text matches */
    bool json_spelling; /* characters as in a JSON string, without quotes (json_text_regex.h) */
};

/* `pattern`: `length` bytes. False: refused (`error` has the message; pointer and keyword are left
 * as they are), or the builder has failed. */
bool regex_compile(struct grammar_builder *builder, const char *pattern, size_t length,
                   const struct regex_options *options, regex_id *out, struct grammar_error *error);

#endif
