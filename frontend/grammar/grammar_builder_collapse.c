/*
 * Which symbols become one terminal, and the rules that need no parser.
 *
 * A terminal is wide if it takes most tokens at some place: it repeats a set of many bytes. It is
 * open if it may end at any such place. Whatever follows a wide terminal that is closed (a string
 * with its quotes) stays apart from it; everything else is joined. Rules without recursion whose
 * productions all become single terminals become terminals, inner rules first.
 */
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/grammar_builder_state.h"

#define WIDE_BYTES       32  /* a set with so many bytes, */
#define WIDE_REPEATS     8u  /* repeated so often, is wide */
#define TERMINAL_REPEATS 16u /* larger counts of symbols are counted by the parser */

enum {
    TRAIT_WIDE_SET = 1, /* contains a set of WIDE_BYTES */
    TRAIT_WIDE = 2,
    TRAIT_OPEN = 4,
    TRAIT_REPEATS = 8 /* contains a repetition */
};

static int set_bytes(const struct regex_byte_set *set)
{
    int bytes = 0;
    for (int i = 0; i < 4; i++)
        bytes += __builtin_popcountll(set->words[i]);
    return bytes;
}

static uint8_t node_traits(const struct grammar_builder *builder, const uint8_t *traits,
                           const struct regex_node *node)
{
    if (node->kind == REGEX_KIND_SET)
        return set_bytes(&builder->store.sets[node->a]) >= WIDE_BYTES ? TRAIT_WIDE_SET : 0;
    if (node->kind < REGEX_KIND_SET)
        return 0;
    uint8_t a = traits[node->a], b = traits[node->b];
    uint8_t both = a | b;
    if (node->kind == REGEX_KIND_CONCAT)
        return (uint8_t)((both & ~TRAIT_OPEN) | (b & TRAIT_OPEN));
    if (node->kind == REGEX_KIND_NOT)
        return TRAIT_WIDE_SET | TRAIT_WIDE | TRAIT_OPEN | TRAIT_REPEATS;
    if (node->kind == REGEX_KIND_AND) /* what narrows the other part is usually a NOT */
        return (uint8_t)((both & ~TRAIT_OPEN) | (a & b & TRAIT_OPEN));
    if (node->kind == REGEX_KIND_REPEAT) {
        both = a | TRAIT_REPEATS;
        if (node->maximum >= WIDE_REPEATS && (a & TRAIT_WIDE_SET) != 0)
            both |= TRAIT_WIDE | TRAIT_OPEN;
    }
    return both;
}

static uint8_t traits_of(struct grammar_builder *builder, regex_id regex)
{
    while (builder->traits.count <= regex) {
        size_t at = builder->traits.count;
        uint8_t *traits = builder_array_add(builder, &builder->traits, 1);
        if (traits == NULL)
            return 0;
        *traits = node_traits(builder, builder->traits.items, &builder->store.nodes[at]);
    }
    return ((uint8_t *)builder->traits.items)[regex];
}

regex_id builder_merge_sequence(struct grammar_builder *builder, symbol_id x, symbol_id y)
{
    regex_id first = grammar_symbol_regex(builder, x), second = grammar_symbol_regex(builder, y);
    if (first == GRAMMAR_NONE || second == GRAMMAR_NONE)
        return GRAMMAR_NONE;
    uint8_t traits = traits_of(builder, first);
    if ((traits & TRAIT_WIDE) != 0 && (traits & TRAIT_OPEN) == 0)
        return GRAMMAR_NONE;
    return grammar_regex_concat(builder, first, second);
}

bool builder_repeats_as_terminal(struct grammar_builder *builder, symbol_id symbol,
                                 uint32_t minimum, uint32_t maximum)
{
    regex_id regex = grammar_symbol_regex(builder, symbol);
    if (regex == GRAMMAR_NONE)
        return false;
    uint8_t traits = traits_of(builder, regex);
    if ((traits & TRAIT_WIDE) != 0 && (traits & TRAIT_OPEN) == 0)
        return false;
    return (traits & TRAIT_REPEATS) == 0 || maximum <= TERMINAL_REPEATS ||
           (maximum == GRAMMAR_UNBOUNDED && minimum <= TERMINAL_REPEATS);
}

