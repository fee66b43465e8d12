/*
 * A schema that must not hold: a value violates it if it violates one of its keywords, so each
 * keyword adds its ways of being violated to one disjunction.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/grammar/json_number_regex.h"
#include "frontend/grammar/json_schema_parts.h"

/* Branches of a oneOf of which any two may hold. */
#define PAIRED_BRANCHES 12u

typedef void keyword_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                          const cJSON *schema, const cJSON *value);

static struct schema_choice *typed_choice(struct schema_compiler *compiler,
                                          struct schema_disjunction *ways, uint32_t types)
{
    struct schema_choice *choice = disjunction_choice(compiler, ways);
    choice_add(compiler, choice, (struct schema_atom){.kind = ATOM_TYPES, .types = types});
    return choice;
}

static void literal_way(struct schema_compiler *compiler, struct schema_disjunction *ways,
                        const cJSON *node, enum literal_kind kind)
{
    choice_add_literal(compiler, disjunction_choice(compiler, ways), node, kind);
}

static void reference_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                           const cJSON *schema, const cJSON *value)
{
    (void)value;
    const cJSON *target = schema_reference(compiler, schema);
    if (target)
        literal_way(compiler, ways, target, LITERAL_NOT_SCHEMA);
}

static void all_of_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                        const cJSON *schema, const cJSON *value)
{
    (void)schema;
    for (const cJSON *part = value->child; part; part = part->next)
        literal_way(compiler, ways, part, LITERAL_NOT_SCHEMA);
}

/* None of the branches holds. */
static void any_of_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                        const cJSON *schema, const cJSON *value)
{
    (void)schema;
    struct schema_choice *none = disjunction_choice(compiler, ways);
    for (const cJSON *part = value->child; part; part = part->next)
        choice_add_literal(compiler, none, part, LITERAL_NOT_SCHEMA);
}

static void one_of_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                        const cJSON *schema, const cJSON *value)
{
    any_of_deny(compiler, ways, schema, value);
    if ((uint32_t)cJSON_GetArraySize(value) > PAIRED_BRANCHES) {
        schema_refuse(compiler, schema, "oneOf",
                      "the opposite of so many branches is not supported");
        return;
    }
    for (const cJSON *part = value->child; part && !compiler->failed; part = part->next) {
        for (const cJSON *other = part->next; other; other = other->next) {
            struct schema_choice *two = disjunction_choice(compiler, ways);
            choice_add_literal(compiler, two, part, LITERAL_SCHEMA);
            choice_add_literal(compiler, two, other, LITERAL_SCHEMA);
        }
    }
}

static void not_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                     const cJSON *schema, const cJSON *value)
{
    (void)schema;
    literal_way(compiler, ways, value, LITERAL_SCHEMA);
}

static void if_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                    const cJSON *schema, const cJSON *value)
{
    const char *const parts[] = {"then", "else"};
    for (int i = 0; i < 2 && compiler->document.draft >= 7; i++) {
        const cJSON *part = schema_member(schema, parts[i]);
        if (!part)
            continue;
        struct schema_choice *choice = disjunction_choice(compiler, ways);
        choice_add_literal(compiler, choice, value, i ? LITERAL_NOT_SCHEMA : LITERAL_SCHEMA);
        choice_add_literal(compiler, choice, part, LITERAL_NOT_SCHEMA);
    }
}

static void type_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                      const cJSON *schema, const cJSON *value)
{
    uint32_t types;
    bool integer;
    if (!schema_types_read(compiler, schema, value, &types, &integer))
        return;
    typed_choice(compiler, ways, TYPE_ALL & ~types);
    if (integer)
        choice_add(compiler, typed_choice(compiler, ways, TYPE_NUMBER),
                   (struct schema_atom){.kind = ATOM_NUMBER,
                                        .regex = json_number_not_integer(compiler->builder)});
}

static void const_keyword_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                               const cJSON *schema, const cJSON *value)
{
    (void)schema;
    if (compiler->document.draft > 4)
        literal_way(compiler, ways, value, LITERAL_NOT_CONST);
}

static void enum_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                      const cJSON *schema, const cJSON *value)
{
    (void)schema;
    struct schema_choice *none = disjunction_choice(compiler, ways);
    for (const cJSON *part = value->child; part; part = part->next)
        choice_add_literal(compiler, none, part, LITERAL_NOT_CONST);
}

static void scalar_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                        const cJSON *schema, const cJSON *value)
{
    struct schema_atom atom;
    uint32_t type;
    if (scalar_atom(compiler, schema, value, true, &atom, &type))
        choice_add(compiler, typed_choice(compiler, ways, type), atom);
}

static void absent_way(struct schema_compiler *compiler, struct schema_choice *choice,
                       const char *name)
{
    choice_add(compiler, choice,
               (struct schema_atom){
                   .kind = ATOM_MEMBER, .name = name, .literal = {.node = compiler->never}});
}

