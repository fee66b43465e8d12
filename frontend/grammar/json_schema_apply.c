/*
 * A schema that must hold: each keyword as atoms and disjunctions, in the order of the schema's
 * text. oneOf takes, for each branch, the opposite of those other branches that could hold with it.
 * Keywords that no draft knows are annotations by the specification; known assertions that are not
 * compiled are refused, and so are names that differ from a known one only by case.
 */
#include <cjson/cJSON.h>
#include <string.h>
#include <strings.h>

#include "frontend/grammar/json_schema_parts.h"
#include "proto/limits.h"

typedef void keyword_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                           const cJSON *schema, const cJSON *value);

static void atom_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                       struct schema_atom atom)
{
    conjunct_apply(compiler, conjunct, &atom);
}

static void literal_put(struct schema_compiler *compiler, struct conjunct *conjunct,
                        const cJSON *node, enum literal_kind kind)
{
    atom_apply(compiler, conjunct,
               (struct schema_atom){.kind = ATOM_LITERAL, .literal = {.node = node, .kind = kind}});
}

static bool is_schema(const cJSON *node)
{
    return cJSON_IsObject(node) || cJSON_IsBool(node);
}

bool schema_is_reference_only(const struct schema_compiler *compiler, const cJSON *schema)
{
    return compiler->document.draft <= 7 && cJSON_IsString(schema_member(schema, "$ref"));
}

const cJSON *schema_reference(struct schema_compiler *compiler, const cJSON *schema)
{
    const cJSON *value = schema_member(schema, "$ref");
    const cJSON *target = NULL;
    if (cJSON_IsString(value) && schema_spend(compiler, 32))
        target = schema_document_follow(&compiler->document, schema, value->valuestring);
    if (!target)
        schema_refuse(compiler, schema, "$ref", "it names nothing in this schema");
    return target;
}

static void reference_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                            const cJSON *schema, const cJSON *value)
{
    (void)value;
    const cJSON *target = schema_reference(compiler, schema);
    if (target)
        literal_put(compiler, conjunct, target, LITERAL_SCHEMA);
}

static void all_of_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                         const cJSON *schema, const cJSON *value)
{
    (void)schema;
    for (const cJSON *part = value->child; part && !compiler->failed; part = part->next)
        literal_put(compiler, conjunct, part, LITERAL_SCHEMA);
}

static void any_of_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                         const cJSON *schema, const cJSON *value)
{
    (void)schema;
    struct schema_disjunction *disjunction = disjunction_new(compiler);
    for (const cJSON *part = value->child; part && !compiler->failed; part = part->next)
        choice_add_literal(compiler, disjunction_choice(compiler, disjunction), part,
                           LITERAL_SCHEMA);
    conjunct_branch(compiler, conjunct, disjunction);
}

static void one_of_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                         const cJSON *schema, const cJSON *value)
{
    (void)schema;
    struct schema_disjunction *disjunction = disjunction_new(compiler);
    for (const cJSON *part = value->child; part && !compiler->failed; part = part->next) {
        struct schema_choice *choice = disjunction_choice(compiler, disjunction);
        struct schema_literal literal = {.node = part, .kind = LITERAL_SCHEMA};
        choice_add_literal(compiler, choice, part, LITERAL_SCHEMA);
        for (const cJSON *other = value->child; other && !compiler->failed; other = other->next) {
            struct schema_literal rival = {.node = other, .kind = LITERAL_SCHEMA};
            if (other != part && !literals_are_disjoint(compiler, literal, rival))
                choice_add_literal(compiler, choice, other, LITERAL_NOT_SCHEMA);
        }
    }
    conjunct_branch(compiler, conjunct, disjunction);
}

static void not_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                      const cJSON *schema, const cJSON *value)
{
    (void)schema;
    literal_put(compiler, conjunct, value, LITERAL_NOT_SCHEMA);
}

static void if_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                     const cJSON *schema, const cJSON *value)
{
    const cJSON *then = schema_member(schema, "then");
    const cJSON *otherwise = schema_member(schema, "else");
    if (compiler->document.draft < 7 || (!then && !otherwise))
        return;
    struct schema_disjunction *disjunction = disjunction_new(compiler);
    struct schema_choice *holds = disjunction_choice(compiler, disjunction);
    choice_add_literal(compiler, holds, value, LITERAL_SCHEMA);
    if (then)
        choice_add_literal(compiler, holds, then, LITERAL_SCHEMA);
    struct schema_choice *fails = disjunction_choice(compiler, disjunction);
    choice_add_literal(compiler, fails, value, LITERAL_NOT_SCHEMA);
    if (otherwise)
        choice_add_literal(compiler, fails, otherwise, LITERAL_SCHEMA);
    conjunct_branch(compiler, conjunct, disjunction);
}

