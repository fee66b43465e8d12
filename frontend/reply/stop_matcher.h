/*
 * Stop strings in a text that arrives in pieces: text that may begin a stop string is held back
 * until it is decided; a found stop string, unless it is included, and all text after it are cut.
 */
#ifndef SHOAL_FRONTEND_REPLY_STOP_MATCHER_H
#define SHOAL_FRONTEND_REPLY_STOP_MATCHER_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/text_buffer.h"
#include "proto/limits.h"

struct stop_string {
    const char *bytes;
    size_t length; /* 1..LIMIT_STOP_BYTES */
};

struct stop_matcher {
    struct stop_string stops[LIMIT_STOP_STRINGS]; /* own copies */
    size_t stop_count;
    bool include;            /* a found stop string is kept; the caller sets it after init */
    struct text_buffer held; /* seen, not yet released */
    int found;               /* index of the stop string that was completed, or -1 */
};

void stop_matcher_init(struct stop_matcher *matcher, const struct stop_string *stops, size_t count);
void stop_matcher_fini(struct stop_matcher *matcher);

/*
 * Appends to *out the text that became certain. Finds the stop string that is complete first; if
 * two end at the same place, the longer. Returns true if one is found: the text is then final and
 * further pushes are ignored. *out turns `failed` if memory for held text runs out.
 */
bool stop_matcher_push(struct stop_matcher *matcher, const char *bytes, size_t length,
                       struct text_buffer *out);
/* Appends the text held back: it is final, no stop string can continue it. */
void stop_matcher_release(struct stop_matcher *matcher, struct text_buffer *out);
/* The stop string that was found, NUL-terminated, or NULL. */
const char *stop_matcher_string(const struct stop_matcher *matcher);

#endif
