/*
 * The members of an object as all clauses of a conjunct see them. Each clause (a schema's properties,
 * patternProperties and additionalProperties, or a constant object) says something about each name:
 * its own schema for it, those of the patterns that match it, or else its additionalProperties. Names
 * that no clause mentions fall into classes by the set of patterns they match; classes without a
 * name are found by the emptiness of their regex and left out.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/grammar/json_schema_parts.h"
#include "frontend/grammar/json_text_regex.h"
#include "proto/limits.h"
#include "proto/utf8.h"

#define PATTERNS_MAXIMUM 32u
#define CLASSES_MAXIMUM  64u

struct key_pattern {
    uint32_t clause;
    regex_id regex;
    const cJSON *schema;
};

/* Names are split by one pattern after the other. */
struct class_split {
    struct schema_compiler *compiler;
    struct object_view *view;
    const struct key_pattern *patterns;
    uint32_t pattern_count;
    bool matched[PATTERNS_MAXIMUM];
};

static uint32_t name_hash(const char *name, uint32_t buckets)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return (hash ^ hash >> 15) & (buckets - 1);
}

uint32_t object_view_find(struct schema_compiler *compiler, const struct object_view *view,
                          const char *name)
{
    uint32_t index =
        view->bucket_count ? view->buckets[name_hash(name, view->bucket_count)] : GRAMMAR_NONE;
    while (index != GRAMMAR_NONE && schema_spend(compiler, 1)) {
        if (strcmp(view->members[index].name, name) == 0)
            return index;
        index = view->members[index].next;
    }
    return GRAMMAR_NONE;
}

static bool view_grow(struct schema_compiler *compiler, struct object_view *view)
{
    uint32_t capacity = view->capacity ? view->capacity * 2 : 16;
    struct object_member *members = schema_take(compiler, capacity * sizeof(*members));
    uint32_t *buckets = schema_take(compiler, capacity * sizeof(*buckets));
    if (!members || !buckets || !schema_spend(compiler, capacity))
        return false;
    if (view->count > 0)
        memcpy(members, view->members, view->count * sizeof(*members));
    memset(buckets, 0xFF, capacity * sizeof(*buckets));
    for (uint32_t i = 0; i < view->count; i++) {
        uint32_t *bucket = &buckets[name_hash(members[i].name, capacity)];
        members[i].next = *bucket;
        *bucket = i;
    }
    view->members = members;
    view->buckets = buckets;
    view->capacity = view->bucket_count = capacity;
    return true;
}

/* Finds or adds. NULL: failed. Names that are not UTF-8 would be spelled alike. */
static struct object_member *view_member(struct schema_compiler *compiler, struct object_view *view,
                                         const char *name)
{
    uint32_t found = object_view_find(compiler, view, name);
    if (found != GRAMMAR_NONE)
        return &view->members[found];
    if (!utf8_is_valid(name, strlen(name)))
        schema_refuse(compiler, compiler->document.root, "properties", "a name is not valid UTF-8");
    if (compiler->failed || (view->count == view->capacity && !view_grow(compiler, view)))
        return NULL;
    uint32_t *bucket = &view->buckets[name_hash(name, view->bucket_count)];
    struct object_member *member = &view->members[view->count];
    *member = (struct object_member){.name = name, .clause = GRAMMAR_NONE, .next = *bucket};
    *bucket = view->count++;
    return member;
}

bool schema_text_matches(struct schema_compiler *compiler, regex_id regex, const char *text)
{
    bool known = false;
    regex_id both =
        grammar_regex_and(compiler->builder, regex, json_text_literal(compiler->builder, text));
    bool nothing = grammar_regex_is_nothing(compiler->builder, both, &known);
    if (!known)
        schema_refuse(compiler, compiler->document.root, "pattern",
                      "it needs too much work to match it with a name");
    return !nothing;
}

static const cJSON *clause_properties(const struct schema_atom *clause)
{
    if (clause->literal.kind == LITERAL_CONST)
        return clause->literal.node;
    return schema_member(clause->literal.node, "properties");
}

/* Pass 1: every name that a clause or a fact mentions, in order; required ones after the declared. */
static void names_collect(struct schema_compiler *compiler, struct object_view *view)
{
    for (uint32_t i = 0; i < view->fact_count; i++) {
        const struct schema_atom *fact = view->facts[i];
        const cJSON *properties = fact->kind == ATOM_MEMBERS ? clause_properties(fact) : NULL;
        for (const cJSON *member = properties ? properties->child : NULL;
             member && !compiler->failed; member = member->next) {
            struct object_member *named = view_member(compiler, view, member->string);
            if (named)
                named->declared = true;
        }
    }
    for (uint32_t i = 0; i < view->fact_count && !compiler->failed; i++) {
        const struct schema_atom *fact = view->facts[i];
        if (fact->kind != ATOM_REQUIRED && fact->kind != ATOM_MEMBER)
            continue;
        struct object_member *named = view_member(compiler, view, fact->name);
        if (named && fact->kind == ATOM_REQUIRED)
            named->required = true;
        if (named && fact->kind == ATOM_MEMBER)
            literal_list_add(compiler, &named->literals, fact->literal);
    }
}

