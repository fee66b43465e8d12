/*
 * The last pass: symbols that match no text are dropped, those that the root reaches are numbered,
 * and the blob is written.
 *
 * Dropping the former is what makes masks exact: after it, every text that the parser accepts so
 * far is the beginning of a text of the grammar.
 */
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/grammar_builder_state.h"
#include "proto/grammar_blob.h"
#include "proto/limits.h"
#include "proto/must.h"

#define TERMINAL_STEPS 50000u /* derivatives that decide whether a terminal is empty */

struct finish {
    struct grammar_builder *builder;
    bool *productive; /* [symbols] */
    uint32_t *number; /* [symbols] in the blob, by kind; GRAMMAR_NONE: not reached */
    uint32_t *order;  /* [symbols] reached symbols, root first */
    uint32_t reached;
    uint32_t *node_number; /* [nodes] */
    uint32_t *set_number;  /* [sets] */
    struct grammar_blob_header header;
};

/* --- Symbols that match some text --------------------------------------------------------------- */

/* True also if that could not be decided; liveness_is_known() tells. */
static bool terminal_is_productive(struct grammar_builder *builder, regex_id regex)
{
    if (!builder->store.nodes[regex].is_complex)
        return regex != REGEX_NOTHING;
    return regex_liveness(&builder->store, regex, NULL, TERMINAL_STEPS) != REGEX_DEAD;
}

static bool liveness_is_known(struct grammar_builder *builder, regex_id regex)
{
    static const struct regex_classes none;
    return regex_liveness(&builder->store, regex, &none, 0) != REGEX_LIVENESS_UNKNOWN;
}

static bool production_is_productive(const struct finish *finish, uint32_t index)
{
    const struct builder_production *production = builder_production_at(finish->builder, index);
    const uint32_t *list = builder_symbol_list(finish->builder) + production->first;
    for (uint32_t i = 0; i < production->count; i++)
        if (!finish->productive[list[i]])
            return false;
    return true;
}

static bool is_useful(const struct finish *finish, symbol_id symbol)
{
    return symbol != GRAMMAR_NONE && finish->productive[symbol];
}

static bool group_is_productive(const struct finish *finish, symbol_id symbol)
{
    const struct builder_group *group = builder_group_of(finish->builder, symbol);
    const struct grammar_group_choice *choices = builder_group_choices(finish->builder, group);
    uint32_t available = is_useful(finish, group->group.extra);
    for (uint32_t i = 0; i < group->group.choice_count; i++) {
        bool productive = finish->productive[choices[i].unit];
        if (choices[i].required && !productive)
            return false;
        available += productive;
    }
    return available > 0 && available >= group->group.minimum;
}

/* Whether the symbol matches some text, as far as known from others. */
static bool symbol_is_productive(const struct finish *finish, symbol_id symbol)
{
    const struct grammar_builder *builder = finish->builder;
    const struct builder_symbol *here = builder_symbol_at(builder, symbol);
    if (here->kind == SYMBOL_REPEAT)
        return here->minimum == 0 || finish->productive[here->value];
    if (here->kind == SYMBOL_GROUP)
        return group_is_productive(finish, symbol);
    for (uint32_t p = here->value; p != 0; p = builder_production_at(builder, p - 1)->previous)
        if (production_is_productive(finish, p - 1))
            return true;
    return false;
}

/* Symbols refer to older and to newer ones, so passes alternate in direction. */
static bool find_productive(struct finish *finish)
{
    struct grammar_builder *builder = finish->builder;
    uint32_t count = (uint32_t)builder->symbols.count;
    for (symbol_id s = 0; s < count; s++) {
        const struct builder_symbol *symbol = builder_symbol_at(builder, s);
        finish->productive[s] =
            symbol->kind == SYMBOL_TOKEN ||
            (symbol->kind == SYMBOL_TERMINAL && terminal_is_productive(builder, symbol->value));
    }
    bool changed = true;
    for (uint32_t pass = 0; changed; pass++) {
        changed = false;
        if (!grammar_builder_spend(builder,
                                   count + builder->symbol_list.count + builder->choices.count))
            return false;
        for (uint32_t i = 0; i < count; i++) {
            symbol_id s = pass % 2 == 0 ? i : count - 1 - i;
            enum symbol_kind kind = builder_symbol_at(builder, s)->kind;
            if (finish->productive[s] || kind == SYMBOL_TERMINAL || kind == SYMBOL_TOKEN ||
                !symbol_is_productive(finish, s))
                continue;
            finish->productive[s] = true;
            changed = true;
        }
    }
    return !grammar_builder_failed(builder);
}

