/*
 * What the files of the schema compiler share.
 *
 * A literal is a schema or a constant, or the opposite of one. A state is a list of literals that a
 * value must satisfy together; it has one rule in the grammar. To write the rule, the literals are
 * taken apart into atoms (of which a conjunct keeps the sum, type by type) and into disjunctions;
 * disjunctions are multiplied out until only conjuncts are left, the alternatives of the rule. Their
 * members and elements are states again. Recursion in a schema is thus recursion of rules, and the
 * stack grows only with the nesting of references and applicators at one place.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_JSON_SCHEMA_PARTS_H
#define SHOAL_FRONTEND_GRAMMAR_JSON_SCHEMA_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"
#include "frontend/grammar/json_schema_compile.h"
#include "frontend/grammar/json_schema_document.h"

struct cJSON;

enum schema_types {
    TYPE_NULL = 1,
    TYPE_TRUE = 2,
    TYPE_FALSE = 4,
    TYPE_NUMBER = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ALL = 127,
};

enum literal_kind { LITERAL_SCHEMA, LITERAL_NOT_SCHEMA, LITERAL_CONST, LITERAL_NOT_CONST };

struct schema_literal {
    const struct cJSON *node;
    enum literal_kind kind;
};

/* Without repetitions, in order of appearance. */
struct literal_list {
    struct schema_literal *items;
    uint32_t count, capacity;
};

enum atom_kind {
    ATOM_LITERAL,     /* literal */
    ATOM_TYPES,       /* only these types */
    ATOM_STRING,      /* a string has content in regex */
    ATOM_NUMBER,      /* a number is spelled in regex */
    ATOM_MIN_ITEMS,   /* an array has at least number elements */
    ATOM_MAX_ITEMS,   /* at most */
    ATOM_MIN_MEMBERS, /* an object has at least number members */
    ATOM_MAX_MEMBERS, /* at most */
    /* From here on a conjunct keeps them as a list of facts. */
    ATOM_KEYS,     /* an object's keys have content in regex */
    ATOM_MEMBERS,  /* literal: properties, patternProperties, additionalProperties, or an object */
    ATOM_REQUIRED, /* an object has the member name */
    ATOM_MEMBER,   /* the member name, if there, satisfies literal */
    ATOM_EXTRA,    /* an object has a member with a key in regex that satisfies literal */
    ATOM_ELEMENTS, /* literal: prefixItems, items, additionalItems, or an array */
    ATOM_ELEMENT,  /* the element at index number, if there, satisfies literal */
    ATOM_EVERY,    /* every element satisfies literal */
    ATOM_CONTAINS, /* number to maximum elements satisfy literal */
    ATOM_UNIQUE,   /* no two elements are equal; literal.node: the schema, for messages */
};

struct schema_atom {
    enum atom_kind kind;
    uint32_t types;
    uint32_t number, maximum;
    regex_id regex;
    const char *name;
    struct schema_literal literal;
};

/* A list of atoms, the last one first; shared between conjuncts and never changed. */
struct atom_list {
    struct schema_atom atom;
    const struct atom_list *before;
};

struct schema_choice {
    const struct atom_list *atoms;
    uint32_t types; /* the types of its ATOM_TYPES; others cannot satisfy it */
};

/* At least one choice must hold. */
struct schema_disjunction {
    struct schema_choice *choices;
    uint32_t count, capacity;
    const struct schema_disjunction *next;
};

struct conjunct {
    uint32_t types;
    regex_id string, number; /* GRAMMAR_NONE: any */
    uint32_t min_items, max_items, min_members, max_members;
    const struct atom_list *facts;
    const struct atom_list *literals; /* applied so far */
    const struct schema_disjunction *disjunctions;
    const struct conjunct *next; /* in lists of alternatives */
};

struct schema_arena_chunk;

/* Memory that is freed as a whole at the end. */
struct schema_arena {
    struct schema_arena_chunk *chunks;
    size_t used, capacity, total;
};

