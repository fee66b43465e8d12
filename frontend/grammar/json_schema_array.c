/*
 * The rules of an array: one rule a place for the elements that are constrained by their place, and
 * a counted repetition for those after them. With contains, rules count the elements that satisfy it;
 * with uniqueItems over a few values, rules keep the set of values used.
 *   next(i, c)  -> element i  after(i + 1, c)  |  element i that counts  after(i + 1, c + 1)
 *   after(i, c) -> "," next(i, c)  |  "]" if i and c suffice
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/grammar/json_schema_parts.h"

#define ARRAY_RULES 16384u
/* 2^n sets of used values. */
#define UNIQUE_VALUES 10u

struct array_view {
    const struct schema_atom **facts;
    uint32_t fact_count;
    uint32_t places; /* elements from here on have the same literals */
    const struct schema_atom *contains, *unique;
    uint32_t minimum, maximum;
};

struct array_writer {
    struct schema_compiler *compiler;
    struct array_view *view;
    uint32_t places, counts; /* rules: [places + 1][counts + 1]; the last place repeats */
    symbol_id *next, *after;
};

/* What a clause says of places: a list of schemas, then one for the rest. */
static void clause_lists(const struct schema_compiler *compiler, const struct schema_atom *clause,
                         const cJSON **list, const cJSON **rest)
{
    const cJSON *schema = clause->literal.node;
    if (clause->literal.kind == LITERAL_CONST) {
        *list = schema;
        *rest = compiler->never;
        return;
    }
    const cJSON *items = schema_member(schema, "items");
    *list = compiler->document.draft >= 2020 ? schema_member(schema, "prefixItems") : NULL;
    *rest = items;
    if (cJSON_IsArray(items)) { /* the form before 2020-12 */
        *list = items;
        *rest = schema_member(schema, "additionalItems");
    }
}

static void element_literals(struct schema_compiler *compiler, const struct array_view *view,
                             uint32_t index, struct literal_list *literals)
{
    for (uint32_t i = 0; i < view->fact_count && !compiler->failed; i++) {
        const struct schema_atom *fact = view->facts[i];
        if (fact->kind == ATOM_EVERY || (fact->kind == ATOM_ELEMENT && fact->number == index))
            literal_list_add(compiler, literals, fact->literal);
        if (fact->kind != ATOM_ELEMENTS)
            continue;
        const cJSON *list, *rest;
        clause_lists(compiler, fact, &list, &rest);
        const cJSON *own = cJSON_GetArrayItem(list, (int)index);
        if (own)
            literal_list_add(compiler, literals,
                             (struct schema_literal){.node = own, .kind = fact->literal.kind});
        else if (rest)
            literal_list_add(compiler, literals,
                             (struct schema_literal){.node = rest, .kind = LITERAL_SCHEMA});
    }
}

static bool view_open(struct schema_compiler *compiler, struct array_view *view,
                      const struct conjunct *conjunct)
{
    *view = (struct array_view){.minimum = conjunct->min_items, .maximum = conjunct->max_items};
    view->fact_count = conjunct_facts(compiler, conjunct, &view->facts);
    for (uint32_t i = 0; i < view->fact_count; i++) {
        const struct schema_atom *fact = view->facts[i];
        const cJSON *list = NULL, *rest;
        uint32_t places = fact->kind == ATOM_ELEMENT ? fact->number + 1 : 0;
        if (fact->kind == ATOM_ELEMENTS)
            clause_lists(compiler, fact, &list, &rest);
        if (list)
            places = (uint32_t)cJSON_GetArraySize(list);
        if (places > view->places)
            view->places = places;
        if (fact->kind == ATOM_UNIQUE)
            view->unique = fact;
        /* "at least 0" of anything says nothing. */
        if (fact->kind == ATOM_CONTAINS &&
            (fact->number > 0 || fact->maximum != GRAMMAR_UNBOUNDED)) {
            if (view->contains)
                return schema_refuse(compiler, fact->literal.node, "contains",
                                     "two of them at one place are not supported");
            view->contains = fact;
        }
    }
    return !compiler->failed;
}

/* Elements that can not exist end the array before them. */
static void view_shorten(struct schema_compiler *compiler, struct array_view *view)
{
    for (uint32_t i = 0; i <= view->places && i < view->maximum && !compiler->failed; i++) {
        struct literal_list literals = {0};
        element_literals(compiler, view, i, &literals);
        if (literal_list_is_never(compiler, &literals))
            view->maximum = i;
    }
}

static symbol_id element_symbol(struct schema_compiler *compiler, const struct array_view *view,
                                uint32_t index, enum literal_kind kind)
{
    struct literal_list literals = {0};
    element_literals(compiler, view, index, &literals);
    if (view->contains)
        literal_list_add(compiler, &literals,
                         (struct schema_literal){
                             .node = view->contains->literal.node,
                             .kind = kind,
                         });
    return schema_state_symbol(compiler, &literals);
}

