/*
 * Whether two literals have a value in common, as far as a look at types, regexes and required
 * members tells. "false" only means that it was not seen.
 */
#include <cjson/cJSON.h>

#include "frontend/grammar/json_schema_parts.h"

/* Required members are looked into to this depth. */
#define DISJOINT_DEPTH        3u
#define DISJOINT_ALTERNATIVES 64u

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

bool literals_are_disjoint(struct schema_compiler *compiler, struct schema_literal left,
                           struct schema_literal right)
{
    if (compiler->failed || compiler->probing)
        return false;
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
