/*
 * The rules of an object. Its members may have any order: they are a group, of which the parser
 * knows what was read. At most EARLY_MEMBERS undeclared members come before the last required one,
 * so that an answer cannot put it off for ever. Strict schemas keep the declared order: each optional
 * member may be left out, then come others. Two rules per place and count of members written:
 *   next(i, c)  -> member i  after(i + 1, c + 1)  |  next(i + 1, c) if member i is optional
 *   after(i, c) -> "," next(i, c)  |  "}" if no member from i on is required and c suffices
 * Counts are kept up to the object's bounds; without bounds, only the places are kept. An object
 * that must have some member with keys in a regex (ATOM_EXTRA) is split by which member that is;
 * if it is none with a name, it is written last, where no repetition of its key can follow.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/grammar/json_schema_parts.h"
#include "frontend/grammar/json_text_regex.h"

/* Places times counts. */
#define OBJECT_RULES 65536u
/* ATOM_EXTRAs of one conjunct. */
#define EXTRA_DEPTH 8u
/* Undeclared members before the last required one: enough for all but 1 of the 11,305 schemas of
 * MaskBench. */
#define EARLY_MEMBERS 8u

struct object_writer {
    struct schema_compiler *compiler;
    const struct object_view *view;
    uint32_t minimum, maximum;  /* maximum: GRAMMAR_UNBOUNDED if members need no counting */
    uint32_t cap;               /* counts above are kept as this one */
    uint32_t last_required;     /* 1 + index of the last required member; 0: none */
    symbol_id others, required; /* another member; one that must come last; GRAMMAR_NONE: none */
    symbol_id *next, *after;    /* [count + 1][cap + 1] */
    struct symbol_pair {
        symbol_id key, value;
    } * members;
};

static symbol_id key_terminal(struct schema_compiler *compiler, regex_id content)
{
    struct grammar_builder *builder = compiler->builder;
    regex_id quote = grammar_regex_literal(builder, "\"", 1);
    regex_id colon = grammar_regex_literal(builder, ":", 1);
    regex_id mark = grammar_regex_concat(builder, compiler->blanks,
                                         grammar_regex_concat(builder, colon, compiler->blanks));
    regex_id rest =
        grammar_regex_concat(builder, content, grammar_regex_concat(builder, quote, mark));
    return grammar_terminal(builder, grammar_regex_concat(builder, quote, rest));
}

static symbol_id *place(struct object_writer *writer, symbol_id *table, uint32_t index,
                        uint32_t count)
{
    if (count > writer->cap)
        count = writer->cap;
    return &table[(size_t)index * (writer->cap + 1) + count];
}

static symbol_id place_rule(struct object_writer *writer, symbol_id *table, uint32_t index,
                            uint32_t count)
{
    symbol_id *symbol = place(writer, table, index, count);
    if (*symbol == GRAMMAR_NONE)
        *symbol = grammar_rule(writer->compiler->builder);
    return *symbol;
}

static void produce(struct object_writer *writer, symbol_id rule, const symbol_id *symbols,
                    size_t count)
{
    if (schema_spend(writer->compiler, 4))
        grammar_production(writer->compiler->builder, rule, symbols, count);
}

/* Members after the named ones, when `count` have been written; at least one follows. */
static void others_write(struct object_writer *writer, symbol_id rule, uint32_t count)
{
    struct schema_compiler *compiler = writer->compiler;
    struct grammar_builder *builder = compiler->builder;
    bool bounded = writer->maximum != GRAMMAR_UNBOUNDED;
    uint32_t least = writer->minimum > count ? writer->minimum - count : 0;
    uint32_t most = bounded ? writer->maximum - count : GRAMMAR_UNBOUNDED;
    uint32_t last = writer->required != GRAMMAR_NONE;
    if (most < 1 || least > most)
        return;
    if (least > 1 && writer->others != GRAMMAR_NONE) {
        schema_refuse(compiler, compiler->document.root, "minProperties",
                      "so many undeclared members might repeat a name");
        return;
    }
    if (writer->others == GRAMMAR_NONE && (last == 0 || least > 1))
        return;
    symbol_id symbols[3];
    size_t used = 0;
    if (last == 0) {
        symbols[used++] = grammar_separated(builder, writer->others, compiler->comma,
                                            least > 1 ? least : 1, most);
    } else if (writer->others != GRAMMAR_NONE && most > 1) {
        symbol_id pair[2] = {writer->others, compiler->comma};
        symbols[used++] = grammar_repeat(builder, grammar_sequence(builder, pair, 2), 0,
                                         bounded ? most - 1 : GRAMMAR_UNBOUNDED);
    }
    if (last)
        symbols[used++] = writer->required;
    symbols[used++] = compiler->object_close;
    produce(writer, rule, symbols, used);
}