/* --- Symbols that the root reaches -------------------------------------------------------------- */

static void reach(struct finish *finish, symbol_id symbol)
{
    if (finish->number[symbol] != GRAMMAR_NONE)
        return;
    uint32_t *counts[] = {&finish->header.terminal_count, NULL, &finish->header.rule_count,
                          &finish->header.repeat_count, &finish->header.group_count};
    uint32_t *count = counts[builder_symbol_at(finish->builder, symbol)->kind];
    finish->number[symbol] = count == NULL ? 0 : (*count)++;
    finish->order[finish->reached++] = symbol;
}

static void reach_group(struct finish *finish, symbol_id symbol)
{
    const struct builder_group *group = builder_group_of(finish->builder, symbol);
    const struct grammar_group_choice *choices = builder_group_choices(finish->builder, group);
    reach(finish, group->group.separator);
    if (is_useful(finish, group->group.extra))
        reach(finish, group->group.extra);
    for (uint32_t i = 0; i < group->group.choice_count; i++) {
        if (!finish->productive[choices[i].unit])
            continue;
        reach(finish, choices[i].unit);
        finish->header.choice_count++;
    }
}

static bool reach_all(struct finish *finish, symbol_id root)
{
    struct grammar_builder *builder = finish->builder;
    reach(finish, root);
    for (uint32_t at = 0; at < finish->reached; at++) {
        const struct builder_symbol *here = builder_symbol_at(builder, finish->order[at]);
        if (!grammar_builder_spend(builder, 1))
            return false;
        if (here->kind == SYMBOL_TERMINAL && !liveness_is_known(builder, here->value))
            return builder_fail(builder, GRAMMAR_OUT_OF_FUEL);
        if (here->kind == SYMBOL_REPEAT)
            reach(finish, here->value);
        if (here->kind == SYMBOL_GROUP)
            reach_group(finish, finish->order[at]);
        for (uint32_t p = here->kind == SYMBOL_RULE ? here->value : 0; p != 0;) {
            const struct builder_production *production = builder_production_at(builder, p - 1);
            const uint32_t *list = builder_symbol_list(builder) + production->first;
            p = production->previous;
            if (!production_is_productive(
                    finish, (uint32_t)(production - builder_production_at(builder, 0))))
                continue;
            for (uint32_t i = 0; i < production->count; i++)
                reach(finish, list[i]);
            finish->header.production_count++;
            finish->header.slot_count += production->count + 1;
        }
    }
    return true;
}

/* Marks the nodes below a terminal. A node is marked after its parent, and children have smaller
 * ids, so one pass from the top finds all. */
static bool number_nodes(struct finish *finish)
{
    struct grammar_builder *builder = finish->builder;
    struct regex_store *store = &builder->store;
    if (!grammar_builder_spend(builder, store->node_count))
        return false;
    finish->node_number = malloc(store->node_count * sizeof(uint32_t));
    finish->set_number = malloc(((size_t)store->set_count + 1) * sizeof(uint32_t));
    if (finish->node_number == NULL || finish->set_number == NULL)
        return builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
    for (uint32_t i = 0; i < store->node_count; i++)
        finish->node_number[i] = GRAMMAR_NONE;
    for (uint32_t i = 0; i < store->set_count; i++)
        finish->set_number[i] = GRAMMAR_NONE;
    for (uint32_t i = 0; i < finish->reached; i++) {
        const struct builder_symbol *symbol = builder_symbol_at(builder, finish->order[i]);
        if (symbol->kind == SYMBOL_TERMINAL)
            finish->node_number[symbol->value] = 0;
    }
    for (uint32_t id = store->node_count; id-- > GRAMMAR_BLOB_FIRST_NODE;) {
        const struct regex_node *node = &store->nodes[id];
        if (finish->node_number[id] == GRAMMAR_NONE || node->kind == REGEX_KIND_SET)
            continue;
        finish->node_number[node->a] = 0;
        finish->node_number[node->b] = 0;
    }
    for (uint32_t id = GRAMMAR_BLOB_FIRST_NODE; id < store->node_count; id++) {
        const struct regex_node *node = &store->nodes[id];
        if (finish->node_number[id] == GRAMMAR_NONE)
            continue;
        finish->node_number[id] = GRAMMAR_BLOB_FIRST_NODE + finish->header.node_count++;
        if (node->kind == REGEX_KIND_SET && finish->set_number[node->a] == GRAMMAR_NONE)
            finish->set_number[node->a] = finish->header.set_count++;
    }
    for (uint32_t id = 0; id < GRAMMAR_BLOB_FIRST_NODE; id++)
        finish->node_number[id] = id;
    return true;
}

