/*
 * The parts of a row of tool_format.c: the forms that a call can have. For the parsers of this
 * folder only; other code uses tool_format.h.
 */
#ifndef SHOAL_FRONTEND_REPLY_TOOL_FORM_H
#define SHOAL_FRONTEND_REPLY_TOOL_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/reply/mark_matcher.h"

/* How the text after a form's mark is read. */
enum tool_form_kind {
    FORM_END = 0,  /* ends a list of forms */
    FORM_ENVELOPE, /* call_envelope.h: a JSON object with name and arguments; its { is in the mark
                    */
    FORM_OBJECT,   /* arguments as a JSON object, its { in the mark; the mark contains the name */
    FORM_TAGGED,   /* tagged_arguments.h: each value between tags; the mark contains the name */
    FORM_LITERAL,  /* literal_arguments.h: notations other than JSON; the mark contains the name */
    FORM_CLOSING   /* no call: removed if a call precedes it */
};

/* Where a form's mark counts. */
enum tool_form_place {
    FORM_ANYWHERE,
    FORM_AT_START,   /* only blanks before it; only with an offered name */
    FORM_IN_BLOCK,   /* after a call whose block is not closed */
    FORM_AFTER_CALL, /* after a call, closed or not */
};

/* The type of a value between tags. A syntax has either the first pattern only or all three. */
enum tagged_value_kind {
    TAGGED_BY_SCHEMA, /* the tool's schema decides */
    TAGGED_STRING,
    TAGGED_JSON,
    TAGGED_VALUE_KINDS
};

/* `<function=f> <parameter=p>value</parameter> … </function>` and its relatives. */
struct tagged_syntax {
    const char *values[TAGGED_VALUE_KINDS]; /* patterns that begin a value; %k is its name */
    const char *call_ends[2];               /* patterns that end the call between values */
    const char *ends[3]; /* patterns that end a value: [0] is the usual one, the others begin the
                            next part, which is read again */
    bool line_breaks;    /* one line break at each end of a value is not part of it */
};

enum { LITERAL_QUOTES = 4 };

/* `f(a="x", b=[1])`, `{a:<|"|>x<|"|>}`. */
struct literal_syntax {
    const char *quotes[LITERAL_QUOTES]; /* patterns; a longer one after its own prefixes */
    bool escapes;                       /* backslash escapes as in Python strings */
    bool bare_words;                    /* text without quotes is a string */
    char assign;                        /* between a name and its value at the top level */
    char close;                         /* ends the arguments */
};

struct tool_form {
    enum tool_form_kind kind;
    enum tool_form_place place;
    const char *pattern;
    bool closes_block; /* FORM_CLOSING */
    bool offered_only; /* a call of an unknown tool is text */
    bool name_in_id;   /* the id is `functions.name:index` */
    const struct tagged_syntax *tagged;
    const struct literal_syntax *literal;
};

struct tool_format;
/* At most MARK_PATTERNS forms, then FORM_END. */
const struct tool_form *tool_format_forms(const struct tool_format *format);

#endif
