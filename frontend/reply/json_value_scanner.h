/*
 * One JSON value, read byte by byte as a model writes it: checked, mended in small things, handed
 * on as it comes, and closable at any moment.
 *
 * What is appended to `out`, joined, is the beginning of a valid JSON value;
 * json_value_scanner_close() appends what makes it whole. Bytes that this might have to take back
 * (a comma before the next member, an escape that is not whole) wait. Mended in strings: a control
 * character and a backslash that escapes nothing are escaped, half a surrogate pair becomes \ufffd.
 * White space stays, but for long runs after a comma.
 */
#ifndef SHOAL_FRONTEND_REPLY_JSON_VALUE_SCANNER_H
#define SHOAL_FRONTEND_REPLY_JSON_VALUE_SCANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"

enum json_scan {
    JSON_SCAN_MORE,
    JSON_SCAN_DONE,  /* the value ended with this byte */
    JSON_SCAN_ENDED, /* a number or word at the top ended before this byte, which was not taken */
    JSON_SCAN_BROKEN /* this byte cannot stand here, or is too deep; it was not taken */
};

/* Zero-initialized before first use. */
struct json_value_scanner {
    uint8_t state;
    uint8_t depth;
    bool is_key;  /* the string in hand */
    bool is_pair; /* the \u in hand is behind a high surrogate */
    uint8_t held_bytes;
    uint64_t objects; /* bit d: the container at depth d is an object */
    const char *word; /* rest of true, false or null */
    char held[48];
};

/* Leading white space is skipped. `out` NULL: only checked. Not after DONE, ENDED or BROKEN. */
enum json_scan json_value_scanner_push(struct json_value_scanner *scanner, char byte,
                                       struct text_buffer *out);
/* Right behind the bracket that opens an object or a list. */
bool json_value_scanner_is_fresh(const struct json_value_scanner *scanner);
/* Makes what was appended so far a whole value; without any, null. Once, at the end. */
void json_value_scanner_close(struct json_value_scanner *scanner, struct text_buffer *out);
/* Whether all of `text` is one JSON value, white space around it allowed. Appends it, mended. On
 * false `out` has some of it. */
bool json_value_scanner_read(const char *text, size_t length, struct text_buffer *out);

#endif
