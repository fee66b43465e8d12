/*
 * Conjuncts: the sum of atoms, and the multiplication of disjunctions. The disjunction with the
 * fewest choices that the conjunct's types still allow is taken first, so most are decided by the
 * types alone. No recursion: conjuncts to do are a list.
 */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/json_schema_parts.h"
#include "proto/limits.h"

void conjunct_init(struct conjunct *conjunct)
{
    *conjunct = (struct conjunct){
        .types = TYPE_ALL,
        .string = GRAMMAR_NONE,
        .number = GRAMMAR_NONE,
        .max_items = GRAMMAR_UNBOUNDED,
        .max_members = GRAMMAR_UNBOUNDED,
    };
}

void conjunct_restrict(struct conjunct *conjunct, uint32_t types)
{
    conjunct->types &= types;
}

static regex_id both(struct schema_compiler *compiler, regex_id left, regex_id right)
{
    return left == GRAMMAR_NONE ? right : grammar_regex_and(compiler->builder, left, right);
}

static const struct atom_list *atom_put(struct schema_compiler *compiler,
                                        const struct atom_list *before,
                                        const struct schema_atom *atom)
{
    struct atom_list *list = schema_take(compiler, sizeof(*list));
    if (!list)
        return before;
    *list = (struct atom_list){.atom = *atom, .before = before};
    return list;
}

static bool are_opposite(enum literal_kind left, enum literal_kind right)
{
    return (left == LITERAL_SCHEMA && right == LITERAL_NOT_SCHEMA) ||
           (left == LITERAL_NOT_SCHEMA && right == LITERAL_SCHEMA) ||
           (left == LITERAL_CONST && right == LITERAL_NOT_CONST) ||
           (left == LITERAL_NOT_CONST && right == LITERAL_CONST);
}

/* Whether the literal was applied before; with its opposite, the conjunct becomes empty. */
static bool literal_is_known(struct schema_compiler *compiler, struct conjunct *conjunct,
                             const struct schema_literal *literal)
{
    uint32_t looked = 0;
    bool known = false;
    for (const struct atom_list *at = conjunct->literals; at && !known; at = at->before, looked++) {
        if (at->atom.literal.node != literal->node)
            continue;
        known = at->atom.literal.kind == literal->kind;
        if (are_opposite(at->atom.literal.kind, literal->kind)) {
            conjunct->types = 0;
            known = true;
        }
    }
    schema_spend(compiler, 1 + looked / 4);
    return known;
}

static void literal_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                          struct schema_literal literal)
{
    bool schema = literal.kind == LITERAL_SCHEMA || literal.kind == LITERAL_NOT_SCHEMA;
    if (conjunct->types == 0 || literal_is_known(compiler, conjunct, &literal))
        return;
    if (schema && !schema_check_loops(compiler, literal.node))
        return;
    const struct schema_atom atom = {.kind = ATOM_LITERAL, .literal = literal};
    conjunct->literals = atom_put(compiler, conjunct->literals, &atom);
    if (compiler->depth >= LIMIT_JSON_DEPTH) {
        schema_refuse(compiler, literal.node, "",
                      "references or applicators form a loop, or are nested too deeply");
        return;
    }
    compiler->depth++;
    struct schema_disjunction *ways = NULL;
    switch (literal.kind) {
    case LITERAL_SCHEMA: schema_apply(compiler, conjunct, literal.node); break;
    case LITERAL_CONST: const_apply(compiler, conjunct, literal.node); break;
    default:
        ways = disjunction_new(compiler);
        if (ways && literal.kind == LITERAL_NOT_SCHEMA)
            schema_deny(compiler, ways, literal.node);
        else if (ways)
            const_deny(compiler, ways, literal.node);
        if (ways)
            conjunct_branch(compiler, conjunct, ways);
    }
    compiler->depth--;
}

static void maximum_apply(uint32_t *maximum, uint32_t number)
{
    if (number < *maximum)
        *maximum = number;
}

