/*
 * The closed set of outcomes that every fallible function of Shoal returns.
 *
 * A result is the kind of failure; the caller turns it into an HTTP status, an exit code or a log
 * line. The text for a person is in a `struct error_text`, if the caller passes one. Bugs are not
 * results: they abort through must() (proto/must.h).
 */
#ifndef SHOAL_PROTO_RESULT_H
#define SHOAL_PROTO_RESULT_H

#include <stddef.h>

enum result {
    RESULT_OK = 0,
    RESULT_INVALID,          /* malformed or out-of-range input */
    RESULT_UNSUPPORTED,      /* well-formed, but asks for something this build does not do */
    RESULT_NOT_FOUND,        /* the named thing does not exist */
    RESULT_TOO_LARGE,        /* over a bound of proto/limits.h */
    RESULT_CONTEXT_EXCEEDED, /* prompt (plus asked-for tokens) does not fit the model's context */
    RESULT_FULL,  /* a bounded queue, ring, slab or pool has no room now; a later try may succeed */
    RESULT_EMPTY, /* nothing to take now */
    RESULT_STALE, /* the reference's generation has ended */
    RESULT_CORRUPT, /* a record or file contradicts itself */
    RESULT_OUT_OF_MEMORY,
    RESULT_IO,        /* an OS call failed; the text is errno's */
    RESULT_PEER_GONE, /* the other process is dead or hung */
    RESULT_CANCELLED,
    RESULT_TIMED_OUT,
    RESULT_GRAMMAR_FUEL,     /* a grammar takes more work for one token than the limit */
    RESULT_GRAMMAR_DEAD_END, /* no token of the vocabulary continues a grammar's text */
    RESULT_COUNT
};

#define RESULT_CHECKED __attribute__((warn_unused_result))

/* Static string such as "invalid"; "unknown" for a value outside the enum. */
const char *result_name(enum result result);

/* Text for a person. Always NUL-terminated; too long a text is cut. */
struct error_text {
    char text[256];
};

/* Writes the formatted text (if `error` is not NULL) and returns `result`:
 * `return error_set(error, RESULT_INVALID, "…")`. */
enum result error_set(struct error_text *error, enum result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