/* --- Rules -------------------------------------------------------------------------------------- */

/* A symbol being visited and the next place in its productions. */
struct visit {
    symbol_id symbol;
    uint32_t production; /* index + 1, 0: none left */
    uint32_t index;
};

struct collapse {
    struct grammar_builder *builder;
    uint8_t *marks;      /* [symbols] enum mark */
    struct visit *stack; /* [symbols] */
    uint32_t depth;
};

enum mark { UNSEEN, OPEN, RECURSIVE, DONE };

/* Joins terminals next to each other in a production. */
static void merge_production(struct grammar_builder *builder, uint32_t index)
{
    struct builder_production production = *builder_production_at(builder, index);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < production.count && !grammar_builder_failed(builder); i++) {
        uint32_t *list = builder_symbol_list(builder) + production.first;
        regex_id both =
            kept == 0 ? GRAMMAR_NONE : builder_merge_sequence(builder, list[kept - 1], list[i]);
        if (both == GRAMMAR_NONE)
            list[kept++] = list[i];
        else
            list[kept - 1] = grammar_terminal(builder, both);
    }
    builder_production_at(builder, index)->count = kept;
}

/* A rule of which every production is at most one terminal becomes a terminal. */
static void collapse_rule(struct collapse *collapse, symbol_id symbol)
{
    struct grammar_builder *builder = collapse->builder;
    struct builder_symbol *rule = builder_symbol_at(builder, symbol);
    size_t count = 0;
    bool all_terminals = collapse->marks[symbol] != RECURSIVE && rule->minimum == 0;
    for (uint32_t p = rule->value; p != 0; p = builder_production_at(builder, p - 1)->previous) {
        merge_production(builder, p - 1);
        const struct builder_production *production = builder_production_at(builder, p - 1);
        all_terminals =
            all_terminals && production->count <= 1 &&
            (production->count == 0 ||
             grammar_symbol_regex(builder, builder_symbol_list(builder)[production->first]) !=
                 GRAMMAR_NONE);
        count++;
    }
    if (!all_terminals || grammar_builder_failed(builder))
        return;
    regex_id *regexes = calloc(count + 1, sizeof *regexes);
    if (regexes == NULL) {
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
        return;
    }
    count = 0;
    rule = builder_symbol_at(builder, symbol);
    for (uint32_t p = rule->value; p != 0; p = builder_production_at(builder, p - 1)->previous) {
        const struct builder_production *production = builder_production_at(builder, p - 1);
        const uint32_t *list = builder_symbol_list(builder) + production->first;
        regexes[count++] =
            production->count == 0 ? REGEX_EMPTY : grammar_symbol_regex(builder, list[0]);
    }
    regex_id all = grammar_regex_or_of(builder, regexes, count);
    free(regexes);
    if (all != GRAMMAR_NONE)
        *rule = (struct builder_symbol){SYMBOL_TERMINAL, all, 0, 0};
}

/* The next symbol of a group that was not visited; `index` counts the undeclared one first. */
static symbol_id unseen_in_group(const struct collapse *collapse, symbol_id symbol, uint32_t *index)
{
    const struct builder_group *group = builder_group_of(collapse->builder, symbol);
    const struct grammar_group_choice *choices = builder_group_choices(collapse->builder, group);
    while (*index < group->group.choice_count + 1 && grammar_builder_spend(collapse->builder, 1)) {
        uint32_t i = (*index)++;
        symbol_id next = i == 0 ? group->group.extra : choices[i - 1].unit;
        if (next != GRAMMAR_NONE && collapse->marks[next] == UNSEEN)
            return next;
    }
    return GRAMMAR_NONE;
}

