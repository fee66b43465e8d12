/*
 * The list is `{key: value, key: value}`: after an empty line, or the whole description. Values are
 * printed as Python or JavaScript print them. A value ends where `, key: ` or the final brace
 * follows, so a list that is no such list gives keys without a meaning here.
 */
#include "frontend/api/messages/schema_bounds.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/regex_compile.h"
#include "proto/limits.h"

#define KEY_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$-"

enum {
    VALUE_BYTES = 1024,
    PATTERNS = 64 /* that are tried, each with a hundredth of a grammar's fuel */
};

struct restoring {
    unsigned patterns; /* tried so far */
};

/* Length of a key that `: ` follows; 0: there is none. */
static size_t key_length(const char *text)
{
    size_t length = strspn(text, KEY_LETTERS);
    return strncmp(text + length, ": ", 2) == 0 ? length : 0;
}

/* Where the value ends: before `, key: `, or at the end of the list. */
static const char *value_end(const char *text, const char *end)
{
    for (; text < end; text++) {
        if (text[0] == ',' && text[1] == ' ' && key_length(text + 2) > 0)
            return text;
    }
    return end;
}

static bool is_bound(const char *key)
{
    static const char *const bounds[] = {"minimum",          "maximum",    "exclusiveMinimum",
                                         "exclusiveMaximum", "multipleOf", "minLength",
                                         "maxLength",        "minItems",   "maxItems"};
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        if (strcmp(key, bounds[i]) == 0)
            return true;
    }
    return false;
}

static bool is_pattern(const char *text)
{
    const struct grammar_bounds bounds = {.fuel = LIMIT_GRAMMAR_BUILD_FUEL / 100};
    const struct regex_options options = {.search = true};
    struct grammar_builder *builder = grammar_builder_open(&bounds);
    struct grammar_error error = {0};
    regex_id regex;
    bool good = builder && regex_compile(builder, text, strlen(text), &options, &regex, &error);
    if (builder)
        grammar_builder_close(builder);
    return good;
}

/* A new value, or NULL if the keyword has none that counts. */
static cJSON *value_read(struct restoring *r, const char *key, const char *text)
{
    cJSON *value = cJSON_ParseWithOpts(text, NULL, true);
    if (is_bound(key) && cJSON_IsNumber(value))
        return value;
    bool pattern = strcmp(key, "pattern") == 0;
    if (pattern && !cJSON_IsString(value)) { /* Python prints it without quotes */
        cJSON_Delete(value);
        value = cJSON_CreateString(text);
    }
    if (pattern && cJSON_IsString(value) && r->patterns++ < PATTERNS &&
        is_pattern(value->valuestring))
        return value;
    cJSON_Delete(value);
    return NULL;
}

static bool keyword_add(struct restoring *r, cJSON *schema, const char *key, const char *text)
{
    if (cJSON_GetObjectItemCaseSensitive(schema, key))
        return true;
    cJSON *value = value_read(r, key, text);
    return !value || cJSON_AddItemToObject(schema, key, value);
}

static bool description_read(struct restoring *r, cJSON *schema, const char *description)
{
    size_t length = strlen(description);
    const char *list = description[0] == '{' ? description : NULL;
    for (const char *at = description; !list && (at = strstr(at, "\n\n{")) != NULL; at += 3)
        list = key_length(at + 3) > 0 ? at + 2 : NULL;
    if (!list || description[length - 1] != '}')
        return true;
    const char *end = description + length - 1;
    bool good = true;
    for (const char *at = list + 1; good && at < end;) {
        char key[64], value[VALUE_BYTES];
        size_t letters = key_length(at);
        if (letters == 0 || letters >= sizeof key)
            return true;
        const char *from = at + letters + 2, *to = value_end(from, end);
        snprintf(key, sizeof key, "%.*s", (int)letters, at);
        int written = snprintf(value, sizeof value, "%.*s", (int)(to - from), from);
        good = written >= (int)sizeof value || keyword_add(r, schema, key, value);
        at = to + 2;
    }
    return good;
}

/* Schemas and lists and maps of schemas; depth is that of the body. */
static bool node_restore(struct restoring *r, cJSON *node)
{
    const char *description =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(node, "description"));
    cJSON *item;
    bool good = !description || !description[0] || description_read(r, node, description);
    cJSON_ArrayForEach(item, node)
    {
        bool is_data = item->string &&
                       (strcmp(item->string, "enum") == 0 || strcmp(item->string, "const") == 0 ||
                        strcmp(item->string, "default") == 0);
        good = good && (is_data || !item->child || node_restore(r, item));
    }
    return good;
}

bool schema_bounds_restore(cJSON *schema)
{
    struct restoring restoring = {0};
    return node_restore(&restoring, schema);
}