static void required_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                          const cJSON *schema, const cJSON *value)
{
    (void)schema;
    for (const cJSON *name = value->child; name; name = name->next) {
        if (cJSON_IsString(name))
            absent_way(compiler, typed_choice(compiler, ways, TYPE_OBJECT), name->valuestring);
    }
}

/* The member is there and violates its schema. */
static void properties_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                            const cJSON *schema, const cJSON *value)
{
    (void)schema;
    for (const cJSON *member = value->child; member; member = member->next) {
        if (cJSON_IsTrue(member) || (cJSON_IsObject(member) && !member->child))
            continue;
        struct schema_choice *choice = typed_choice(compiler, ways, TYPE_OBJECT);
        choice_add(compiler, choice,
                   (struct schema_atom){.kind = ATOM_REQUIRED, .name = member->string});
        choice_add(compiler, choice,
                   (struct schema_atom){.kind = ATOM_MEMBER,
                                        .name = member->string,
                                        .literal = {.node = member, .kind = LITERAL_NOT_SCHEMA}});
    }
}

static void extra_way(struct schema_compiler *compiler, struct schema_disjunction *ways,
                      regex_id keys, const cJSON *node, enum literal_kind kind)
{
    choice_add(compiler, typed_choice(compiler, ways, TYPE_OBJECT),
               (struct schema_atom){
                   .kind = ATOM_EXTRA, .regex = keys, .literal = {.node = node, .kind = kind}});
}

static void patterns_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                          const cJSON *schema, const cJSON *value)
{
    for (const cJSON *member = value->child; member && !compiler->failed; member = member->next) {
        if (!cJSON_IsTrue(member))
            extra_way(compiler, ways,
                      schema_pattern(compiler, schema, "patternProperties", member->string), member,
                      LITERAL_NOT_SCHEMA);
    }
}

static void additional_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                            const cJSON *schema, const cJSON *value)
{
    if (!cJSON_IsTrue(value))
        extra_way(compiler, ways, schema_additional_keys(compiler, schema), value,
                  LITERAL_NOT_SCHEMA);
}

static void names_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                       const cJSON *schema, const cJSON *value)
{
    (void)schema;
    regex_id keys;
    struct schema_literal literal = {.node = value, .kind = LITERAL_NOT_SCHEMA};
    if (compiler->document.draft > 4 && schema_key_regex(compiler, literal, &keys))
        extra_way(compiler, ways, keys, compiler->never, LITERAL_NOT_SCHEMA);
}

static void dependencies_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                              const cJSON *schema, const cJSON *value)
{
    (void)schema;
    for (const cJSON *member = value->child; member; member = member->next) {
        const struct schema_atom there = {.kind = ATOM_REQUIRED, .name = member->string};
        if (cJSON_IsObject(member) || cJSON_IsBool(member)) {
            struct schema_choice *choice = typed_choice(compiler, ways, TYPE_OBJECT);
            choice_add(compiler, choice, there);
            choice_add_literal(compiler, choice, member, LITERAL_NOT_SCHEMA);
            continue;
        }
        const cJSON *need = cJSON_IsArray(member) ? member->child : member;
        for (; need && cJSON_IsString(need); need = need->next) {
            struct schema_choice *choice = typed_choice(compiler, ways, TYPE_OBJECT);
            choice_add(compiler, choice, there);
            absent_way(compiler, choice, need->valuestring);
            if (need == member)
                break;
        }
    }
}

static void element_way(struct schema_compiler *compiler, struct schema_disjunction *ways,
                        const cJSON *node, uint32_t index)
{
    struct schema_choice *choice = typed_choice(compiler, ways, TYPE_ARRAY);
    choice_add(compiler, choice, (struct schema_atom){.kind = ATOM_MIN_ITEMS, .number = index + 1});
    choice_add(compiler, choice,
               (struct schema_atom){.kind = ATOM_ELEMENT,
                                    .number = index,
                                    .literal = {.node = node, .kind = LITERAL_NOT_SCHEMA}});
}

/* Elements from `from` on must satisfy `node`, and one does not. */
static void rest_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                      const cJSON *schema, const cJSON *node, uint32_t from)
{
    if (cJSON_IsTrue(node))
        return;
    struct schema_choice *choice = typed_choice(compiler, ways, TYPE_ARRAY);
    if (cJSON_IsFalse(node)) {
        choice_add(compiler, choice,
                   (struct schema_atom){.kind = ATOM_MIN_ITEMS, .number = from + 1});
        return;
    }
    if (from > 0)
        schema_refuse(compiler, schema, node->string,
                      "its opposite after other items is not supported");
    choice_add(compiler, choice,
               (struct schema_atom){.kind = ATOM_CONTAINS,
                                    .number = 1,
                                    .maximum = GRAMMAR_UNBOUNDED,
                                    .literal = {.node = node, .kind = LITERAL_NOT_SCHEMA}});
}