/* The next symbol below the top of the stack that was not visited. */
static symbol_id unseen_below(struct collapse *collapse)
{
    struct grammar_builder *builder = collapse->builder;
    struct visit *visit = &collapse->stack[collapse->depth - 1];
    const struct builder_symbol *here = builder_symbol_at(builder, visit->symbol);
    if (here->kind == SYMBOL_REPEAT)
        return collapse->marks[here->value] == UNSEEN ? here->value : GRAMMAR_NONE;
    if (here->kind == SYMBOL_GROUP)
        return unseen_in_group(collapse, visit->symbol, &visit->index);
    for (; visit->production != 0; visit->index = 0) {
        const struct builder_production *production =
            builder_production_at(builder, visit->production - 1);
        const uint32_t *list = builder_symbol_list(builder) + production->first;
        while (visit->index < production->count && grammar_builder_spend(builder, 1)) {
            symbol_id symbol = list[visit->index++];
            if (collapse->marks[symbol] == UNSEEN)
                return symbol;
        }
        visit->production = production->previous;
    }
    return GRAMMAR_NONE;
}

static void enter(struct collapse *collapse, symbol_id symbol)
{
    const struct builder_symbol *here = builder_symbol_at(collapse->builder, symbol);
    collapse->marks[symbol] = OPEN;
    collapse->stack[collapse->depth++] =
        (struct visit){symbol, here->kind == SYMBOL_RULE ? here->value : 0, 0};
}

/* A symbol that is being visited, or is recursive, below `symbol`: its terminals cannot be told. */
static bool reaches_open(const struct collapse *collapse, symbol_id symbol)
{
    const struct grammar_builder *builder = collapse->builder;
    const struct builder_symbol *here = builder_symbol_at(builder, symbol);
    if (here->kind == SYMBOL_REPEAT)
        return collapse->marks[here->value] != DONE;
    if (here->kind == SYMBOL_GROUP) /* never becomes a terminal */
        return true;
    for (uint32_t p = here->value; p != 0; p = builder_production_at(builder, p - 1)->previous) {
        const struct builder_production *production = builder_production_at(builder, p - 1);
        const uint32_t *list = builder_symbol_list(builder) + production->first;
        for (uint32_t i = 0; i < production->count; i++)
            if (collapse->marks[list[i]] != DONE)
                return true;
    }
    return false;
}

static void leave(struct collapse *collapse, symbol_id symbol)
{
    struct grammar_builder *builder = collapse->builder;
    struct builder_symbol *here = builder_symbol_at(builder, symbol);
    collapse->marks[symbol] = reaches_open(collapse, symbol) ? RECURSIVE : DONE;
    if (here->kind == SYMBOL_RULE) {
        collapse_rule(collapse, symbol);
    } else if (here->kind == SYMBOL_REPEAT &&
               builder_repeats_as_terminal(builder, here->value, here->minimum, here->maximum)) {
        regex_id regex = grammar_regex_repeat(builder, grammar_symbol_regex(builder, here->value),
                                              here->minimum, here->maximum);
        if (regex != GRAMMAR_NONE)
            *here = (struct builder_symbol){SYMBOL_TERMINAL, regex, 0, 0};
    }
}

void builder_collapse_rules(struct grammar_builder *builder, symbol_id root)
{
    size_t count = builder->symbols.count; /* terminals that are added need no visit */
    struct collapse collapse = {builder, calloc(count, 1), calloc(count, sizeof(struct visit)), 0};
    if (collapse.marks == NULL || collapse.stack == NULL) {
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
    } else {
        for (size_t i = 0; i < count; i++) {
            enum symbol_kind kind = builder_symbol_at(builder, (symbol_id)i)->kind;
            collapse.marks[i] = kind == SYMBOL_TERMINAL || kind == SYMBOL_TOKEN ? DONE : UNSEEN;
        }
        if (collapse.marks[root] == UNSEEN)
            enter(&collapse, root);
    }
    while (collapse.depth > 0 && !grammar_builder_failed(builder)) {
        symbol_id symbol = collapse.stack[collapse.depth - 1].symbol;
        symbol_id next = unseen_below(&collapse);
        if (next != GRAMMAR_NONE) {
            enter(&collapse, next);
        } else {
            leave(&collapse, symbol);
            collapse.depth--;
        }
    }
    free(collapse.marks);
    free(collapse.stack);
}
