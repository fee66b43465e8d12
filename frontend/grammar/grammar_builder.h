/*
 * Builds a grammar: a context-free grammar over byte strings whose terminals are regular
 * expressions with counted repetition, intersection and complement. A text is in the language if
 * some derivation exists; there is no longest-match rule.
 *
 * Equal regexes get equal ids. Work is counted as fuel. The first failure (fuel, memory, nesting,
 * cancelled) is kept: every later call returns GRAMMAR_NONE or false and does nothing, and any
 * argument may be GRAMMAR_NONE, so a compiler checks once at its end. An id of another builder is
 * a bug.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_GRAMMAR_BUILDER_H
#define SHOAL_FRONTEND_GRAMMAR_GRAMMAR_BUILDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAMMAR_NONE      UINT32_MAX
#define GRAMMAR_UNBOUNDED UINT32_MAX

typedef uint32_t regex_id;
typedef uint32_t symbol_id;

struct grammar_builder;

/* 0 in a number takes its default from proto/limits.h. */
struct grammar_bounds {
    uint64_t fuel;                /* steps; one is about 10 ns */
    size_t bytes;                 /* memory of the builder; the blob is smaller */
    const atomic_bool *cancelled; /* NULL: never; outlives the builder */
};

enum grammar_failure {
    GRAMMAR_FINE = 0,
    GRAMMAR_OUT_OF_FUEL,
    GRAMMAR_OUT_OF_MEMORY, /* over bounds.bytes, or malloc failed */
    GRAMMAR_TOO_DEEP,      /* a regex is nested deeper than LIMIT_GRAMMAR_DEPTH */
    GRAMMAR_CANCELLED,
    GRAMMAR_EMPTY_LANGUAGE /* grammar_builder_finish(): no text matches the root */
};

/* NULL: out of memory. */
struct grammar_builder *grammar_builder_open(const struct grammar_bounds *bounds);
void grammar_builder_close(struct grammar_builder *builder);
bool grammar_builder_failed(const struct grammar_builder *builder);
enum grammar_failure grammar_builder_failure(const struct grammar_builder *builder);
/* A clause such as "the grammar needs too much work"; "" if nothing failed. */
const char *grammar_builder_reason(const struct grammar_builder *builder);
/* Takes fuel for work of the caller's own and looks at the cancel flag; false: failed. */
bool grammar_builder_spend(struct grammar_builder *builder, uint64_t steps);

/* --- Regexes: sets of byte strings -------------------------------------------------------------- */

regex_id grammar_regex_nothing(struct grammar_builder *builder); /* no string */
regex_id grammar_regex_empty(struct grammar_builder *builder);   /* the empty string */
/* Every valid UTF-8 string, the empty one included. */
regex_id grammar_regex_any_text(struct grammar_builder *builder);
/* One byte: bit b % 64 of set[b / 64] is byte b. */
regex_id grammar_regex_bytes(struct grammar_builder *builder, const uint64_t set[4]);
regex_id grammar_regex_literal(struct grammar_builder *builder, const char *bytes, size_t length);

struct code_point_range {
    uint32_t first; /* inclusive */
    uint32_t last;  /* inclusive */
};
/* One character in UTF-8. Ranges may overlap and have any order; surrogates and values above
 * 0x10FFFF are left out. */
regex_id grammar_regex_code_points(struct grammar_builder *builder,
                                   const struct code_point_range *ranges, size_t count);
regex_id grammar_regex_concat(struct grammar_builder *builder, regex_id x, regex_id y);
regex_id grammar_regex_or(struct grammar_builder *builder, regex_id x, regex_id y);
/* The same for many: balanced work, and literals share their prefixes. */
regex_id grammar_regex_or_of(struct grammar_builder *builder, const regex_id *parts, size_t count);
regex_id grammar_regex_and(struct grammar_builder *builder, regex_id x, regex_id y);
/* Every valid UTF-8 string that is not in x. */
regex_id grammar_regex_not(struct grammar_builder *builder, regex_id x);
/* minimum to maximum times x; minimum > maximum: nothing. No copies are made. */
regex_id grammar_regex_repeat(struct grammar_builder *builder, regex_id x, uint32_t minimum,
                              uint32_t maximum);
/* Whether no string matches x. *known is false if the fuel for one question did not suffice (the
 * builder goes on) or the builder has failed; the answer is then false. */
bool grammar_regex_is_nothing(struct grammar_builder *builder, regex_id x, bool *known);
/* Whether x contains the empty string. */
bool grammar_regex_is_nullable(const struct grammar_builder *builder, regex_id x);

/* --- Symbols ------------------------------------------------------------------------------------ */

/* The same regex gives the same symbol. */
symbol_id grammar_terminal(struct grammar_builder *builder, regex_id regex);
/* Exactly this token, whatever its bytes are; for special tokens. */
symbol_id grammar_token(struct grammar_builder *builder, uint32_t token);
/* A new rule without productions. A rule without any matches nothing. */
symbol_id grammar_rule(struct grammar_builder *builder);
void grammar_production(struct grammar_builder *builder, symbol_id rule, const symbol_id *symbols,
                        size_t count);
/* These make symbols from symbols. Nested choices and sequences of terminals become one terminal. */
symbol_id grammar_sequence(struct grammar_builder *builder, const symbol_id *symbols, size_t count);
symbol_id grammar_choice(struct grammar_builder *builder, const symbol_id *symbols, size_t count);
symbol_id grammar_optional(struct grammar_builder *builder, symbol_id symbol);
/* A counter, not copies. */
symbol_id grammar_repeat(struct grammar_builder *builder, symbol_id symbol, uint32_t minimum,
                         uint32_t maximum);
/* minimum to maximum times `item` with `separator` between them. */
symbol_id grammar_separated(struct grammar_builder *builder, symbol_id item, symbol_id separator,
                            uint32_t minimum, uint32_t maximum);
/* The symbols one after the other, as a choice or an undeclared text of groups: a rule that is never
 * turned into a terminal. */
symbol_id grammar_unit(struct grammar_builder *builder, const symbol_id *symbols, size_t count);

struct grammar_group_choice {
    symbol_id unit;
    bool required;
};

struct grammar_group {
    const struct grammar_group_choice *choices;
    uint32_t choice_count;
    symbol_id separator; /* a terminal */
    symbol_id extra;     /* the unit of undeclared texts, or GRAMMAR_NONE */
    uint32_t early;      /* undeclared texts while a required choice is missing, at most */
    uint32_t minimum, maximum;
};
/* One or more texts in any order (proto/grammar_blob.h, struct grammar_blob_group). Nothing in it
 * matches the empty text, and no unit is there twice. The choices are copied. */
symbol_id grammar_group(struct grammar_builder *builder, const struct grammar_group *group);
/* The regex of a terminal symbol; GRAMMAR_NONE for other symbols. */
regex_id grammar_symbol_regex(const struct grammar_builder *builder, symbol_id symbol);

/* --- The blob ----------------------------------------------------------------------------------- */

struct grammar_blob_out {
    void *bytes; /* proto/grammar_blob.h; the caller frees it */
    size_t size;
};

/* Leaves out symbols that are not reached or match no text and writes the blob. False: failed
 * (GRAMMAR_EMPTY_LANGUAGE included), *out is not set. */
bool grammar_builder_finish(struct grammar_builder *builder, symbol_id root,
                            struct grammar_blob_out *out);

#endif