static struct schema_literal never_literal(const struct schema_compiler *compiler)
{
    return (struct schema_literal){.node = compiler->never, .kind = LITERAL_SCHEMA};
}

/* What a clause says of names that it does not mention. */
static void additional_add(struct schema_compiler *compiler, const struct schema_atom *clause,
                           struct literal_list *literals)
{
    if (clause->literal.kind == LITERAL_CONST) {
        literal_list_add(compiler, literals, never_literal(compiler));
        return;
    }
    const cJSON *additional = schema_member(clause->literal.node, "additionalProperties");
    if (additional)
        literal_list_add(compiler, literals,
                         (struct schema_literal){.node = additional, .kind = LITERAL_SCHEMA});
}

/* Pass 2: what a clause says of each name. */
static void clause_apply(struct schema_compiler *compiler, struct object_view *view,
                         const struct schema_atom *clause, uint32_t number,
                         const struct key_pattern *patterns, uint32_t pattern_count)
{
    const cJSON *properties = clause_properties(clause);
    for (const cJSON *member = properties ? properties->child : NULL; member && !compiler->failed;
         member = member->next) {
        uint32_t found = object_view_find(compiler, view, member->string);
        if (found == GRAMMAR_NONE)
            return;
        enum literal_kind kind = clause->literal.kind;
        view->members[found].clause = number;
        literal_list_add(compiler, &view->members[found].literals,
                         (struct schema_literal){.node = member, .kind = kind});
    }
    for (uint32_t i = 0; i < view->count && schema_spend(compiler, 1); i++) {
        struct object_member *member = &view->members[i];
        bool mentioned = member->clause == number;
        for (uint32_t p = 0; p < pattern_count; p++) {
            if (patterns[p].clause != number ||
                !schema_text_matches(compiler, patterns[p].regex, member->name))
                continue;
            mentioned = true;
            literal_list_add(
                compiler, &member->literals,
                (struct schema_literal){.node = patterns[p].schema, .kind = LITERAL_SCHEMA});
        }
        if (!mentioned)
            additional_add(compiler, clause, &member->literals);
    }
}

static uint32_t patterns_collect(struct schema_compiler *compiler, const struct object_view *view,
                                 struct key_pattern patterns[PATTERNS_MAXIMUM])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view->fact_count; i++) {
        const struct schema_atom *fact = view->facts[i];
        if (fact->kind != ATOM_MEMBERS || fact->literal.kind == LITERAL_CONST)
            continue;
        const cJSON *map = schema_member(fact->literal.node, "patternProperties");
        for (const cJSON *pattern = map ? map->child : NULL; pattern && !compiler->failed;
             pattern = pattern->next) {
            if (count == PATTERNS_MAXIMUM) {
                schema_refuse(compiler, map, "patternProperties", "too many patterns");
                return 0;
            }
            patterns[count++] = (struct key_pattern){
                .clause = i,
                .regex = schema_pattern(compiler, fact->literal.node, "patternProperties",
                                        pattern->string),
                .schema = pattern,
            };
        }
    }
    return count;
}

/* The class of names in `regex`, if its values may exist. */
static void class_add(struct class_split *split, regex_id regex)
{
    struct schema_compiler *compiler = split->compiler;
    struct object_view *view = split->view;
    struct literal_list literals = {0};
    for (uint32_t i = 0; i < view->fact_count; i++) {
        if (view->facts[i]->kind != ATOM_MEMBERS)
            continue;
        bool mentioned = false;
        for (uint32_t p = 0; p < split->pattern_count; p++) {
            if (split->patterns[p].clause != i || !split->matched[p])
                continue;
            mentioned = true;
            literal_list_add(
                compiler, &literals,
                (struct schema_literal){.node = split->patterns[p].schema, .kind = LITERAL_SCHEMA});
        }
        if (!mentioned)
            additional_add(compiler, view->facts[i], &literals);
    }
    if (literal_list_is_never(compiler, &literals))
        return;
    if (view->class_count == CLASSES_MAXIMUM) {
        schema_refuse(compiler, compiler->document.root, "patternProperties",
                      "its patterns overlap in too many ways");
        return;
    }
    view->classes[view->class_count++] =
        (struct object_class){.regex = regex, .literals = literals};
}

/* Splits from pattern `at` on; the recursion is as deep as there are patterns. */
static void class_split_at(struct class_split *split, regex_id regex, uint32_t at)
{
    struct grammar_builder *builder = split->compiler->builder;
    bool known;
    if (!schema_spend(split->compiler, 16))
        return;
    /* Unknown is taken for a class with names: at worst a rule that no text matches. */
    if (grammar_regex_is_nothing(builder, regex, &known) && known)
        return;
    if (at == split->pattern_count) {
        class_add(split, regex);
        return;
    }
    regex_id pattern = split->patterns[at].regex;
    split->matched[at] = true;
    class_split_at(split, grammar_regex_and(builder, regex, pattern), at + 1);
    split->matched[at] = false;
    class_split_at(split, grammar_regex_and(builder, regex, grammar_regex_not(builder, pattern)),
                   at + 1);
}

