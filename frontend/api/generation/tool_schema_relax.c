/*
 * A keyword may be under a negation by a reference, not by its place only: a schema that has any
 * negating keyword anywhere, or a property of such a name, is not relaxed.
 */
#include "frontend/api/generation/tool_schema_relax.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

static const char *const negating[] = {"not", "if", "oneOf", "contains", "propertyNames"};

static bool negates(const cJSON *node, unsigned depth)
{
    const cJSON *item;
    if (depth == 0)
        return true;
    cJSON_ArrayForEach(item, node)
    {
        for (size_t i = 0; item->string && i < sizeof negating / sizeof negating[0]; i++) {
            if (strcmp(item->string, negating[i]) == 0)
                return true;
        }
        if (item->child && negates(item, depth - 1))
            return true;
    }
    return false;
}

/* Whether a member's name is the token of a JSON pointer: `length` bytes, ~0 and ~1 escaped. */
static bool token_is(const char *token, size_t length, const char *name)
{
    size_t at = 0;
    for (; *name && at < length; name++) {
        char byte = token[at++];
        if (byte == '~' && at < length)
            byte = token[at++] == '0' ? '~' : '/';
        if (byte != *name)
            return false;
    }
    return !*name && at == length;
}

static cJSON *child_find(cJSON *node, const char *token, size_t length)
{
    if (cJSON_IsArray(node))
        return length > 0 && length < 6 && strspn(token, "0123456789") >= length
                   ? cJSON_GetArrayItem(node, atoi(token))
                   : NULL;
    cJSON *item;
    cJSON_ArrayForEach(item, node)
    {
        if (item->string && token_is(token, length, item->string))
            return item;
    }
    return NULL;
}

bool tool_schema_relax(cJSON *schema, const struct grammar_error *why)
{
    cJSON *at = schema;
    const char *step = why->pointer;
    if (!why->keyword[0] || negates(schema, LIMIT_TOOL_DEPTH + 1))
        return false;
    while (at && *step == '/') {
        size_t length = strcspn(step + 1, "/");
        at = child_find(at, step + 1, length);
        step += 1 + length;
    }
    if (!at || *step || !cJSON_IsObject(at) || !cJSON_GetObjectItemCaseSensitive(at, why->keyword))
        return false;
    cJSON_DeleteItemFromObjectCaseSensitive(at, why->keyword);
    return true;
}
