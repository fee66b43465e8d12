/*
 * Symbols and productions of a grammar, and the failure that the builder keeps.
 *
 * Terminals next to each other become one terminal where that makes masks cheaper: a mask walks one
 * automaton per terminal and returns to the parser between them. A terminal that takes most of the
 * vocabulary (a string) is kept apart from what follows it, so that all strings of a grammar share
 * states.
 */
#include "frontend/grammar/grammar_builder_state.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/cancel_flag.h"
#include "proto/grammar_blob.h"
#include "proto/limits.h"
#include "proto/must.h"

struct grammar_builder *grammar_builder_open(const struct grammar_bounds *bounds)
{
    struct grammar_builder *builder = calloc(1, sizeof *builder);
    if (builder == NULL)
        return NULL;
    size_t bytes = bounds->bytes != 0 ? bounds->bytes : LIMIT_GRAMMAR_BUILD_BYTES;
    uint64_t fuel = bounds->fuel != 0 ? bounds->fuel : LIMIT_GRAMMAR_BUILD_FUEL;
    if (!regex_store_init(&builder->store, bytes, fuel)) {
        free(builder);
        return NULL;
    }
    builder->any_text = REGEX_FAILED;
    builder->cancelled = bounds->cancelled;
    /* An entry that no production has, so that the list is never NULL. */
    (void)builder_array_add(builder, &builder->symbol_list, sizeof(uint32_t));
    return builder;
}

void grammar_builder_close(struct grammar_builder *builder)
{
    if (builder == NULL)
        return;
    regex_store_fini(&builder->store);
    free(builder->symbols.items);
    free(builder->productions.items);
    free(builder->symbol_list.items);
    free(builder->groups.items);
    free(builder->choices.items);
    free(builder->terminal_of.items);
    free(builder->traits.items);
    free(builder->code_points);
    free(builder);
}

enum grammar_failure grammar_builder_failure(const struct grammar_builder *builder)
{
    if (builder->failure != GRAMMAR_FINE)
        return builder->failure;
    switch (builder->store.failure) {
    case REGEX_OUT_OF_FUEL: return GRAMMAR_OUT_OF_FUEL;
    case REGEX_OUT_OF_MEMORY: return GRAMMAR_OUT_OF_MEMORY;
    case REGEX_TOO_DEEP: return GRAMMAR_TOO_DEEP;
    default: return GRAMMAR_FINE;
    }
}

bool grammar_builder_failed(const struct grammar_builder *builder)
{
    return grammar_builder_failure(builder) != GRAMMAR_FINE;
}

const char *grammar_builder_reason(const struct grammar_builder *builder)
{
    switch (grammar_builder_failure(builder)) {
    case GRAMMAR_OUT_OF_FUEL: return "the grammar needs too much work";
    case GRAMMAR_OUT_OF_MEMORY: return "the grammar needs too much memory";
    case GRAMMAR_TOO_DEEP: return "the grammar is nested too deep";
    case GRAMMAR_CANCELLED: return "the request was cancelled";
    case GRAMMAR_EMPTY_LANGUAGE: return "no text can satisfy the grammar";
    default: return "";
    }
}

bool builder_fail(struct grammar_builder *builder, enum grammar_failure failure)
{
    if (builder->failure == GRAMMAR_FINE)
        builder->failure = failure;
    return false;
}

bool grammar_builder_spend(struct grammar_builder *builder, uint64_t steps)
{
    if (cancel_flag_is_set(builder->cancelled))
        return builder_fail(builder, GRAMMAR_CANCELLED);
    return builder->failure == GRAMMAR_FINE && regex_spend(&builder->store, steps);
}

void *builder_array_add(struct grammar_builder *builder, struct builder_array *array, size_t bytes)
{
    if (!grammar_builder_spend(builder, 1))
        return NULL;
    if (array->count == array->capacity) {
        size_t wider = array->capacity == 0 ? 64 : array->capacity * 2;
        size_t added = (wider - array->capacity) * bytes;
        if (added > builder->store.bytes_limit - builder->store.bytes) {
            builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
            return NULL;
        }
        void *items = realloc(array->items, wider * bytes);
        if (items == NULL) {
            builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
            return NULL;
        }
        builder->store.bytes += added;
        array->items = items;
        array->capacity = wider;
    }
    void *item = (char *)array->items + array->count++ * bytes;
    memset(item, 0, bytes);
    return item;
}

struct builder_symbol *builder_symbol_at(const struct grammar_builder *builder, symbol_id symbol)
{
    must(symbol < builder->symbols.count);
    return (struct builder_symbol *)builder->symbols.items + symbol;
}

struct builder_production *builder_production_at(const struct grammar_builder *builder,
                                                 uint32_t production)
{
    return (struct builder_production *)builder->productions.items + production;
}

const struct builder_group *builder_group_of(const struct grammar_builder *builder,
                                             symbol_id symbol)
{
    return (const struct builder_group *)builder->groups.items +
           builder_symbol_at(builder, symbol)->value;
}

