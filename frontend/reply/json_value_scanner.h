/*
 * One JSON value, read byte by byte as a model writes it: checked, repaired in details, passed on
 * at once, and closable at any byte.
 *
 * The bytes appended to `out`, joined, are the beginning of a valid JSON value;
 * json_value_scanner_close() appends what completes it. Bytes that might have to be withdrawn (a
 * comma before the next member, an incomplete escape) are held back. Repairs in strings: a control
 * character and a backslash that escapes nothing are escaped, half a surrogate pair becomes \ufffd.
 * White space is kept, except long runs after a comma.
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
    JSON_SCAN_BROKEN /* this byte is invalid here, or nested too deeply; it was not taken */
};

/* Zero-initialized before first use. */
struct json_value_scanner {
    uint8_t state;
    uint8_t depth;
    bool is_key;  /* the current string is a key */
    bool is_pair; /* the current \u follows a high surrogate */
    uint8_t held_bytes;
    uint64_t objects; /* bit d: the container at depth d is an object */
    const char *word; /* rest of true, false or null */
    char held[48];
};

/* Leading white space is skipped. `out` NULL: only checks. Not to be called after DONE, ENDED or
 * BROKEN. */
enum json_scan json_value_scanner_push(struct json_value_scanner *scanner, char byte,
                                       struct text_buffer *out);
/* True directly after the bracket that opens an object or a list. */
bool json_value_scanner_is_fresh(const struct json_value_scanner *scanner);
/* Completes the bytes appended so far to a valid value (null if there are none). Called once, at
 * the end. */
void json_value_scanner_close(struct json_value_scanner *scanner, struct text_buffer *out);
/* True if all of `text` is one JSON value, with white space around it allowed; appends it,
 * repaired. If false, `out` contains a part of it. */
bool json_value_scanner_read(const char *text, size_t length, struct text_buffer *out);

#endif