static void prefix_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                        const cJSON *schema, const cJSON *value)
{
    uint32_t index = 0;
    bool old = compiler->document.draft < 2020;
    if (old && strcmp(value->string, "prefixItems") == 0)
        return;
    for (const cJSON *element = value->child; element; element = element->next)
        element_way(compiler, ways, element, index++);
    const cJSON *rest = schema_member(schema, "additionalItems");
    if (strcmp(value->string, "items") == 0 && rest)
        rest_deny(compiler, ways, schema, rest, index);
}

static void items_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                       const cJSON *schema, const cJSON *value)
{
    if (cJSON_IsArray(value)) {
        prefix_deny(compiler, ways, schema, value);
        return;
    }
    const cJSON *prefix =
        compiler->document.draft >= 2020 ? schema_member(schema, "prefixItems") : NULL;
    rest_deny(compiler, ways, schema, value,
              cJSON_IsArray(prefix) ? (uint32_t)cJSON_GetArraySize(prefix) : 0);
}

static void contains_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                          const cJSON *schema, const cJSON *value)
{
    bool counted = compiler->document.draft >= 2019 &&
                   (schema_member(schema, "minContains") || schema_member(schema, "maxContains"));
    if (compiler->document.draft == 4)
        return;
    if (counted) {
        schema_refuse(compiler, schema, "contains", "its opposite with a count is not supported");
        return;
    }
    choice_add(compiler, typed_choice(compiler, ways, TYPE_ARRAY),
               (struct schema_atom){.kind = ATOM_EVERY,
                                    .literal = {.node = value, .kind = LITERAL_NOT_SCHEMA}});
}

static void unsupported_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                             const cJSON *schema, const cJSON *value)
{
    (void)ways;
    if (!cJSON_IsFalse(value))
        schema_refuse(compiler, schema, value->string,
                      "its opposite (under not, oneOf or if) is not supported");
}

static const struct {
    const char *name;
    keyword_deny *deny;
} KEYWORDS[] = {
    {"$dynamicRef", unsupported_deny},
    {"$recursiveRef", unsupported_deny},
    {"$ref", reference_deny},
    {"additionalProperties", additional_deny},
    {"allOf", all_of_deny},
    {"anyOf", any_of_deny},
    {"const", const_keyword_deny},
    {"contains", contains_deny},
    {"dependencies", dependencies_deny},
    {"dependentRequired", dependencies_deny},
    {"dependentSchemas", dependencies_deny},
    {"disallow", unsupported_deny},
    {"divisibleBy", unsupported_deny},
    {"enum", enum_deny},
    {"exclusiveMaximum", scalar_deny},
    {"exclusiveMinimum", scalar_deny},
    {"extends", unsupported_deny},
    {"format", scalar_deny},
    {"if", if_deny},
    {"items", items_deny},
    {"maxItems", scalar_deny},
    {"maxLength", scalar_deny},
    {"maxProperties", scalar_deny},
    {"maximum", scalar_deny},
    {"minItems", scalar_deny},
    {"minLength", scalar_deny},
    {"minProperties", scalar_deny},
    {"minimum", scalar_deny},
    {"multipleOf", scalar_deny},
    {"not", not_deny},
    {"oneOf", one_of_deny},
    {"pattern", scalar_deny},
    {"patternProperties", patterns_deny},
    {"prefixItems", prefix_deny},
    {"properties", properties_deny},
    {"propertyNames", names_deny},
    {"required", required_deny},
    {"type", type_deny},
    {"unevaluatedItems", unsupported_deny},
    {"unevaluatedProperties", unsupported_deny},
    {"uniqueItems", unsupported_deny},
};

void schema_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                 const cJSON *schema)
{
    if (cJSON_IsFalse(schema))
        disjunction_choice(compiler, ways);
    if (cJSON_IsBool(schema))
        return;
    if (!cJSON_IsObject(schema)) {
        schema_refuse(compiler, schema, "", "a schema is an object or a boolean");
        return;
    }
    if (schema_is_reference_only(compiler, schema)) {
        reference_deny(compiler, ways, schema, NULL);
        return;
    }
    /* All first: the opposite of one keyword reads others. */
    for (const cJSON *member = schema->child; member && schema_spend(compiler, 8);
         member = member->next)
        schema_keyword_check(compiler, schema, member);
    for (const cJSON *member = schema->child; member && schema_spend(compiler, 8);
         member = member->next) {
        for (size_t i = 0; i < sizeof(KEYWORDS) / sizeof(KEYWORDS[0]); i++) {
            if (strcmp(member->string, KEYWORDS[i].name) == 0)
                KEYWORDS[i].deny(compiler, ways, schema, member);
        }
    }
}