/* All keys but the named ones. */
static regex_id unnamed_keys(struct schema_compiler *compiler, const struct object_view *view)
{
    struct grammar_builder *builder = compiler->builder;
    regex_id all = view->keys == GRAMMAR_NONE ? compiler->any_text : view->keys;
    regex_id *names = schema_take(compiler, (view->count + 1) * sizeof(*names));
    if (!names || view->count == 0)
        return all;
    for (uint32_t i = 0; i < view->count; i++)
        names[i] = json_text_literal(builder, view->members[i].name);
    regex_id named = grammar_regex_or_of(builder, names, view->count);
    return grammar_regex_and(builder, all, grammar_regex_not(builder, named));
}

/* With closed_objects: nothing else where a schema lists properties and says nothing of others. */
static bool extras_are_closed(const struct schema_compiler *compiler,
                              const struct object_view *view)
{
    bool listed = false;
    for (uint32_t i = 0; i < view->fact_count; i++) {
        const struct schema_atom *fact = view->facts[i];
        if (fact->kind != ATOM_MEMBERS || fact->literal.kind == LITERAL_CONST)
            continue;
        listed = listed || schema_member(fact->literal.node, "properties");
        if (schema_member(fact->literal.node, "additionalProperties") ||
            schema_member(fact->literal.node, "patternProperties"))
            return false;
    }
    return compiler->options->closed_objects && listed;
}

/* Finite propertyNames: its names are members like declared ones. */
static void enumerated_names(struct schema_compiler *compiler, struct object_view *view,
                             const cJSON *names)
{
    const cJSON *values = schema_member(names, "enum");
    for (const cJSON *value = cJSON_IsArray(values) ? values->child : NULL;
         value && !compiler->failed; value = value->next) {
        if (cJSON_IsString(value))
            view_member(compiler, view, value->valuestring);
    }
}

bool object_view_open(struct schema_compiler *compiler, struct object_view *view,
                      const struct conjunct *conjunct, bool with_classes)
{
    struct key_pattern patterns[PATTERNS_MAXIMUM];
    *view = (struct object_view){.keys = GRAMMAR_NONE};
    view->fact_count = conjunct_facts(compiler, conjunct, &view->facts);
    names_collect(compiler, view);
    if (view->count > LIMIT_SCHEMA_MEMBERS)
        return schema_refuse(compiler, compiler->document.root, "properties",
                             "an object has too many members");
    for (uint32_t i = 0; i < view->fact_count; i++) {
        const struct schema_atom *fact = view->facts[i];
        if (fact->kind != ATOM_KEYS)
            continue;
        enumerated_names(compiler, view, fact->literal.node);
        view->keys = view->keys == GRAMMAR_NONE
                         ? fact->regex
                         : grammar_regex_and(compiler->builder, view->keys, fact->regex);
    }
    uint32_t pattern_count = patterns_collect(compiler, view, patterns);
    for (uint32_t i = 0; i < view->fact_count && !compiler->failed; i++) {
        if (view->facts[i]->kind == ATOM_MEMBERS)
            clause_apply(compiler, view, view->facts[i], i, patterns, pattern_count);
    }
    for (uint32_t i = 0; view->keys != GRAMMAR_NONE && i < view->count && !compiler->failed; i++) {
        if (!schema_text_matches(compiler, view->keys, view->members[i].name))
            literal_list_add(compiler, &view->members[i].literals, never_literal(compiler));
    }
    if (!with_classes || compiler->failed || extras_are_closed(compiler, view))
        return !compiler->failed;
    view->classes = schema_take(compiler, CLASSES_MAXIMUM * sizeof(*view->classes));
    struct class_split split = {
        .compiler = compiler, .view = view, .patterns = patterns, .pattern_count = pattern_count};
    if (view->classes)
        class_split_at(&split, unnamed_keys(compiler, view), 0);
    return !compiler->failed;
}

regex_id schema_additional_keys(struct schema_compiler *compiler, const cJSON *schema)
{
    struct object_view view = {.keys = GRAMMAR_NONE};
    struct grammar_builder *builder = compiler->builder;
    const cJSON *properties = schema_member(schema, "properties");
    for (const cJSON *member = properties ? properties->child : NULL; member && !compiler->failed;
         member = member->next)
        view_member(compiler, &view, member->string);
    regex_id keys = unnamed_keys(compiler, &view);
    const cJSON *patterns = schema_member(schema, "patternProperties");
    for (const cJSON *member = patterns ? patterns->child : NULL; member && !compiler->failed;
         member = member->next) {
        regex_id regex = schema_pattern(compiler, schema, "patternProperties", member->string);
        keys = grammar_regex_and(builder, keys, grammar_regex_not(builder, regex));
    }
    return keys;
}