static void type_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                       const cJSON *schema, const cJSON *value)
{
    uint32_t types;
    bool integer;
    if (!schema_types_read(compiler, schema, value, &types, &integer))
        return;
    conjunct_restrict(conjunct, types);
    if (integer)
        atom_apply(compiler, conjunct,
                   (struct schema_atom){.kind = ATOM_NUMBER, .regex = compiler->integer});
}

static void const_keyword_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                                const cJSON *schema, const cJSON *value)
{
    (void)schema;
    if (compiler->document.draft > 4)
        const_apply(compiler, conjunct, value);
}

static void enum_keyword_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                               const cJSON *schema, const cJSON *value)
{
    enum_apply(compiler, conjunct, schema, value);
}

static void scalar_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                         const cJSON *schema, const cJSON *value)
{
    struct schema_atom atom;
    uint32_t type;
    if (scalar_atom(compiler, schema, value, false, &atom, &type))
        conjunct_apply(compiler, conjunct, &atom);
}

static void required_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                           const cJSON *schema, const cJSON *value)
{
    (void)schema;
    for (const cJSON *name = value->child; name && !compiler->failed; name = name->next)
        atom_apply(compiler, conjunct,
                   (struct schema_atom){.kind = ATOM_REQUIRED, .name = name->valuestring});
}

/* The first of the three keywords that are read together puts the clause. */
static bool is_first_of(const cJSON *schema, const cJSON *value, const char *const names[3])
{
    for (const cJSON *member = schema->child; member != value; member = member->next) {
        for (size_t i = 0; i < 3; i++) {
            if (strcmp(member->string, names[i]) == 0)
                return false;
        }
    }
    return true;
}

static void members_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                          const cJSON *schema, const cJSON *value)
{
    static const char *const NAMES[] = {"properties", "patternProperties", "additionalProperties"};
    if (is_first_of(schema, value, NAMES))
        atom_apply(compiler, conjunct,
                   (struct schema_atom){.kind = ATOM_MEMBERS,
                                        .literal = {.node = schema, .kind = LITERAL_SCHEMA}});
}

static void elements_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                           const cJSON *schema, const cJSON *value)
{
    static const char *const NAMES[] = {"prefixItems", "items", "additionalItems"};
    if (compiler->document.draft < 2020 && strcmp(value->string, "prefixItems") == 0)
        return;
    if (is_first_of(schema, value, NAMES))
        atom_apply(compiler, conjunct,
                   (struct schema_atom){.kind = ATOM_ELEMENTS,
                                        .literal = {.node = schema, .kind = LITERAL_SCHEMA}});
}

static void names_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                        const cJSON *schema, const cJSON *value)
{
    (void)schema;
    if (compiler->document.draft == 4)
        return;
    struct schema_atom atom = {.kind = ATOM_KEYS,
                               .literal = {.node = value, .kind = LITERAL_SCHEMA}};
    if (schema_key_regex(compiler, atom.literal, &atom.regex))
        conjunct_apply(compiler, conjunct, &atom);
}

static uint32_t count_of(const cJSON *schema, const char *name, uint32_t usual)
{
    const cJSON *value = schema_member(schema, name);
    if (!cJSON_IsNumber(value) || value->valuedouble < 0)
        return usual;
    return value->valuedouble >= 1e9 ? GRAMMAR_UNBOUNDED : (uint32_t)value->valuedouble;
}

static void contains_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                           const cJSON *schema, const cJSON *value)
{
    if (compiler->document.draft == 4)
        return;
    bool counted = compiler->document.draft >= 2019;
    atom_apply(
        compiler, conjunct,
        (struct schema_atom){.kind = ATOM_CONTAINS,
                             .number = counted ? count_of(schema, "minContains", 1) : 1,
                             .maximum = counted ? count_of(schema, "maxContains", GRAMMAR_UNBOUNDED)
                                                : GRAMMAR_UNBOUNDED,
                             .literal = {.node = value, .kind = LITERAL_SCHEMA}});
}

static void unique_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                         const cJSON *schema, const cJSON *value)
{
    if (cJSON_IsTrue(value))
        atom_apply(compiler, conjunct,
                   (struct schema_atom){.kind = ATOM_UNIQUE, .literal = {.node = schema}});
}