static void minimum_apply(uint32_t *minimum, uint32_t number)
{
    if (number > *minimum)
        *minimum = number;
}

static bool atoms_equal(const struct schema_atom *left, const struct schema_atom *right)
{
    bool names = left->name == right->name ||
                 (left->name && right->name && strcmp(left->name, right->name) == 0);
    return names && left->kind == right->kind && left->number == right->number &&
           left->maximum == right->maximum && left->regex == right->regex &&
           left->literal.node == right->literal.node && left->literal.kind == right->literal.kind;
}

static bool has_fact(const struct conjunct *conjunct, const struct schema_atom *atom)
{
    for (const struct atom_list *at = conjunct->facts; at; at = at->before) {
        if (atoms_equal(&at->atom, atom))
            return true;
    }
    return false;
}

/* Facts say each thing once. A member that is required and must not be there empties the objects. */
static void fact_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                       const struct schema_atom *atom)
{
    uint32_t looked = 0;
    if (!(conjunct->types & (atom->kind >= ATOM_ELEMENTS ? TYPE_ARRAY : TYPE_OBJECT)))
        return;
    for (const struct atom_list *at = conjunct->facts; at; at = at->before, looked++) {
        const struct schema_atom *other = &at->atom;
        if (atoms_equal(other, atom))
            return;
        bool pair = (atom->kind == ATOM_REQUIRED && other->kind == ATOM_MEMBER) ||
                    (atom->kind == ATOM_MEMBER && other->kind == ATOM_REQUIRED);
        const struct schema_atom *member = atom->kind == ATOM_MEMBER ? atom : other;
        if (pair && member->literal.node == compiler->never &&
            member->literal.kind == LITERAL_SCHEMA && strcmp(atom->name, other->name) == 0)
            conjunct->types &= ~(uint32_t)TYPE_OBJECT;
    }
    if (schema_spend(compiler, 1 + looked / 4))
        conjunct->facts = atom_put(compiler, conjunct->facts, atom);
}

/* Whether the conjunct says all of the choice already. */
static bool choice_holds(struct schema_compiler *compiler, const struct conjunct *conjunct,
                         const struct schema_choice *choice)
{
    if ((conjunct->types & ~choice->types) != 0)
        return false;
    for (const struct atom_list *at = choice->atoms; at; at = at->before) {
        const struct schema_atom *atom = &at->atom;
        bool fact = atom->kind >= ATOM_KEYS && has_fact(conjunct, atom);
        bool size = (atom->kind == ATOM_MIN_ITEMS && conjunct->min_items >= atom->number) ||
                    (atom->kind == ATOM_MAX_ITEMS && conjunct->max_items <= atom->number) ||
                    (atom->kind == ATOM_MIN_MEMBERS && conjunct->min_members >= atom->number) ||
                    (atom->kind == ATOM_MAX_MEMBERS && conjunct->max_members <= atom->number);
        bool same = (atom->kind == ATOM_STRING && conjunct->string == atom->regex) ||
                    (atom->kind == ATOM_NUMBER && conjunct->number == atom->regex);
        if (atom->kind != ATOM_TYPES && !fact && !size && !same)
            return false;
    }
    return schema_spend(compiler, 1);
}

void conjunct_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                    const struct schema_atom *atom)
{
    if (!schema_spend(compiler, 4))
        return;
    switch (atom->kind) {
    case ATOM_LITERAL: literal_apply(compiler, conjunct, atom->literal); break;
    case ATOM_TYPES: conjunct_restrict(conjunct, atom->types); break;
    case ATOM_STRING: conjunct->string = both(compiler, conjunct->string, atom->regex); break;
    case ATOM_NUMBER: conjunct->number = both(compiler, conjunct->number, atom->regex); break;
    case ATOM_MIN_ITEMS: minimum_apply(&conjunct->min_items, atom->number); break;
    case ATOM_MAX_ITEMS: maximum_apply(&conjunct->max_items, atom->number); break;
    case ATOM_MIN_MEMBERS: minimum_apply(&conjunct->min_members, atom->number); break;
    case ATOM_MAX_MEMBERS: maximum_apply(&conjunct->max_members, atom->number); break;
    default: fact_apply(compiler, conjunct, atom); break;
    }
}