/* --- Writing ------------------------------------------------------------------------------------ */

static uint32_t slot_for(const struct finish *finish, symbol_id symbol)
{
    const struct builder_symbol *here = builder_symbol_at(finish->builder, symbol);
    switch (here->kind) {
    case SYMBOL_TERMINAL: return GRAMMAR_SLOT_TERMINAL | finish->number[symbol];
    case SYMBOL_TOKEN: return GRAMMAR_SLOT_TOKEN | here->value;
    case SYMBOL_RULE: return GRAMMAR_SLOT_RULE | finish->number[symbol];
    case SYMBOL_GROUP: return GRAMMAR_SLOT_GROUP | finish->number[symbol];
    default: return GRAMMAR_SLOT_REPEAT | finish->number[symbol];
    }
}

static char *write_regexes(const struct finish *finish, char *at)
{
    const struct regex_store *store = &finish->builder->store;
    for (uint32_t i = 0; i < store->set_count; i++)
        if (finish->set_number[i] != GRAMMAR_NONE)
            memcpy(at + finish->set_number[i] * sizeof store->sets[i], &store->sets[i],
                   sizeof store->sets[i]);
    at += finish->header.set_count * sizeof store->sets[0];
    struct grammar_blob_node *nodes = (void *)at;
    for (uint32_t id = GRAMMAR_BLOB_FIRST_NODE; id < store->node_count; id++) {
        const struct regex_node *node = &store->nodes[id];
        if (finish->node_number[id] == GRAMMAR_NONE)
            continue;
        bool is_set = node->kind == REGEX_KIND_SET;
        *nodes++ = (struct grammar_blob_node){.kind = node->kind,
                                              .a = is_set ? finish->set_number[node->a]
                                                          : finish->node_number[node->a],
                                              .b = is_set ? 0 : finish->node_number[node->b],
                                              .minimum = node->minimum,
                                              .maximum = node->maximum};
    }
    return (char *)nodes;
}

static char *write_terminals(const struct finish *finish, char *at)
{
    uint32_t *terminals = (void *)at;
    struct grammar_blob_repeat *repeats = (void *)(terminals + finish->header.terminal_count);
    for (uint32_t i = 0; i < finish->reached; i++) {
        symbol_id symbol = finish->order[i];
        const struct builder_symbol *here = builder_symbol_at(finish->builder, symbol);
        if (here->kind == SYMBOL_TERMINAL)
            terminals[finish->number[symbol]] = finish->node_number[here->value];
        else if (here->kind == SYMBOL_REPEAT)
            repeats[finish->number[symbol]] = (struct grammar_blob_repeat){
                slot_for(finish, here->value), here->minimum, here->maximum};
    }
    return (char *)(repeats + finish->header.repeat_count);
}

static int compare_choices(const void *a, const void *b)
{
    const struct grammar_blob_choice *x = a, *y = b;
    return x->rule < y->rule ? -1 : x->rule > y->rule;
}

static char *write_groups(const struct finish *finish, char *at)
{
    struct grammar_blob_group *groups = (void *)at;
    struct grammar_blob_choice *next = (void *)(groups + finish->header.group_count);
    for (uint32_t i = 0; i < finish->reached; i++) {
        symbol_id symbol = finish->order[i];
        if (builder_symbol_at(finish->builder, symbol)->kind != SYMBOL_GROUP)
            continue;
        const struct builder_group *from = builder_group_of(finish->builder, symbol);
        const struct grammar_group_choice *choices = builder_group_choices(finish->builder, from);
        symbol_id extra = from->group.extra;
        struct grammar_blob_choice *first = next;
        uint32_t required = 0;
        bool with_extra = is_useful(finish, extra);
        for (uint32_t c = 0; c < from->group.choice_count; c++) {
            if (!finish->productive[choices[c].unit])
                continue;
            required += choices[c].required;
            *next++ =
                (struct grammar_blob_choice){finish->number[choices[c].unit], choices[c].required};
        }
        qsort(first, (size_t)(next - first), sizeof *first, compare_choices);
        *groups++ = (struct grammar_blob_group){.choice_count = (uint32_t)(next - first),
                                                .required_count = required,
                                                .separator = finish->number[from->group.separator],
                                                .early = with_extra ? from->group.early : 0,
                                                .extra = with_extra ? finish->number[extra]
                                                                    : GRAMMAR_NO_RULE,
                                                .minimum = from->group.minimum,
                                                .maximum = from->group.maximum};
    }
    return (char *)next;
}