static symbol_id place_rule(struct array_writer *writer, symbol_id *table, uint32_t index,
                            uint32_t count)
{
    symbol_id *symbol = &table[(size_t)index * (writer->counts + 1) + count];
    if (*symbol == GRAMMAR_NONE)
        *symbol = grammar_rule(writer->compiler->builder);
    return *symbol;
}

static void produce(struct schema_compiler *compiler, symbol_id rule, const symbol_id *symbols,
                    size_t count)
{
    if (schema_spend(compiler, 4))
        grammar_production(compiler->builder, rule, symbols, count);
}

/* The opposite of the literal of contains. */
static enum literal_kind contains_kind(const struct array_view *view, bool satisfied)
{
    bool schema = view->contains->literal.kind == LITERAL_SCHEMA;
    return schema == satisfied ? LITERAL_SCHEMA : LITERAL_NOT_SCHEMA;
}

/* Element `index` when `count` before it count; the last place stands for all after it. */
static void place_write(struct array_writer *writer, uint32_t index, uint32_t count)
{
    struct schema_compiler *compiler = writer->compiler;
    const struct array_view *view = writer->view;
    symbol_id after = place_rule(writer, writer->after, index, count);
    symbol_id next = place_rule(writer, writer->next, index, count);
    const struct schema_atom *contains = view->contains;
    if (index >= view->minimum && (!contains || count >= contains->number))
        produce(compiler, after, &compiler->array_close, 1);
    if (index >= view->maximum)
        return;
    symbol_id pair[2] = {compiler->comma, next};
    produce(compiler, after, pair, 2);
    uint32_t later = index < writer->places ? index + 1 : index;
    bool limited = contains && contains->maximum != GRAMMAR_UNBOUNDED;
    /* While the count has no limit, an element need not be known not to count. */
    symbol_id plain = !contains || !limited
                          ? GRAMMAR_NONE
                          : element_symbol(compiler, view, index, contains_kind(view, false));
    if (!limited) {
        struct literal_list literals = {0};
        element_literals(compiler, view, index, &literals);
        plain = schema_state_symbol(compiler, &literals);
    }
    symbol_id with[2] = {plain, place_rule(writer, writer->after, later, count)};
    produce(compiler, next, with, 2);
    if (!contains || count == writer->counts)
        return;
    symbol_id counted[2] = {element_symbol(compiler, view, index, contains_kind(view, true)),
                            place_rule(writer, writer->after, later, count + 1)};
    produce(compiler, next, counted, 2);
}

/* Places one by one up to the bounds: for contains, whose count must be kept. */
static void counted_write(struct schema_compiler *compiler, symbol_id rule, struct array_view *view)
{
    struct array_writer writer = {.compiler = compiler, .view = view};
    const struct schema_atom *contains = view->contains;
    bool limited = contains->maximum != GRAMMAR_UNBOUNDED;
    writer.counts = limited ? contains->maximum : contains->number;
    bool open = view->maximum == GRAMMAR_UNBOUNDED;
    writer.places = view->places > view->minimum ? view->places : view->minimum;
    if (!open)
        writer.places = view->maximum;
    uint64_t rules = ((uint64_t)writer.places + 1) * ((uint64_t)writer.counts + 1);
    if (limited && contains->maximum < contains->number)
        return;
    if (rules > ARRAY_RULES) {
        schema_refuse(compiler, contains->literal.node, "contains",
                      "counting so many elements is not supported");
        return;
    }
    writer.next = schema_take(compiler, rules * sizeof(symbol_id));
    writer.after = schema_take(compiler, rules * sizeof(symbol_id));
    if (!writer.next || !writer.after)
        return;
    memset(writer.next, 0xFF, rules * sizeof(symbol_id));
    memset(writer.after, 0xFF, rules * sizeof(symbol_id));
    for (uint32_t i = 0; i <= writer.places && !compiler->failed; i++) {
        for (uint32_t c = 0; c <= writer.counts && !compiler->failed; c++)
            place_write(&writer, i, c);
    }
    symbol_id symbols[2] = {compiler->array_open, place_rule(&writer, writer.next, 0, 0)};
    produce(compiler, rule, symbols, 2);
    if (view->minimum == 0 && contains->number == 0) {
        symbols[1] = compiler->array_empty;
        produce(compiler, rule, symbols, 2);
    }
}

/* The enum behind references, if the values of the elements come from a short one. */
static const cJSON *element_enum(struct schema_compiler *compiler,
                                 const struct literal_list *literals)
{
    for (uint32_t i = 0; i < literals->count; i++) {
        const cJSON *values = literals->items[i].kind == LITERAL_SCHEMA
                                  ? schema_member(literals->items[i].node, "enum")
                                  : NULL;
        if (cJSON_IsArray(values) && (uint32_t)cJSON_GetArraySize(values) <= UNIQUE_VALUES &&
            schema_spend(compiler, 16))
            return values;
    }
    return NULL;
}

