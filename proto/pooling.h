/*
 * How the vectors of a text's tokens become the text's vector. A worker that pools draws no tokens:
 * the answer to a request is the vector (TOKEN_EVENT_VECTOR), and then one token without meaning, so
 * that a request ends, fails and is repeated like any other.
 */
#ifndef SHOAL_PROTO_POOLING_H
#define SHOAL_PROTO_POOLING_H

#include <stdbool.h>

enum pooling {
    POOLING_OFF = 0, /* the model generates text */
    POOLING_LAST,    /* the last token's vector */
    POOLING_MEAN,    /* the mean of all */
    POOLING_CLS,     /* the first token's */
    POOLING_MAX,     /* the largest of each column */
    POOLING_TOKENS   /* all of them, one after the other */
};

/* Parses "off|last|mean|cls|max|none" ("none": all vectors); returns 0, or -1 and leaves *pooling. */
int pooling_parse(const char *text, enum pooling *pooling);
const char *pooling_name(enum pooling pooling);
/* Whether the vectors of other tokens than the last one are needed. */
bool pooling_reads_all(enum pooling pooling);

#endif
