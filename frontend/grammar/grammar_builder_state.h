/* What the parts of the grammar builder share; for grammar_builder*.c only. */
#ifndef SHOAL_FRONTEND_GRAMMAR_GRAMMAR_BUILDER_STATE_H
#define SHOAL_FRONTEND_GRAMMAR_GRAMMAR_BUILDER_STATE_H

#include "frontend/grammar/grammar_builder.h"
#include "proto/grammar_regex.h"

enum symbol_kind {
    SYMBOL_TERMINAL, /* value = regex */
    SYMBOL_TOKEN,    /* value = token */
    SYMBOL_RULE,     /* value = last production + 1, or 0 */
    SYMBOL_REPEAT,   /* value = symbol */
    SYMBOL_GROUP     /* value = index in groups */
};

struct builder_symbol {
    enum symbol_kind kind;
    uint32_t value;
    uint32_t minimum; /* SYMBOL_REPEAT; SYMBOL_RULE: 1 if it stays a rule */
    uint32_t maximum;
};

struct builder_production {
    uint32_t first; /* in symbol_list */
    uint32_t count;
    uint32_t previous; /* of the same rule: index + 1, or 0 */
};

struct builder_group {
    uint32_t first; /* in choices */
    struct grammar_group group;
};

/* An array that grows inside the builder's bounds. */
struct builder_array {
    void *items;
    size_t count;
    size_t capacity;
};

struct grammar_builder {
    struct regex_store store;         /* its fuel is the builder's */
    struct builder_array symbols;     /* struct builder_symbol */
    struct builder_array productions; /* struct builder_production */
    struct builder_array symbol_list; /* uint32_t, the symbols of all productions */
    struct builder_array groups;      /* struct builder_group */
    struct builder_array choices;     /* struct grammar_group_choice */
    struct builder_array terminal_of; /* uint32_t: symbol of each regex id, or GRAMMAR_NONE */
    struct builder_array traits;      /* uint8_t of each regex id, as far as asked for */
    uint64_t *code_points;            /* bitmap, zero between uses; NULL until first used */
    uint32_t any_text;                /* REGEX_FAILED until first used */
    enum grammar_failure failure;     /* besides the store's */
    const atomic_bool *cancelled;
};

/* Adds a zeroed element; NULL: failed. */
void *builder_array_add(struct grammar_builder *builder, struct builder_array *array, size_t bytes);
bool builder_fail(struct grammar_builder *builder, enum grammar_failure failure);
struct builder_symbol *builder_symbol_at(const struct grammar_builder *builder, symbol_id symbol);
struct builder_production *builder_production_at(const struct grammar_builder *builder,
                                                 uint32_t production);
const struct builder_group *builder_group_of(const struct grammar_builder *builder,
                                             symbol_id symbol);
const struct grammar_group_choice *builder_group_choices(const struct grammar_builder *builder,
                                                         const struct builder_group *group);
uint32_t *builder_symbol_list(const struct grammar_builder *builder);
/* One regex for two symbols in sequence, if one terminal serves masks better than two:
 * GRAMMAR_NONE otherwise. */
regex_id builder_merge_sequence(struct grammar_builder *builder, symbol_id x, symbol_id y);
/* Whether `symbol` repeated so is better a terminal than a counter of the parser. */
bool builder_repeats_as_terminal(struct grammar_builder *builder, symbol_id symbol,
                                 uint32_t minimum, uint32_t maximum);
/* Turns rules that need no parser into terminals. */
void builder_collapse_rules(struct grammar_builder *builder, symbol_id root);

#endif