/* If the member `name` is there, then what `value` says; otherwise it is not there. */
static void dependency_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                             const cJSON *value)
{
    struct schema_disjunction *ways = disjunction_new(compiler);
    choice_add(compiler, disjunction_choice(compiler, ways),
               (struct schema_atom){.kind = ATOM_TYPES, .types = TYPE_ALL & ~TYPE_OBJECT});
    const char *name = value->string;
    struct schema_choice *absent = disjunction_choice(compiler, ways);
    choice_add(compiler, absent, (struct schema_atom){.kind = ATOM_TYPES, .types = TYPE_OBJECT});
    choice_add(compiler, absent,
               (struct schema_atom){.kind = ATOM_MEMBER,
                                    .name = name,
                                    .literal = {.node = compiler->never, .kind = LITERAL_SCHEMA}});
    struct schema_choice *there = disjunction_choice(compiler, ways);
    choice_add(compiler, there, (struct schema_atom){.kind = ATOM_TYPES, .types = TYPE_OBJECT});
    choice_add(compiler, there, (struct schema_atom){.kind = ATOM_REQUIRED, .name = name});
    if (cJSON_IsString(value)) /* drafts 3 */
        choice_add(compiler, there,
                   (struct schema_atom){.kind = ATOM_REQUIRED, .name = value->valuestring});
    else if (is_schema(value))
        choice_add_literal(compiler, there, value, LITERAL_SCHEMA);
    for (const cJSON *need = cJSON_IsArray(value) ? value->child : NULL; need; need = need->next)
        choice_add(compiler, there,
                   (struct schema_atom){.kind = ATOM_REQUIRED, .name = need->valuestring});
    conjunct_branch(compiler, conjunct, ways);
}

static void dependencies_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                               const cJSON *schema, const cJSON *value)
{
    (void)schema;
    for (const cJSON *member = value->child; member && !compiler->failed; member = member->next) {
        /* Needs nothing. */
        if (cJSON_IsTrue(member) ||
            (!member->child && !cJSON_IsBool(member) && !cJSON_IsString(member)))
            continue;
        dependency_apply(compiler, conjunct, member);
    }
}

static void unsupported_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                              const cJSON *schema, const cJSON *value)
{
    (void)conjunct;
    schema_refuse(compiler, schema, value->string, "this keyword is not supported");
}

static void nothing_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                          const cJSON *schema, const cJSON *value)
{
    (void)compiler, (void)conjunct, (void)schema, (void)value;
}

/* What a keyword's value must be; those of one number or text check it themselves. */
enum keyword_shape {
    SHAPE_ANY,
    SHAPE_BOOLEAN,
    SHAPE_STRING,
    SHAPE_SCHEMA,
    SHAPE_ARRAY,
    SHAPE_LIST, /* of schemas */
    SHAPE_LIST_OR_SCHEMA,
    SHAPE_MAP,   /* of names to schemas */
    SHAPE_NAMES, /* a list of texts */
    SHAPE_NEEDS, /* of names to schemas, names or one name */
};

static const struct schema_keyword {
    const char *name;
    enum keyword_shape shape;
    keyword_apply *apply;
} KEYWORDS[] = {
    {"$dynamicRef", SHAPE_ANY, unsupported_apply},
    {"$recursiveRef", SHAPE_ANY, unsupported_apply},
    {"$ref", SHAPE_STRING, reference_apply},
    {"additionalItems", SHAPE_SCHEMA, elements_apply},
    {"additionalProperties", SHAPE_SCHEMA, members_apply},
    {"allOf", SHAPE_LIST, all_of_apply},
    {"anyOf", SHAPE_LIST, any_of_apply},
    {"const", SHAPE_ANY, const_keyword_apply},
    {"contains", SHAPE_SCHEMA, contains_apply},
    {"dependencies", SHAPE_NEEDS, dependencies_apply},
    {"dependentRequired", SHAPE_NEEDS, dependencies_apply},
    {"dependentSchemas", SHAPE_NEEDS, dependencies_apply},
    {"disallow", SHAPE_ANY, unsupported_apply},
    {"divisibleBy", SHAPE_ANY, unsupported_apply},
    {"else", SHAPE_SCHEMA, nothing_apply},
    {"enum", SHAPE_ARRAY, enum_keyword_apply},
    {"exclusiveMaximum", SHAPE_ANY, scalar_apply},
    {"exclusiveMinimum", SHAPE_ANY, scalar_apply},
    {"extends", SHAPE_ANY, unsupported_apply},
    {"format", SHAPE_ANY, scalar_apply},
    {"if", SHAPE_SCHEMA, if_apply},
    {"items", SHAPE_LIST_OR_SCHEMA, elements_apply},
    {"maxContains", SHAPE_ANY, nothing_apply},
    {"maxItems", SHAPE_ANY, scalar_apply},
    {"maxLength", SHAPE_ANY, scalar_apply},
    {"maxProperties", SHAPE_ANY, scalar_apply},
    {"maximum", SHAPE_ANY, scalar_apply},
    {"minContains", SHAPE_ANY, nothing_apply},
    {"minItems", SHAPE_ANY, scalar_apply},
    {"minLength", SHAPE_ANY, scalar_apply},
    {"minProperties", SHAPE_ANY, scalar_apply},
    {"minimum", SHAPE_ANY, scalar_apply},
    {"multipleOf", SHAPE_ANY, scalar_apply},
    {"not", SHAPE_SCHEMA, not_apply},
    {"oneOf", SHAPE_LIST, one_of_apply},
    {"pattern", SHAPE_ANY, scalar_apply},
    {"patternProperties", SHAPE_MAP, members_apply},
    {"prefixItems", SHAPE_LIST, elements_apply},
    {"properties", SHAPE_MAP, members_apply},
    {"propertyNames", SHAPE_SCHEMA, names_apply},
    {"required", SHAPE_NAMES, required_apply},
    {"then", SHAPE_SCHEMA, nothing_apply},
    {"type", SHAPE_ANY, type_apply},
    {"unevaluatedItems", SHAPE_ANY, unsupported_apply},
    {"unevaluatedProperties", SHAPE_ANY, unsupported_apply},
    {"uniqueItems", SHAPE_BOOLEAN, unique_apply},
};

