/*
 * References that lead back to their own schema without a member or element between: such a schema
 * has no meaning, and validators never end on it. Each schema is looked at once; the path is kept on
 * the stack, which is bounded.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/grammar/json_schema_parts.h"
#include "proto/limits.h"

enum visit_state { VISIT_NONE, VISIT_OPEN, VISIT_DONE };

static bool node_visit(struct schema_compiler *compiler, const cJSON *node, uint32_t depth);

/* The schemas that `member` applies to the same value. */
static bool member_visit(struct schema_compiler *compiler, const cJSON *schema, const cJSON *member,
                         uint32_t depth)
{
    static const char *const ONE[] = {"not", "if", "then", "else"};
    static const char *const MANY[] = {"allOf", "anyOf", "oneOf", "dependentSchemas",
                                       "dependencies"};
    if (strcmp(member->string, "$ref") == 0 && cJSON_IsString(member)) {
        const cJSON *target = schema_reference(compiler, schema);
        return target && node_visit(compiler, target, depth);
    }
    for (size_t i = 0; i < sizeof(ONE) / sizeof(ONE[0]); i++) {
        if (strcmp(member->string, ONE[i]) == 0)
            return node_visit(compiler, member, depth);
    }
    for (size_t i = 0; i < sizeof(MANY) / sizeof(MANY[0]); i++) {
        if (strcmp(member->string, MANY[i]) != 0)
            continue;
        for (const cJSON *part = member->child; part; part = part->next) {
            if (!node_visit(compiler, part, depth))
                return false;
        }
    }
    return true;
}

static bool node_visit(struct schema_compiler *compiler, const cJSON *node, uint32_t depth)
{
    if (!cJSON_IsObject(node))
        return true;
    if (depth > LIMIT_JSON_DEPTH)
        return schema_refuse(compiler, node, "",
                             "its references and applicators are nested too deeply");
    uint32_t *state = node_table_find(compiler, &compiler->visits, node);
    if (!state || *state == VISIT_DONE)
        return state != NULL;
    if (*state == VISIT_OPEN)
        return schema_refuse(compiler, node, "", "its references form a loop");
    *state = VISIT_OPEN;
    bool only_reference = schema_is_reference_only(compiler, node);
    for (const cJSON *member = node->child; member && schema_spend(compiler, 4);
         member = member->next) {
        if (only_reference && strcmp(member->string, "$ref") != 0)
            continue;
        if (!member_visit(compiler, node, member, depth + 1))
            return false;
    }
    state = node_table_find(compiler, &compiler->visits, node); /* the table may have grown */
    if (state)
        *state = VISIT_DONE;
    return !compiler->failed;
}

bool schema_check_loops(struct schema_compiler *compiler, const cJSON *schema)
{
    return node_visit(compiler, schema, 0);
}