const struct grammar_group_choice *builder_group_choices(const struct grammar_builder *builder,
                                                         const struct builder_group *group)
{
    const struct grammar_group_choice *choices = builder->choices.items;
    return choices == NULL ? NULL : choices + group->first; /* no group has any choice yet */
}

uint32_t *builder_symbol_list(const struct grammar_builder *builder)
{
    return builder->symbol_list.items;
}

/* --- Symbols ------------------------------------------------------------------------------------ */

static symbol_id add_symbol(struct grammar_builder *builder, struct builder_symbol symbol)
{
    if (builder->symbols.count >= 0x0FFFFFFFu) {
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
        return GRAMMAR_NONE;
    }
    struct builder_symbol *added = builder_array_add(builder, &builder->symbols, sizeof symbol);
    if (added == NULL)
        return GRAMMAR_NONE;
    *added = symbol;
    return (symbol_id)builder->symbols.count - 1;
}

symbol_id grammar_terminal(struct grammar_builder *builder, regex_id regex)
{
    if (regex == GRAMMAR_NONE || grammar_builder_failed(builder))
        return GRAMMAR_NONE;
    must(regex < builder->store.node_count);
    while (builder->terminal_of.count <= regex) {
        uint32_t *entry = builder_array_add(builder, &builder->terminal_of, sizeof(uint32_t));
        if (entry == NULL)
            return GRAMMAR_NONE;
        *entry = GRAMMAR_NONE;
    }
    uint32_t *known = (uint32_t *)builder->terminal_of.items + regex;
    if (*known == GRAMMAR_NONE)
        *known = add_symbol(builder, (struct builder_symbol){SYMBOL_TERMINAL, regex, 0, 0});
    return *known;
}

symbol_id grammar_token(struct grammar_builder *builder, uint32_t token)
{
    if (token >= LIMIT_VOCAB_TOKENS)
        return grammar_terminal(builder, grammar_regex_nothing(builder));
    return add_symbol(builder, (struct builder_symbol){SYMBOL_TOKEN, token, 0, 0});
}

symbol_id grammar_rule(struct grammar_builder *builder)
{
    return add_symbol(builder, (struct builder_symbol){SYMBOL_RULE, 0, 0, 0});
}

void grammar_production(struct grammar_builder *builder, symbol_id rule, const symbol_id *symbols,
                        size_t count)
{
    if (rule == GRAMMAR_NONE || grammar_builder_failed(builder))
        return;
    must(builder_symbol_at(builder, rule)->kind == SYMBOL_RULE);
    uint32_t first = (uint32_t)builder->symbol_list.count;
    for (size_t i = 0; i < count; i++) {
        must(symbols[i] == GRAMMAR_NONE || symbols[i] < builder->symbols.count);
        uint32_t *entry = builder_array_add(builder, &builder->symbol_list, sizeof(uint32_t));
        if (entry == NULL)
            return;
        *entry = symbols[i];
    }
    struct builder_production *production =
        builder_array_add(builder, &builder->productions, sizeof *production);
    if (production == NULL)
        return;
    struct builder_symbol *symbol = builder_symbol_at(builder, rule);
    *production = (struct builder_production){first, (uint32_t)count, symbol->value};
    symbol->value = (uint32_t)builder->productions.count;
}

symbol_id grammar_unit(struct grammar_builder *builder, const symbol_id *symbols, size_t count)
{
    symbol_id rule = add_symbol(builder, (struct builder_symbol){SYMBOL_RULE, 0, 1, 0});
    grammar_production(builder, rule, symbols, count);
    return grammar_builder_failed(builder) ? GRAMMAR_NONE : rule;
}

symbol_id grammar_group(struct grammar_builder *builder, const struct grammar_group *group)
{
    if (grammar_builder_failed(builder) || group->separator == GRAMMAR_NONE)
        return GRAMMAR_NONE;
    if (group->choice_count > GRAMMAR_GROUP_CHOICES) {
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
        return GRAMMAR_NONE;
    }
    must(builder_symbol_at(builder, group->separator)->kind == SYMBOL_TERMINAL);
    uint32_t first = (uint32_t)builder->choices.count;
    for (uint32_t i = 0; i < group->choice_count; i++) {
        struct grammar_group_choice *choice =
            builder_array_add(builder, &builder->choices, sizeof *choice);
        if (choice == NULL)
            return GRAMMAR_NONE;
        *choice = group->choices[i];
    }
    struct builder_group *added = builder_array_add(builder, &builder->groups, sizeof *added);
    if (added == NULL)
        return GRAMMAR_NONE;
    *added = (struct builder_group){first, *group};
    added->group.choices = NULL;
    return add_symbol(
        builder, (struct builder_symbol){SYMBOL_GROUP, (uint32_t)builder->groups.count - 1, 0, 0});
}

regex_id grammar_symbol_regex(const struct grammar_builder *builder, symbol_id symbol)
{
    if (symbol == GRAMMAR_NONE || builder_symbol_at(builder, symbol)->kind != SYMBOL_TERMINAL)
        return GRAMMAR_NONE;
    return builder_symbol_at(builder, symbol)->value;
}

