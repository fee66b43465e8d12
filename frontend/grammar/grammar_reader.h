/*
 * The place in the text of a written grammar, its first error, and what GBNF and Lark write alike:
 * characters with escapes, numbers, names of tokens. Readers return false or RULE_NONE after an
 * error.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_GRAMMAR_READER_H
#define SHOAL_FRONTEND_GRAMMAR_GRAMMAR_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/grammar/grammar_error.h"
#include "frontend/grammar/grammar_text.h"

struct grammar_reader {
    const char *begin;
    const char *at;
    const char *end;
    struct grammar_error *error;
    bool failed;
};

/* Sets the error and its place unless there is one already. Returns RULE_NONE (UINT32_MAX). */
uint32_t grammar_reader_fail(struct grammar_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Out of memory: fails without a message. Returns RULE_NONE. */
uint32_t grammar_reader_stop(struct grammar_reader *reader);
/* True if the text goes on with `text`. */
bool grammar_reader_has(const struct grammar_reader *reader, const char *text);
/* The same, and skips it. */
bool grammar_reader_take(struct grammar_reader *reader, const char *text);
/* One character, perhaps an escape (\n, \xHH, \uHHHH, \UHHHHHHHH, or one of `escapes` for itself).
 * *code_point is a Unicode scalar value. */
bool grammar_reader_character(struct grammar_reader *reader, const char *escapes,
                              uint32_t *code_point);
/* A decimal number below `bound`. */
bool grammar_reader_number(struct grammar_reader *reader, uint32_t bound, uint32_t *number);
/* A special token `<text>` or `<[id]>`. */
bool grammar_reader_token(struct grammar_reader *reader, const struct special_finder *specials,
                          uint32_t *id);

#endif