static bool may_close(const struct object_writer *writer, uint32_t index, uint32_t count)
{
    return index >= writer->last_required && count >= writer->minimum &&
           writer->required == GRAMMAR_NONE;
}

static void next_write(struct object_writer *writer, uint32_t index, uint32_t count)
{
    symbol_id rule = *place(writer, writer->next, index, count);
    const struct object_view *view = writer->view;
    bool full = writer->maximum != GRAMMAR_UNBOUNDED && count >= writer->maximum;
    if (rule == GRAMMAR_NONE || full)
        return;
    if (index == view->count) {
        others_write(writer, rule, count);
        return;
    }
    bool dead = literal_list_is_never(writer->compiler, &view->members[index].literals);
    if (!dead) {
        symbol_id symbols[3] = {writer->members[index].key, writer->members[index].value,
                                place_rule(writer, writer->after, index + 1, count + 1)};
        produce(writer, rule, symbols, 3);
    }
    if (!view->members[index].required) {
        symbol_id skip = place_rule(writer, writer->next, index + 1, count);
        produce(writer, rule, &skip, 1);
    }
}

static void after_write(struct object_writer *writer, uint32_t index, uint32_t count)
{
    struct schema_compiler *compiler = writer->compiler;
    symbol_id rule = *place(writer, writer->after, index, count);
    if (rule == GRAMMAR_NONE)
        return;
    if (may_close(writer, index, count))
        produce(writer, rule, &compiler->object_close, 1);
    symbol_id symbols[2] = {compiler->comma, place_rule(writer, writer->next, index, count)};
    produce(writer, rule, symbols, 2);
}

static symbol_id member_symbol(struct schema_compiler *compiler, regex_id key,
                               const struct literal_list *literals)
{
    symbol_id symbols[2] = {key_terminal(compiler, key), schema_state_symbol(compiler, literals)};
    return grammar_sequence(compiler->builder, symbols, 2);
}

/* One symbol for all classes: only keys in `keys` (GRAMMAR_NONE: all), and values satisfy `also`, or
 * NULL, too. */
static symbol_id classes_symbol(struct schema_compiler *compiler, const struct object_view *view,
                                regex_id keys, const struct schema_literal *also)
{
    symbol_id *symbols = schema_take(compiler, (view->class_count + 1) * sizeof(*symbols));
    size_t used = 0;
    for (uint32_t i = 0; symbols && i < view->class_count; i++) {
        struct literal_list literals = {0};
        regex_id key = view->classes[i].regex;
        for (uint32_t l = 0; l < view->classes[i].literals.count; l++)
            literal_list_add(compiler, &literals, view->classes[i].literals.items[l]);
        if (keys != GRAMMAR_NONE)
            key = grammar_regex_and(compiler->builder, key, keys);
        if (also)
            literal_list_add(compiler, &literals, *also);
        bool known = false;
        if (literal_list_is_never(compiler, &literals) ||
            (grammar_regex_is_nothing(compiler->builder, key, &known) && known))
            continue;
        symbols[used++] = member_symbol(compiler, key, &literals);
    }
    return used ? grammar_choice(compiler->builder, symbols, used) : GRAMMAR_NONE;
}

/* Bounds as they count: without those that the members keep by themselves. */
static bool bounds_set(struct object_writer *writer, const struct conjunct *conjunct)
{
    const struct object_view *view = writer->view;
    uint32_t required = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        required += view->members[i].required;
        if (view->members[i].required)
            writer->last_required = i + 1;
    }
    uint32_t certain = required + (writer->required != GRAMMAR_NONE);
    writer->minimum = conjunct->min_members > certain ? conjunct->min_members : 0;
    writer->maximum = conjunct->max_members;
    bool closed = writer->others == GRAMMAR_NONE;
    uint32_t most = view->count + (writer->required != GRAMMAR_NONE);
    if (closed && writer->maximum >= most)
        writer->maximum = GRAMMAR_UNBOUNDED;
    if (conjunct->min_members > conjunct->max_members || certain > conjunct->max_members)
        return false;
    if (closed && conjunct->min_members > most)
        return false;
    writer->cap = writer->maximum != GRAMMAR_UNBOUNDED ? writer->maximum : writer->minimum;
    if (writer->cap == 0)
        writer->cap = 1;
    /* A count can not exceed the named members before the others are written, which count apart. */
    if (writer->cap > view->count + 1)
        writer->cap = view->count + 1;
    return true;
}