struct schema_disjunction *disjunction_new(struct schema_compiler *compiler)
{
    struct schema_disjunction *disjunction = schema_take(compiler, sizeof(*disjunction));
    if (disjunction)
        *disjunction = (struct schema_disjunction){0};
    return disjunction;
}

struct schema_choice *disjunction_choice(struct schema_compiler *compiler,
                                         struct schema_disjunction *disjunction)
{
    if (!disjunction || !schema_spend(compiler, 4))
        return NULL;
    if (disjunction->count == disjunction->capacity) {
        uint32_t capacity = disjunction->capacity ? disjunction->capacity * 2 : 4;
        struct schema_choice *grown = schema_take(compiler, capacity * sizeof(*grown));
        if (!grown)
            return NULL;
        if (disjunction->count > 0)
            memcpy(grown, disjunction->choices, disjunction->count * sizeof(*grown));
        disjunction->choices = grown;
        disjunction->capacity = capacity;
    }
    struct schema_choice *choice = &disjunction->choices[disjunction->count++];
    *choice = (struct schema_choice){.types = TYPE_ALL};
    return choice;
}

void choice_add(struct schema_compiler *compiler, struct schema_choice *choice,
                struct schema_atom atom)
{
    if (!choice)
        return;
    if (atom.kind == ATOM_TYPES)
        choice->types &= atom.types;
    choice->atoms = atom_put(compiler, choice->atoms, &atom);
}

void choice_add_literal(struct schema_compiler *compiler, struct schema_choice *choice,
                        const cJSON *node, enum literal_kind kind)
{
    choice_add(compiler, choice,
               (struct schema_atom){.kind = ATOM_LITERAL, .literal = {.node = node, .kind = kind}});
}

/* Atoms are kept last first; they are applied in order of appearance. */
static void choice_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                         const struct schema_choice *choice)
{
    uint32_t count = 0;
    for (const struct atom_list *at = choice->atoms; at; at = at->before)
        count++;
    const struct schema_atom **atoms = schema_take(compiler, (count + 1) * sizeof(*atoms));
    if (!atoms)
        return;
    uint32_t place = count;
    for (const struct atom_list *at = choice->atoms; at; at = at->before)
        atoms[--place] = &at->atom;
    for (uint32_t i = 0; i < count && !compiler->failed; i++)
        conjunct_apply(compiler, conjunct, atoms[i]);
}

void conjunct_branch(struct schema_compiler *compiler, struct conjunct *conjunct,
                     struct schema_disjunction *disjunction)
{
    if (!disjunction || compiler->failed)
        return;
    if (disjunction->count == 0) {
        conjunct->types = 0;
    } else if (disjunction->count == 1) {
        choice_apply(compiler, conjunct, &disjunction->choices[0]);
    } else {
        disjunction->next = conjunct->disjunctions;
        conjunct->disjunctions = disjunction;
    }
}

/* Choices that the types allow; 0 too if one of them holds for all of the types (*holds). */
static uint32_t viable_choices(struct schema_compiler *compiler, const struct conjunct *conjunct,
                               const struct schema_disjunction *disjunction, bool *holds)
{
    uint32_t viable = 0;
    for (uint32_t i = 0; i < disjunction->count; i++) {
        const struct schema_choice *choice = &disjunction->choices[i];
        viable += (choice->types & conjunct->types) != 0;
        *holds = *holds || choice_holds(compiler, conjunct, choice);
    }
    return viable;
}