static bool any_is_none(const symbol_id *symbols, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (symbols[i] == GRAMMAR_NONE)
            return true;
    return false;
}

symbol_id grammar_sequence(struct grammar_builder *builder, const symbol_id *symbols, size_t count)
{
    if (grammar_builder_failed(builder) || any_is_none(symbols, count))
        return GRAMMAR_NONE;
    symbol_id *merged = malloc((count + 1) * sizeof *merged);
    if (merged == NULL) {
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
        return GRAMMAR_NONE;
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        regex_id both = kept == 0 ? GRAMMAR_NONE
                                  : builder_merge_sequence(builder, merged[kept - 1], symbols[i]);
        if (both != GRAMMAR_NONE)
            merged[kept - 1] = grammar_terminal(builder, both);
        else
            merged[kept++] = symbols[i];
    }
    symbol_id symbol;
    if (kept == 0) {
        symbol = grammar_terminal(builder, grammar_regex_empty(builder));
    } else if (kept == 1) {
        symbol = merged[0];
    } else {
        symbol = grammar_rule(builder);
        grammar_production(builder, symbol, merged, kept);
    }
    free(merged);
    return grammar_builder_failed(builder) ? GRAMMAR_NONE : symbol;
}

symbol_id grammar_choice(struct grammar_builder *builder, const symbol_id *symbols, size_t count)
{
    if (grammar_builder_failed(builder) || any_is_none(symbols, count))
        return GRAMMAR_NONE;
    regex_id *regexes = calloc(count + 1, sizeof *regexes);
    if (regexes == NULL) {
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
        return GRAMMAR_NONE;
    }
    size_t terminals = 0;
    for (size_t i = 0; i < count; i++)
        if (grammar_symbol_regex(builder, symbols[i]) != GRAMMAR_NONE)
            regexes[terminals++] = grammar_symbol_regex(builder, symbols[i]);
    symbol_id terminal = GRAMMAR_NONE;
    if (terminals > 0 || count == 0)
        terminal = grammar_terminal(builder, grammar_regex_or_of(builder, regexes, terminals));
    free(regexes);
    if (terminals == count)
        return terminal;
    if (count == 1)
        return symbols[0];
    symbol_id rule = grammar_rule(builder);
    if (terminals > 0)
        grammar_production(builder, rule, &terminal, 1);
    for (size_t i = 0; i < count; i++)
        if (grammar_symbol_regex(builder, symbols[i]) == GRAMMAR_NONE)
            grammar_production(builder, rule, &symbols[i], 1);
    return grammar_builder_failed(builder) ? GRAMMAR_NONE : rule;
}

symbol_id grammar_optional(struct grammar_builder *builder, symbol_id symbol)
{
    return grammar_choice(
        builder,
        (const symbol_id[]){symbol, grammar_terminal(builder, grammar_regex_empty(builder))}, 2);
}

symbol_id grammar_repeat(struct grammar_builder *builder, symbol_id symbol, uint32_t minimum,
                         uint32_t maximum)
{
    if (grammar_builder_failed(builder) || symbol == GRAMMAR_NONE)
        return GRAMMAR_NONE;
    if (minimum > maximum || minimum > LIMIT_GRAMMAR_COUNT)
        return grammar_terminal(builder, grammar_regex_nothing(builder));
    if (maximum == 0)
        return grammar_terminal(builder, grammar_regex_empty(builder));
    if (minimum == 1 && maximum == 1)
        return symbol;
    const struct builder_symbol *inner = builder_symbol_at(builder, symbol);
    if (inner->kind == SYMBOL_TERMINAL &&
        builder_repeats_as_terminal(builder, symbol, minimum, maximum))
        return grammar_terminal(builder,
                                grammar_regex_repeat(builder, inner->value, minimum, maximum));
    if (inner->kind != SYMBOL_TERMINAL && inner->kind != SYMBOL_RULE) {
        symbol_id rule = grammar_rule(builder);
        grammar_production(builder, rule, &symbol, 1);
        symbol = rule;
    }
    return grammar_builder_failed(builder)
               ? GRAMMAR_NONE
               : add_symbol(builder,
                            (struct builder_symbol){SYMBOL_REPEAT, symbol, minimum, maximum});
}

symbol_id grammar_separated(struct grammar_builder *builder, symbol_id item, symbol_id separator,
                            uint32_t minimum, uint32_t maximum)
{
    if (minimum > maximum || maximum == 0)
        return grammar_repeat(builder, item, minimum, maximum);
    symbol_id further = grammar_sequence(builder, (const symbol_id[]){separator, item}, 2);
    symbol_id rest = grammar_repeat(builder, further, minimum == 0 ? 0 : minimum - 1,
                                    maximum == GRAMMAR_UNBOUNDED ? maximum : maximum - 1);
    symbol_id list = grammar_sequence(builder, (const symbol_id[]){item, rest}, 2);
    return minimum == 0 ? grammar_optional(builder, list) : list;
}
