/*
 * Whether two literals have a value in common, as far as a look at types, regexes and required
 * members tells. "false" only means that it was not seen.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/grammar/json_schema_parts.h"

/* Required members are looked into to this depth. */
#define DISJOINT_DEPTH        3u
#define DISJOINT_ALTERNATIVES 64u
/* Constants compared by the look at first sight. */
#define COMPARED_VALUES 256u

static bool list_is_empty(struct schema_compiler *compiler, const struct literal_list *list,
                          uint32_t depth);

static bool regex_is_empty(struct schema_compiler *compiler, regex_id regex)
{
    bool known = false;
    return regex != GRAMMAR_NONE && grammar_regex_is_nothing(compiler->builder, regex, &known) &&
           known;
}

static bool objects_are_empty(struct schema_compiler *compiler, const struct conjunct *conjunct,
                              uint32_t depth)
{
    struct object_view view;
    if (conjunct->min_members > conjunct->max_members)
        return true;
    if (!object_view_open(compiler, &view, conjunct, false))
        return false;
    for (uint32_t i = 0; i < view.count && !compiler->failed; i++) {
        if (view.members[i].required && list_is_empty(compiler, &view.members[i].literals, depth))
            return true;
    }
    return false;
}

static bool conjunct_is_empty(struct schema_compiler *compiler, const struct conjunct *conjunct,
                              uint32_t depth)
{
    uint32_t types = conjunct->types;
    if ((types & (TYPE_NULL | TYPE_TRUE | TYPE_FALSE)) != 0)
        return false;
    if ((types & TYPE_STRING) && !regex_is_empty(compiler, conjunct->string))
        return false;
    if ((types & TYPE_NUMBER) && !regex_is_empty(compiler, conjunct->number))
        return false;
    if ((types & TYPE_ARRAY) && conjunct->min_items <= conjunct->max_items)
        return false;
    return !(types & TYPE_OBJECT) || objects_are_empty(compiler, conjunct, depth);
}

static bool list_is_empty(struct schema_compiler *compiler, const struct literal_list *list,
                          uint32_t depth)
{
    if (literal_list_is_never(compiler, list))
        return true;
    if (depth == 0 || list->count == 0)
        return false;
    const struct conjunct *conjunct = conjuncts_of(compiler, list, DISJOINT_ALTERNATIVES);
    for (; conjunct && !compiler->failed; conjunct = conjunct->next) {
        if (!conjunct_is_empty(compiler, conjunct, depth - 1))
            return false;
    }
    return !compiler->failed;
}

/* The only values that a schema allows, as an array or as one value; NULL: not seen at once. */
static const cJSON *schema_values(const cJSON *schema, bool *one)
{
    const cJSON *constant = schema_member(schema, "const");
    *one = constant != NULL;
    if (constant)
        return constant;
    const cJSON *values = schema_member(schema, "enum");
    return cJSON_IsArray(values) ? values : NULL;
}

/* Compares a few scalars; objects and arrays may always be equal. */
static bool values_differ(const cJSON *left, bool left_one, const cJSON *right, bool right_one)
{
    uint32_t compared = 0;
    const cJSON *a = left_one ? left : left->child;
    for (; a; a = left_one ? NULL : a->next) {
        const cJSON *b = right_one ? right : right->child;
        for (; b; b = right_one ? NULL : b->next) {
            bool composite = a->child || b->child || cJSON_IsArray(a) || cJSON_IsObject(a);
            if (++compared > COMPARED_VALUES || composite || cJSON_Compare(a, b, true))
                return false;
        }
    }
    return true;
}

static bool schemas_differ(const cJSON *left, const cJSON *right)
{
    bool left_one, right_one;
    const cJSON *a = schema_values(left, &left_one), *b = schema_values(right, &right_one);
    return a && b && values_differ(a, left_one, b, right_one);
}

/* A member that `left` requires has other constants in `right`. */
static bool discriminators_differ(const cJSON *left, const cJSON *right)
{
    const cJSON *required = schema_member(left, "required");
    const cJSON *own = schema_member(left, "properties");
    const cJSON *others = schema_member(right, "properties");
    const cJSON *type = schema_member(left, "type");
    uint32_t compared = 0;
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "object") != 0)
        return false;
    for (const cJSON *name = cJSON_IsArray(required) ? required->child : NULL;
         name && compared < COMPARED_VALUES; name = name->next, compared++) {
        const char *text = cJSON_GetStringValue(name);
        if (text && schemas_differ(schema_member(own, text), schema_member(others, text)))
            return true;
    }
    return false;
}

static const cJSON *reference_target(struct schema_compiler *compiler, const cJSON *schema)
{
    const char *reference = cJSON_GetStringValue(schema_member(schema, "$ref"));
    for (uint32_t i = 0; i < 4 && reference; i++) {
        schema = schema_document_follow(&compiler->document, schema, reference);
        reference = cJSON_GetStringValue(schema_member(schema, "$ref"));
    }
    return schema;
}

/* The usual cases, without a conjunct: constants, and members whose constants tell branches apart. */
static bool differ_at_sight(struct schema_compiler *compiler, const cJSON *left, const cJSON *right)
{
    if (compiler->document.draft == 4) /* knows no const */
        return false;
    left = reference_target(compiler, left);
    right = reference_target(compiler, right);
    return schema_spend(compiler, 8) &&
           (schemas_differ(left, right) || discriminators_differ(left, right) ||
            discriminators_differ(right, left));
}

bool literals_are_disjoint(struct schema_compiler *compiler, struct schema_literal left,
                           struct schema_literal right)
{
    if (compiler->failed || compiler->probing)
        return false;
    if (differ_at_sight(compiler, left.node, right.node))
        return true;
    struct literal_list list = {0};
    struct grammar_error kept = *compiler->error;
    compiler->probing = true;
    literal_list_add(compiler, &list, left);
    literal_list_add(compiler, &list, right);
    bool disjoint = list_is_empty(compiler, &list, DISJOINT_DEPTH);
    compiler->probing = false;
    /* What a probe cannot compile is not known to be disjoint; the compilation meets it again. */
    if (compiler->failed && !grammar_builder_failed(compiler->builder)) {
        compiler->failed = false;
        *compiler->error = kept;
    }
    return disjoint;
}