struct schema_state {
    struct literal_list literals;
    symbol_id symbol;
    uint32_t next; /* with the same hash */
};

/* Numbers kept for nodes of the schema, by address. */
struct node_number {
    const void *node;
    uint32_t number;
};

struct node_table {
    struct node_number *entries;
    uint32_t count, capacity; /* a power of two */
};

struct schema_compiler {
    struct grammar_builder *builder;
    const struct json_schema_options *options;
    struct grammar_error *error;
    struct schema_document document;
    struct schema_arena arena;
    bool failed;
    bool probing;   /* literals_are_disjoint() is at work: its failures are not the compilation's */
    uint32_t depth; /* of applicators and references at one place */
    struct schema_state *states;
    uint32_t state_count, state_capacity;
    uint32_t *buckets;
    struct cJSON *never; /* the schema false */
    regex_id character, any_text, any_number, plain_number, integer;
    regex_id blanks;
    struct node_table visits;  /* schemas that were looked at for loops */
    struct node_table units;   /* 1 + the unit of a key's and a value's symbol */
    struct node_table regexes; /* 1 + the regex of an assertion that must hold */
    symbol_id comma, object_open, object_close, object_empty, array_open, array_close, array_empty;
};

/* --- json_schema_state.c ----------------------------------------------------------------------- */

/* NULL: failed. */
void *schema_take(struct schema_compiler *compiler, size_t bytes);
/* Records the first failure: `node` is the schema, `keyword` its member or "". Returns false. */
bool schema_refuse(struct schema_compiler *compiler, const struct cJSON *node, const char *keyword,
                   const char *reason);
bool schema_spend(struct schema_compiler *compiler, uint32_t steps);
/* Leaves out what says nothing (true, {}) and what is there already, and follows bare references. */
void literal_list_add(struct schema_compiler *compiler, struct literal_list *list,
                      struct schema_literal literal);
/* The number of a node, 0 at first; valid until the next call. NULL: failed. */
uint32_t *node_table_find(struct schema_compiler *compiler, struct node_table *table,
                          const void *node);
/* The rule of a state; it is written later. */
symbol_id schema_state_symbol(struct schema_compiler *compiler, const struct literal_list *list);
bool literal_list_is_never(const struct schema_compiler *compiler, const struct literal_list *list);

/* --- json_schema_conjunct.c -------------------------------------------------------------------- */

void conjunct_init(struct conjunct *conjunct);
/* The conjunct becomes the intersection with the atom. */
void conjunct_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                    const struct schema_atom *atom);
void conjunct_restrict(struct conjunct *conjunct, uint32_t types);
struct schema_disjunction *disjunction_new(struct schema_compiler *compiler);
struct schema_choice *disjunction_choice(struct schema_compiler *compiler,
                                         struct schema_disjunction *disjunction);
void choice_add(struct schema_compiler *compiler, struct schema_choice *choice,
                struct schema_atom atom);
void choice_add_literal(struct schema_compiler *compiler, struct schema_choice *choice,
                        const struct cJSON *node, enum literal_kind kind);
/* The conjunct gets the disjunction; a single choice is applied at once. */
void conjunct_branch(struct schema_compiler *compiler, struct conjunct *conjunct,
                     struct schema_disjunction *disjunction);
/* Multiplies out; NULL: no alternative, or failed. */
const struct conjunct *conjuncts_of(struct schema_compiler *compiler,
                                    const struct literal_list *list, uint32_t maximum);
/* Facts in order of appearance: writes them to *out. */
uint32_t conjunct_facts(struct schema_compiler *compiler, const struct conjunct *conjunct,
                        const struct schema_atom ***out);

/* --- json_schema_loops.c ----------------------------------------------------------------------- */

/* False, with an error: the schema refers to itself without a member or element between. */
bool schema_check_loops(struct schema_compiler *compiler, const struct cJSON *schema);

/* --- json_schema_disjoint.c -------------------------------------------------------------------- */

