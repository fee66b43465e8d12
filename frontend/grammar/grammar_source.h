/*
 * What a request asks its answer to be, in one form for all APIs, and its translation by the
 * compilers of this folder.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_GRAMMAR_SOURCE_H
#define SHOAL_FRONTEND_GRAMMAR_GRAMMAR_SOURCE_H

#include <stdbool.h>

#include "frontend/base/text_buffer.h"
#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"
#include "frontend/grammar/grammar_text.h"
#include "proto/result.h"

struct cJSON;

enum grammar_kind {
    GRAMMAR_FREE = 0,      /* any text */
    GRAMMAR_JSON_OBJECT,   /* any JSON object */
    GRAMMAR_JSON_SCHEMA,   /* value: the schema */
    GRAMMAR_REGEX,         /* value: a string; the whole answer matches */
    GRAMMAR_CHOICE,        /* value: a list of strings, one of which is the answer */
    GRAMMAR_GBNF,          /* value: a string */
    GRAMMAR_LARK,          /* value: a string */
    GRAMMAR_STRUCTURAL_TAG /* value: structural_tag.h */
};

struct grammar_source {
    enum grammar_kind kind;
    const struct cJSON *value;    /* belongs to the request's body */
    bool strict;                  /* the schema must obey OpenAI's rules for strict ones */
    const struct cJSON *triggers; /* a list of strings: free text up to the first of them, with
                                     which the text of the grammar begins; NULL: from the start */
};

/* The symbol of the answers. False: refused (*error), the builder failed, or memory ran out (the
 * message is empty). */
bool grammar_source_compile(struct grammar_builder *builder, const struct grammar_source *source,
                            const struct special_finder *specials, symbol_id *out,
                            struct grammar_error *error) RESULT_CHECKED;
/* Appends text that is equal for equal sources only. */
void grammar_source_write(const struct grammar_source *source, struct text_buffer *out);

#endif
