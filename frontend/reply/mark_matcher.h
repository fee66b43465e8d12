/*
 * Finds which of a few patterns stands at this place in a stream of bytes.
 *
 * A pattern is text with placeholders: a space for 0 to MARK_BLANKS blanks, %n for a name, %i for
 * an id (both: no blanks, quotes, brackets), %k for the name of a parameter (no < > " nor line
 * breaks). A name or id at a pattern's end is complete with the first byte that cannot belong to
 * it. Bytes are held until the match is decided; all patterns are matched in parallel, in a few
 * steps a byte. If several complete with the same byte, the first counts; a pattern that is a
 * prefix of another hides it.
 */
#ifndef SHOAL_FRONTEND_REPLY_MARK_MATCHER_H
#define SHOAL_FRONTEND_REPLY_MARK_MATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

#define MARK_PATTERNS 16u
#define MARK_BLANKS   64u
/* The longest match: two names, six runs of blanks, and the marks themselves. */
#define MARK_BYTES (2 * LIMIT_TOOL_NAME_BYTES + 6 * MARK_BLANKS + 192)

enum mark_result {
    MARK_MORE,  /* the held bytes may become a mark */
    MARK_FOUND, /* `found` is the pattern; the last `unread` (0 or 1) bytes are not part of it */
    MARK_NONE   /* no mark begins with the first held byte; the others may begin one */
};

struct mark_span {
    uint16_t begin;
    uint16_t end; /* == begin: absent */
};

struct mark_trial {
    const char *rest; /* of the pattern; NULL: does not match */
    uint16_t run;     /* bytes that the placeholder at `rest` has taken */
    struct mark_span name;
    struct mark_span id;
};

struct mark_matcher {
    const char *patterns[MARK_PATTERNS];
    size_t pattern_count;
    uint8_t first[32]; /* a bit for each byte with which a pattern can begin */
    struct mark_trial trials[MARK_PATTERNS];
    size_t found;
    size_t unread;
    size_t held_bytes;
    char held[MARK_BYTES];
};

/* Sets the patterns: static strings, at most MARK_PATTERNS, up to the first NULL. */
void mark_matcher_init(struct mark_matcher *matcher, const char *const *patterns, size_t count);
/* Call before the first byte of a possible mark: clears the held bytes. */
void mark_matcher_reset(struct mark_matcher *matcher);
/* Bit p of `enabled`: pattern p may begin here; read for the first byte only. After FOUND or NONE
 * the matcher must be reset. */
enum mark_result mark_matcher_push(struct mark_matcher *matcher, uint32_t enabled, char byte);
/* The patterns, as bits, that the held bytes may still become. */
uint32_t mark_matcher_alive(const struct mark_matcher *matcher);

/* True if `text` occurs in one of the marks. The list ends at `count` or its first NULL. */
bool mark_list_contains(const char *const marks[], size_t count, const char *text, size_t length);

#endif