/* True only if no value satisfies both. */
bool literals_are_disjoint(struct schema_compiler *compiler, struct schema_literal left,
                           struct schema_literal right);

/* --- json_schema_apply.c, json_schema_deny.c, json_schema_const.c ------------------------------- */

void schema_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                  const struct cJSON *schema);
/* Adds the ways in which a value can violate the schema. */
void schema_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                 const struct cJSON *schema);
void const_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                 const struct cJSON *value);
void const_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                const struct cJSON *value);
void enum_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                const struct cJSON *schema, const struct cJSON *values);
/* The schema that its $ref names; NULL: refused. */
const struct cJSON *schema_reference(struct schema_compiler *compiler, const struct cJSON *schema);
/* Whether a member is a known keyword; refuses values of the wrong form and wrong letter case. */
bool schema_keyword_check(struct schema_compiler *compiler, const struct cJSON *schema,
                          const struct cJSON *value);
/* In drafts to 7 a $ref hides its siblings. */
bool schema_is_reference_only(const struct schema_compiler *compiler, const struct cJSON *schema);

/* --- json_schema_scalar.c, json_schema_format.c ------------------------------------------------- */

/* An assertion about strings, numbers or sizes as one atom about values of `type`, or its opposite.
 * False: refused, or it says nothing. */
bool scalar_atom(struct schema_compiler *compiler, const struct cJSON *schema,
                 const struct cJSON *value, bool deny, struct schema_atom *atom, uint32_t *type);
/* The types of a "type" value; `integer`: also integers as a part of numbers. */
bool schema_types_read(struct schema_compiler *compiler, const struct cJSON *schema,
                       const struct cJSON *value, uint32_t *types, bool *integer);
regex_id schema_pattern(struct schema_compiler *compiler, const struct cJSON *schema,
                        const char *keyword, const char *pattern);
/* GRAMMAR_NONE with *known false: an unknown format, which asserts nothing. */
regex_id schema_format(struct schema_compiler *compiler, const struct cJSON *schema,
                       const char *name, bool *known);
/* The language of strings of a state: for propertyNames. False: refused. */
bool schema_key_regex(struct schema_compiler *compiler, struct schema_literal literal,
                      regex_id *regex);

/* --- json_schema_object.c, json_schema_array.c -------------------------------------------------- */

void object_write(struct schema_compiler *compiler, symbol_id rule,
                  const struct conjunct *conjunct);
void array_write(struct schema_compiler *compiler, symbol_id rule, const struct conjunct *conjunct);

/* --- json_schema_members.c ---------------------------------------------------------------------- */

/* A member with a name, and what it must satisfy. */
struct object_member {
    const char *name;
    struct literal_list literals;
    bool required, declared;
    uint32_t clause; /* the last clause that declared it */
    uint32_t next;   /* with the same hash */
};

/* Members with other names: keys in `regex`. */
struct object_class {
    regex_id regex;
    struct literal_list literals;
};

struct object_view {
    struct object_member *members;
    uint32_t count, capacity;
    uint32_t *buckets, bucket_count;
    struct object_class *classes;
    uint32_t class_count;
    regex_id keys; /* GRAMMAR_NONE: any */
    const struct schema_atom **facts;
    uint32_t fact_count;
};

/* Names and classes of a conjunct's objects. False: failed. */
bool object_view_open(struct schema_compiler *compiler, struct object_view *view,
                      const struct conjunct *conjunct, bool with_classes);
/* GRAMMAR_NONE: none */
uint32_t object_view_find(struct schema_compiler *compiler, const struct object_view *view,
                          const char *name);
/* Whether the text is in the regex over spelled text. */
bool schema_text_matches(struct schema_compiler *compiler, regex_id regex, const char *text);
/* Keys of `schema` that additionalProperties is about. */
regex_id schema_additional_keys(struct schema_compiler *compiler, const struct cJSON *schema);

/* --- json_schema_strict.c ----------------------------------------------------------------------- */

bool schema_check_strict(struct schema_compiler *compiler, const struct cJSON *schema);

#endif