/* The disjunction to multiply out next, removed from the conjunct's list; NULL: there is none. */
static const struct schema_disjunction *disjunction_choose(struct schema_compiler *compiler,
                                                           struct conjunct *conjunct)
{
    const struct schema_disjunction *best = NULL;
    uint32_t best_count = UINT32_MAX;
    const struct schema_disjunction *list = conjunct->disjunctions;
    for (const struct schema_disjunction *at = list; at; at = at->next) {
        bool holds = false;
        if (!schema_spend(compiler, at->count))
            return NULL;
        uint32_t count = viable_choices(compiler, conjunct, at, &holds);
        /* "<=": the list is in reverse order, and the first of equal ones shall be taken. */
        if (!holds && count <= best_count) {
            best = at;
            best_count = count;
        }
    }
    /* The others, in the same order, without those that hold. */
    const struct schema_disjunction *kept = NULL;
    struct schema_disjunction *last = NULL;
    for (const struct schema_disjunction *at = list; at && !compiler->failed; at = at->next) {
        bool holds = false;
        viable_choices(compiler, conjunct, at, &holds);
        if (at == best || holds)
            continue;
        struct schema_disjunction *copy = disjunction_new(compiler);
        if (!copy)
            return NULL;
        *copy = *at;
        copy->next = NULL;
        if (last)
            last->next = copy;
        else
            kept = copy;
        last = copy;
    }
    conjunct->disjunctions = kept;
    return best;
}

static struct conjunct *conjunct_copy(struct schema_compiler *compiler,
                                      const struct conjunct *conjunct)
{
    struct conjunct *copy = schema_take(compiler, sizeof(*copy));
    if (copy)
        *copy = *conjunct;
    return copy;
}

/* Pushes what a conjunct becomes with each choice, the first choice on top. */
static struct conjunct *choices_push(struct schema_compiler *compiler, struct conjunct *stack,
                                     const struct conjunct *from,
                                     const struct schema_disjunction *disjunction)
{
    for (uint32_t i = disjunction->count; i-- > 0 && schema_spend(compiler, 16);) {
        if ((disjunction->choices[i].types & from->types) == 0)
            continue;
        struct conjunct *copy = conjunct_copy(compiler, from);
        if (!copy)
            break;
        choice_apply(compiler, copy, &disjunction->choices[i]);
        copy->next = stack;
        if (copy->types != 0)
            stack = copy;
    }
    return stack;
}

const struct conjunct *conjuncts_of(struct schema_compiler *compiler,
                                    const struct literal_list *list, uint32_t maximum)
{
    struct conjunct start;
    conjunct_init(&start);
    for (uint32_t i = 0; i < list->count && !compiler->failed; i++)
        literal_apply(compiler, &start, list->items[i]);
    struct conjunct *stack = conjunct_copy(compiler, &start);
    struct conjunct *first = NULL, *last = NULL;
    uint32_t count = 0;
    while (stack && !compiler->failed) {
        struct conjunct *top = stack;
        stack = (struct conjunct *)(uintptr_t)top->next;
        top->next = NULL;
        if (top->types == 0)
            continue;
        const struct schema_disjunction *disjunction = disjunction_choose(compiler, top);
        if (disjunction) {
            stack = choices_push(compiler, stack, top, disjunction);
            continue;
        }
        if (++count > maximum) {
            schema_refuse(compiler, list->items[0].node, "", "it has too many alternatives");
            break;
        }
        if (last)
            last->next = top;
        else
            first = top;
        last = top;
    }
    return compiler->failed ? NULL : first;
}

uint32_t conjunct_facts(struct schema_compiler *compiler, const struct conjunct *conjunct,
                        const struct schema_atom ***out)
{
    uint32_t count = 0;
    for (const struct atom_list *at = conjunct->facts; at; at = at->before)
        count++;
    *out = schema_take(compiler, (count + 1) * sizeof(**out));
    if (!*out || !schema_spend(compiler, count))
        return 0;
    uint32_t place = count;
    for (const struct atom_list *at = conjunct->facts; at; at = at->before)
        (*out)[--place] = &at->atom;
    return count;
}