static bool tables_take(struct object_writer *writer)
{
    struct schema_compiler *compiler = writer->compiler;
    uint32_t count = writer->view->count;
    uint64_t places = (uint64_t)(count + 1) * (writer->cap + 1);
    if (places > OBJECT_RULES)
        return schema_refuse(compiler, compiler->document.root, "maxProperties",
                             "so many members, or counts of them, are not supported");
    writer->next = schema_take(compiler, places * sizeof(symbol_id));
    writer->after = schema_take(compiler, places * sizeof(symbol_id));
    writer->members = schema_take(compiler, (count + 1) * sizeof(*writer->members));
    if (!writer->next || !writer->after || !writer->members)
        return false;
    memset(writer->next, 0xFF, places * sizeof(symbol_id));
    memset(writer->after, 0xFF, places * sizeof(symbol_id));
    for (uint32_t i = 0; i < count; i++) {
        const struct object_member *member = &writer->view->members[i];
        if (literal_list_is_never(compiler, &member->literals))
            continue;
        regex_id key = json_text_literal(compiler->builder, member->name);
        writer->members[i].key = key_terminal(compiler, key);
        writer->members[i].value = schema_state_symbol(compiler, &member->literals);
    }
    return !compiler->failed;
}

/* The symbols as one unit, the same one for equal pairs. */
static symbol_id pair_unit(struct schema_compiler *compiler, symbol_id key, symbol_id value)
{
    if (key == GRAMMAR_NONE || value == GRAMMAR_NONE)
        return GRAMMAR_NONE;
    uintptr_t name = (uintptr_t)((uint64_t)key << 32 | value) + 1;
    uint32_t *known = node_table_find(compiler, &compiler->units, (const void *)name);
    if (known == NULL)
        return GRAMMAR_NONE;
    if (*known == 0) {
        symbol_id unit = grammar_unit(compiler->builder, (const symbol_id[]){key, value}, 2);
        *known = unit == GRAMMAR_NONE ? 0 : unit + 1;
    }
    return *known - 1;
}

/* Members in any order, of objects that need not have a member of some class. */
static void unordered_write(struct object_writer *writer, symbol_id rule)
{
    struct schema_compiler *compiler = writer->compiler;
    struct grammar_builder *builder = compiler->builder;
    const struct object_view *view = writer->view;
    uint32_t required = 0, used = 0;
    struct grammar_group_choice *choices =
        schema_take(compiler, (view->count + 1) * sizeof(*choices));
    for (uint32_t i = 0; choices && i < view->count && schema_spend(compiler, 4); i++) {
        const struct object_member *member = &view->members[i];
        required += member->required;
        if (literal_list_is_never(compiler, &member->literals)) {
            if (member->required)
                return;
            continue;
        }
        regex_id key = json_text_literal(builder, member->name);
        choices[used].required = member->required;
        choices[used++].unit = pair_unit(compiler, key_terminal(compiler, key),
                                         schema_state_symbol(compiler, &member->literals));
    }
    if (compiler->failed || grammar_builder_failed(builder))
        return;
    bool open = writer->others != GRAMMAR_NONE;
    if (required == 0 && writer->minimum == 0)
        produce(writer, rule, (symbol_id[]){compiler->object_open, compiler->object_empty}, 2);
    if (open && writer->minimum > required + 1)
        schema_refuse(compiler, compiler->document.root, "minProperties",
                      "so many undeclared members might repeat a name");
    if (writer->maximum == 0 || used + open == 0)
        return;
    const struct grammar_group group = {.choices = choices,
                                        .choice_count = used,
                                        .separator = compiler->comma,
                                        .early = EARLY_MEMBERS,
                                        .extra = open ? grammar_unit(builder, &writer->others, 1)
                                                      : GRAMMAR_NONE,
                                        .minimum = writer->minimum,
                                        .maximum = writer->maximum};
    symbol_id symbols[3] = {compiler->object_open, grammar_group(builder, &group),
                            compiler->object_close};
    if (!grammar_builder_failed(builder))
        produce(writer, rule, symbols, 3);
}