static void write_rules(const struct finish *finish, char *at)
{
    const struct grammar_builder *builder = finish->builder;
    uint32_t *rules = (void *)at;
    uint32_t *productions = rules + finish->header.rule_count + 1;
    uint32_t *slots = productions + finish->header.production_count + 1;
    uint32_t rule = 0, production = 0, slot = 0;
    for (uint32_t i = 0; i < finish->reached; i++) {
        const struct builder_symbol *here = builder_symbol_at(builder, finish->order[i]);
        if (here->kind != SYMBOL_RULE)
            continue;
        rules[rule] = production;
        for (uint32_t p = here->value; p != 0;
             p = builder_production_at(builder, p - 1)->previous) {
            if (!production_is_productive(finish, p - 1))
                continue;
            const struct builder_production *from = builder_production_at(builder, p - 1);
            productions[production++] = slot;
            for (uint32_t s = 0; s < from->count; s++)
                slots[slot++] = slot_for(finish, builder_symbol_list(builder)[from->first + s]);
            slots[slot++] = GRAMMAR_SLOT_END | rule;
        }
        rule++;
    }
    rules[rule] = production;
    productions[production] = slot;
}

static bool write_blob(struct finish *finish, struct grammar_blob_out *out)
{
    struct grammar_blob_header *header = &finish->header;
    header->magic = GRAMMAR_BLOB_MAGIC;
    header->version = GRAMMAR_BLOB_VERSION;
    size_t size = grammar_blob_bytes(header);
    if (size > LIMIT_GRAMMAR_BLOB_BYTES)
        return builder_fail(finish->builder, GRAMMAR_OUT_OF_MEMORY);
    header->bytes = (uint32_t)size;
    char *bytes = malloc(size);
    if (bytes == NULL)
        return builder_fail(finish->builder, GRAMMAR_OUT_OF_MEMORY);
    memcpy(bytes, header, sizeof *header);
    char *at = write_terminals(finish, write_regexes(finish, bytes + sizeof *header));
    write_rules(finish, write_groups(finish, at));
    struct grammar_blob_view view;
    struct error_text error;
    enum result result = grammar_blob_check(bytes, size, &view, &error);
    must(result == RESULT_OK || result == RESULT_OUT_OF_MEMORY);
    *out = (struct grammar_blob_out){bytes, size};
    return true;
}

/* --- grammar_builder_finish() ------------------------------------------------------------------- */

/* Repeats of symbols that match nothing become the empty terminal, whose regex exists already. */
static void drop_empty_repeats(struct finish *finish)
{
    for (symbol_id s = 0; s < finish->builder->symbols.count; s++) {
        struct builder_symbol *symbol = builder_symbol_at(finish->builder, s);
        if (symbol->kind == SYMBOL_REPEAT && finish->productive[s] &&
            !finish->productive[symbol->value])
            *symbol = (struct builder_symbol){SYMBOL_TERMINAL, REGEX_EMPTY, 0, 0};
    }
}

static bool finish_all(struct finish *finish, symbol_id root, struct grammar_blob_out *out)
{
    struct grammar_builder *builder = finish->builder;
    if (!find_productive(finish))
        return false;
    if (!finish->productive[root])
        return builder_fail(builder, GRAMMAR_EMPTY_LANGUAGE);
    drop_empty_repeats(finish);
    return reach_all(finish, root) && number_nodes(finish) && write_blob(finish, out);
}

bool grammar_builder_finish(struct grammar_builder *builder, symbol_id root,
                            struct grammar_blob_out *out)
{
    if (root == GRAMMAR_NONE || grammar_builder_failed(builder))
        return false;
    builder_collapse_rules(builder, root);
    symbol_id top = grammar_rule(builder);
    grammar_production(builder, top, &root, 1);
    if (grammar_builder_failed(builder))
        return false;
    size_t symbols = builder->symbols.count;
    struct finish finish = {
        .builder = builder,
        .productive = calloc(symbols, sizeof(bool)),
        .number = malloc(symbols * sizeof(uint32_t)),
        .order = malloc(symbols * sizeof(uint32_t)),
    };
    bool good = finish.productive != NULL && finish.number != NULL && finish.order != NULL;
    if (good) {
        memset(finish.number, 0xFF, symbols * sizeof(uint32_t));
        good = finish_all(&finish, top, out);
    } else {
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
    }
    free(finish.productive);
    free(finish.number);
    free(finish.order);
    free(finish.node_number);
    free(finish.set_number);
    return good;
}