/* Values that an enum repeats would count as two. */
static bool values_differ(const cJSON *values)
{
    for (const cJSON *value = values->child; value; value = value->next) {
        for (const cJSON *other = value->next; other; other = other->next) {
            if (cJSON_Compare(value, other, true))
                return false;
        }
    }
    return true;
}

/* The rule after the values of `used`: one of the others, or the end. */
static void unique_set_write(struct schema_compiler *compiler, const struct array_view *view,
                             const symbol_id *values, uint32_t count, const symbol_id *sets,
                             uint32_t used)
{
    uint32_t size = (uint32_t)__builtin_popcount(used);
    if (size >= view->minimum && size > 0)
        produce(compiler, sets[used], &compiler->array_close, 1);
    for (uint32_t v = 0; v < count && size < view->maximum; v++) {
        symbol_id symbols[3] = {compiler->comma, values[v], sets[used | 1u << v]};
        if (used & 1u << v)
            continue;
        produce(compiler, sets[used], symbols + (size == 0), size == 0 ? 2 : 3);
    }
}

static void unique_write(struct schema_compiler *compiler, symbol_id rule,
                         const struct array_view *view)
{
    struct literal_list literals = {0};
    element_literals(compiler, view, 0, &literals);
    const cJSON *values = element_enum(compiler, &literals);
    if (!values || view->places > 0 || view->contains || !values_differ(values)) {
        schema_refuse(compiler, view->unique->literal.node, "uniqueItems",
                      "it is supported for the elements of an enum of up to 10 values");
        return;
    }
    symbol_id elements[UNIQUE_VALUES];
    uint32_t count = 0;
    for (const cJSON *value = values->child; value; value = value->next) {
        struct literal_list with = {0};
        for (uint32_t i = 0; i < literals.count; i++)
            literal_list_add(compiler, &with, literals.items[i]);
        literal_list_add(compiler, &with,
                         (struct schema_literal){.node = value, .kind = LITERAL_CONST});
        elements[count++] = schema_state_symbol(compiler, &with);
    }
    symbol_id *sets = schema_take(compiler, sizeof(*sets) << count);
    if (!sets)
        return;
    for (uint32_t used = 0; used < 1u << count; used++)
        sets[used] = grammar_rule(compiler->builder);
    for (uint32_t used = 0; used < 1u << count; used++)
        unique_set_write(compiler, view, elements, count, sets, used);
    symbol_id symbols[2] = {compiler->array_open, sets[0]};
    produce(compiler, rule, symbols, 2);
    symbols[1] = compiler->array_empty;
    if (view->minimum == 0)
        produce(compiler, rule, symbols, 2);
}

/* Elements from `places` on, and the end. */
static void rest_write(struct schema_compiler *compiler, symbol_id rule,
                       const struct array_view *view, uint32_t from)
{
    struct literal_list literals = {0};
    uint32_t least = view->minimum > from ? view->minimum - from : 0;
    bool open = view->maximum == GRAMMAR_UNBOUNDED;
    element_literals(compiler, view, from, &literals);
    symbol_id element = schema_state_symbol(compiler, &literals);
    symbol_id symbols[2] = {grammar_separated(compiler->builder, element, compiler->comma,
                                              least ? least : 1,
                                              open ? GRAMMAR_UNBOUNDED : view->maximum - from),
                            compiler->array_close};
    produce(compiler, rule, symbols, 2);
}

/* Places one by one, then the rest. */
static void plain_write(struct schema_compiler *compiler, symbol_id rule,
                        const struct array_view *view)
{
    symbol_id next = grammar_rule(compiler->builder);
    symbol_id symbols[2] = {compiler->array_open, next};
    produce(compiler, rule, symbols, 2);
    symbols[1] = compiler->array_empty;
    if (view->minimum == 0)
        produce(compiler, rule, symbols, 2);
    for (uint32_t i = 0; i < view->maximum && !compiler->failed; i++) {
        if (i == view->places) {
            rest_write(compiler, next, view, i);
            return;
        }
        struct literal_list literals = {0};
        element_literals(compiler, view, i, &literals);
        symbol_id after = grammar_rule(compiler->builder);
        symbol_id place[2] = {schema_state_symbol(compiler, &literals), after};
        produce(compiler, next, place, 2);
        if (i + 1 >= view->minimum)
            produce(compiler, after, &compiler->array_close, 1);
        next = grammar_rule(compiler->builder);
        symbol_id more[2] = {compiler->comma, next};
        produce(compiler, after, more, 2);
    }
}

void array_write(struct schema_compiler *compiler, symbol_id rule, const struct conjunct *conjunct)
{
    struct array_view view;
    if (!view_open(compiler, &view, conjunct))
        return;
    view_shorten(compiler, &view);
    if (compiler->failed || view.minimum > view.maximum)
        return;
    if (view.unique && view.maximum > 1)
        unique_write(compiler, rule, &view);
    else if (view.contains)
        counted_write(compiler, rule, &view);
    else
        plain_write(compiler, rule, &view);
}