/* Writes the alternative; `wanted`: a member that must be among the others, or NULL. */
static void alternative_write(struct schema_compiler *compiler, symbol_id rule,
                              const struct conjunct *conjunct, const struct schema_atom *wanted)
{
    struct object_view view;
    if (!object_view_open(compiler, &view, conjunct, true))
        return;
    struct object_writer writer = {.compiler = compiler, .view = &view, .required = GRAMMAR_NONE};
    if (wanted) {
        writer.required = classes_symbol(compiler, &view, wanted->regex, &wanted->literal);
        if (writer.required == GRAMMAR_NONE)
            return;
    }
    writer.others = classes_symbol(compiler, &view, GRAMMAR_NONE, NULL);
    if (compiler->failed || !bounds_set(&writer, conjunct))
        return;
    if (!wanted && !compiler->options->strict) {
        unordered_write(&writer, rule);
        return;
    }
    if (!tables_take(&writer))
        return;
    if (may_close(&writer, 0, 0)) {
        symbol_id symbols[2] = {compiler->object_open, compiler->object_empty};
        produce(&writer, rule, symbols, 2);
    }
    symbol_id symbols[2] = {compiler->object_open, place_rule(&writer, writer.next, 0, 0)};
    produce(&writer, rule, symbols, 2);
    /* Rules refer only to later places, and next(i, .) to be written after after(i, .). */
    for (uint32_t i = 0; i <= view.count && !compiler->failed; i++) {
        for (uint32_t c = 0; c <= writer.cap; c++) {
            after_write(&writer, i, c);
            next_write(&writer, i, c);
        }
    }
}

static void object_write_at(struct schema_compiler *compiler, symbol_id rule,
                            const struct conjunct *conjunct, uint32_t depth);

/* An ATOM_EXTRA is given to each named member in turn, then to the others. `without`: the conjunct
 * less this atom; `more`: other such atoms are left in it. */
static void extra_split(struct schema_compiler *compiler, symbol_id rule,
                        const struct conjunct *without, const struct schema_atom *wanted, bool more,
                        uint32_t depth)
{
    struct object_view view;
    if (!object_view_open(compiler, &view, without, true))
        return;
    for (uint32_t i = 0; i < view.count && !compiler->failed; i++) {
        if (literal_list_is_never(compiler, &view.members[i].literals) ||
            !schema_text_matches(compiler, wanted->regex, view.members[i].name))
            continue;
        struct conjunct with = *without;
        struct schema_atom atom = {.kind = ATOM_REQUIRED, .name = view.members[i].name};
        conjunct_apply(compiler, &with, &atom);
        atom = (struct schema_atom){
            .kind = ATOM_MEMBER, .name = view.members[i].name, .literal = wanted->literal};
        conjunct_apply(compiler, &with, &atom);
        object_write_at(compiler, rule, &with, depth + 1);
    }
    if (more && view.class_count > 0)
        schema_refuse(compiler, compiler->document.root, "additionalProperties",
                      "two opposites of it at one place are not supported");
    else if (view.class_count > 0)
        alternative_write(compiler, rule, without, wanted);
}

/* `depth`: ATOM_EXTRAs that were given to members. */
static void object_write_at(struct schema_compiler *compiler, symbol_id rule,
                            const struct conjunct *conjunct, uint32_t depth)
{
    const struct schema_atom **facts, *wanted = NULL;
    struct conjunct without = *conjunct;
    uint32_t count = conjunct_facts(compiler, conjunct, &facts), extras = 0;
    if (!(conjunct->types & TYPE_OBJECT) || !schema_spend(compiler, 16))
        return;
    without.facts = NULL;
    for (uint32_t i = 0; i < count; i++) {
        extras += facts[i]->kind == ATOM_EXTRA;
        if (facts[i]->kind == ATOM_EXTRA && !wanted)
            wanted = facts[i];
        else
            conjunct_apply(compiler, &without, facts[i]);
    }
    if (depth > EXTRA_DEPTH)
        schema_refuse(compiler, compiler->document.root, "additionalProperties",
                      "so many opposites of it at one place are not supported");
    else if (wanted)
        extra_split(compiler, rule, &without, wanted, extras > 1, depth);
    else
        alternative_write(compiler, rule, conjunct, NULL);
}

void object_write(struct schema_compiler *compiler, symbol_id rule, const struct conjunct *conjunct)
{
    object_write_at(compiler, rule, conjunct, 0);
}