static bool all_children(const cJSON *value, bool (*good)(const cJSON *child))
{
    for (const cJSON *child = value->child; child; child = child->next) {
        if (!good(child))
            return false;
    }
    return true;
}

static bool is_text(const cJSON *value)
{
    return cJSON_IsString(value);
}

static bool is_need(const cJSON *value)
{
    return is_schema(value) || is_text(value) ||
           (cJSON_IsArray(value) && all_children(value, is_text));
}

static bool has_shape(const cJSON *value, enum keyword_shape shape)
{
    bool array = cJSON_IsArray(value), object = cJSON_IsObject(value);
    switch (shape) {
    case SHAPE_BOOLEAN: return cJSON_IsBool(value);
    case SHAPE_STRING: return is_text(value);
    case SHAPE_SCHEMA: return is_schema(value);
    case SHAPE_ARRAY: return array;
    case SHAPE_LIST: return array && all_children(value, is_schema);
    case SHAPE_LIST_OR_SCHEMA: return array ? all_children(value, is_schema) : is_schema(value);
    case SHAPE_MAP: return object && all_children(value, is_schema);
    case SHAPE_NAMES: return array && all_children(value, is_text);
    case SHAPE_NEEDS: return object && all_children(value, is_need);
    default: return true;
    }
}

static const struct schema_keyword *keyword_find(struct schema_compiler *compiler,
                                                 const cJSON *schema, const cJSON *value)
{
    for (size_t i = 0; i < sizeof(KEYWORDS) / sizeof(KEYWORDS[0]); i++) {
        const char *name = KEYWORDS[i].name;
        if (((value->string[0] ^ name[0]) & ~0x20) != 0 || strcasecmp(value->string, name) != 0)
            continue;
        if (strcmp(value->string, name) != 0)
            schema_refuse(compiler, schema, value->string,
                          "this is no keyword; one exists with other letter case");
        else if (!has_shape(value, KEYWORDS[i].shape))
            schema_refuse(compiler, schema, name, "its value has the wrong type");
        else
            return &KEYWORDS[i];
    }
    return NULL;
}

bool schema_keyword_check(struct schema_compiler *compiler, const cJSON *schema, const cJSON *value)
{
    return keyword_find(compiler, schema, value) != NULL;
}

void schema_apply(struct schema_compiler *compiler, struct conjunct *conjunct, const cJSON *schema)
{
    if (cJSON_IsTrue(schema))
        return;
    if (cJSON_IsFalse(schema)) {
        conjunct->types = 0;
        return;
    }
    if (!cJSON_IsObject(schema)) {
        schema_refuse(compiler, schema, "", "a schema is an object or a boolean");
        return;
    }
    if (schema_is_reference_only(compiler, schema)) {
        reference_apply(compiler, conjunct, schema, NULL);
        return;
    }
    for (const cJSON *member = schema->child; member && schema_spend(compiler, 8);
         member = member->next) {
        const struct schema_keyword *keyword = keyword_find(compiler, schema, member);
        if (keyword)
            keyword->apply(compiler, conjunct, schema, member);
    }
}
