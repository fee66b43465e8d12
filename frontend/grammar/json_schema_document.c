/*
 * One walk over the document collects identifiers and references, each with the schema resource it
 * belongs to, because "#/..." and "#name" start there. The walk does not enter data (enum, const,
 * default, examples). Identifiers are compared as they are written, after the part of the
 * resource's own identifier up to the last "/" has been put before relative ones.
 */
#include "frontend/grammar/json_schema_document.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

#define REFERENCE_BYTES 1024u

struct document_walk {
    struct schema_document *document;
    enum schema_document_result result;
};

const cJSON *schema_member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static bool mark_add(struct schema_marks *list, const cJSON *node, const cJSON *resource,
                     const char *text)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 16;
        struct schema_mark *grown = realloc(list->marks, capacity * sizeof(*grown));
        if (!grown)
            return false;
        list->marks = grown;
        list->capacity = capacity;
    }
    list->marks[list->count++] =
        (struct schema_mark){.node = node, .resource = resource, .text = text};
    return true;
}

static bool is_data(const char *name)
{
    static const char *const NAMES[] = {"enum", "const", "default", "examples", "example"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        if (strcmp(name, NAMES[i]) == 0)
            return true;
    }
    return false;
}

/* Marks of one object; returns the resource that its members belong to. */
static const cJSON *object_marks(struct document_walk *walk, const cJSON *object,
                                 const cJSON *resource)
{
    struct schema_document *document = walk->document;
    bool old_id = document->draft == 4;
    const char *id = cJSON_GetStringValue(schema_member(object, old_id ? "id" : "$id"));
    const char *anchor = cJSON_GetStringValue(schema_member(object, "$anchor"));
    const char *reference = cJSON_GetStringValue(schema_member(object, "$ref"));
    bool good = true;
    /* A reference of an old draft hides its siblings. */
    if (id && id[0] == '#' && document->draft <= 7 && !reference)
        good = mark_add(&document->anchors, object, resource, id + 1);
    else if (id && id[0] != '#' && !(reference && document->draft <= 7)) {
        resource = object;
        good = mark_add(&document->ids, object, resource, id);
    }
    if (anchor)
        good = good && mark_add(&document->anchors, object, resource, anchor);
    if (reference)
        good = good && mark_add(&document->references, object, resource, reference);
    if (!good)
        walk->result = SCHEMA_DOCUMENT_NO_MEMORY;
    return resource;
}

/* `node` is no data. */
static void node_walk(struct document_walk *walk, const cJSON *node, const cJSON *resource,
                      uint32_t depth, bool names)
{
    if (depth > LIMIT_BODY_DEPTH) {
        walk->result = SCHEMA_DOCUMENT_TOO_DEEP;
        return;
    }
    /* The members of "properties" are named by the user: none of them is a keyword. */
    if (cJSON_IsObject(node) && !names)
        resource = object_marks(walk, node, resource);
    for (const cJSON *child = node->child; child && !walk->result; child = child->next) {
        bool object = cJSON_IsObject(node);
        if (object && !names && is_data(child->string))
            continue;
        bool inner_names =
            object && !names &&
            (strcmp(child->string, "properties") == 0 ||
             strcmp(child->string, "patternProperties") == 0 ||
             strcmp(child->string, "definitions") == 0 ||
             strcmp(child->string, "dependencies") == 0 ||
             strcmp(child->string, "dependentSchemas") == 0 || strcmp(child->string, "$defs") == 0);
        if (child->child)
            node_walk(walk, child, resource, depth + 1, inner_names);
    }
}

static int mark_compare(const void *left, const void *right)
{
    const cJSON *a = ((const struct schema_mark *)left)->node;
    const cJSON *b = ((const struct schema_mark *)right)->node;
    return (uintptr_t)a < (uintptr_t)b ? -1 : a != b;
}

static uint32_t draft_read(const cJSON *root)
{
    const char *uri = cJSON_GetStringValue(schema_member(root, "$schema"));
    if (!uri)
        return 2020;
    if (strstr(uri, "draft-04") || strstr(uri, "draft-03"))
        return 4;
    if (strstr(uri, "draft-06"))
        return 6;
    if (strstr(uri, "draft-07") || strcmp(uri, "http://json-schema.org/schema#") == 0)
        return 7;
    return strstr(uri, "2019-09") ? 2019 : 2020;
}

enum schema_document_result schema_document_open(struct schema_document *document,
                                                 const cJSON *root)
{
    *document = (struct schema_document){.root = root, .draft = draft_read(root)};
    struct document_walk walk = {.document = document};
    node_walk(&walk, root, root, 0, false);
    if (document->references.count > 1)
        qsort(document->references.marks, document->references.count, sizeof(struct schema_mark),
              mark_compare);
    return walk.result;
}

void schema_document_close(struct schema_document *document)
{
    free(document->ids.marks);
    free(document->anchors.marks);
    free(document->references.marks);
    *document = (struct schema_document){0};
}

static const cJSON *reference_resource(const struct schema_document *document, const cJSON *node)
{
    struct schema_mark wanted = {.node = node};
    if (document->references.count == 0)
        return document->root;
    const struct schema_mark *mark =
        bsearch(&wanted, document->references.marks, document->references.count, sizeof(wanted),
                mark_compare);
    return mark ? mark->resource : document->root;
}

/* The identifier of a resource as it is written; NULL: none. */
static const char *resource_id(const struct schema_document *document, const cJSON *resource)
{
    for (size_t i = 0; i < document->ids.count; i++) {
        if (document->ids.marks[i].node == resource)
            return document->ids.marks[i].text;
    }
    return NULL;
}

/* Puts the directory of the base before a relative identifier; "/x" keeps only the base's host. */
static void identifier_resolve(const char *base, const char *text, char out[REFERENCE_BYTES])
{
    size_t kept = 0;
    const char *scheme = strstr(text, ":");
    bool absolute = scheme && strcspn(text, "/?#") > (size_t)(scheme - text);
    if (base && !absolute) {
        const char *host = strstr(base, "://");
        const char *slash = strrchr(base, '/');
        if (text[0] == '/' && host && strchr(host + 3, '/'))
            kept = (size_t)(strchr(host + 3, '/') - base);
        else if (text[0] != '/' && slash && (!host || slash > host + 2))
            kept = (size_t)(slash - base) + 1;
    }
    if (text[0] == '\0' && base)
        snprintf(out, REFERENCE_BYTES, "%s", base);
    else
        snprintf(out, REFERENCE_BYTES, "%.*s%s", (int)kept, base ? base : "", text);
    size_t length = strlen(out);
    if (length > 0 && out[length - 1] == '#')
        out[length - 1] = '\0';
}

/* The resource with this resolved identifier. */
static const cJSON *resource_find(const struct schema_document *document, const char *wanted)
{
    const char *root_id = resource_id(document, document->root);
    for (size_t i = 0; i < document->ids.count; i++) {
        char resolved[REFERENCE_BYTES];
        const struct schema_mark *id = &document->ids.marks[i];
        identifier_resolve(id->node == document->root ? NULL : root_id, id->text, resolved);
        if (strcmp(resolved, wanted) == 0)
            return id->node;
    }
    return NULL;
}

static int hex_digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One token of a pointer, after its '/': ~0, ~1 and %xx are undone. Returns where it ends. */
static const char *token_read(const char *at, char *out, size_t capacity)
{
    size_t used = 0;
    while (*at != '\0' && *at != '/' && used + 1 < capacity) {
        int high = at[0] == '%' ? hex_digit_value(at[1]) : -1;
        int low = high >= 0 ? hex_digit_value(at[2]) : -1;
        char c = *at++;
        if (low >= 0) {
            c = (char)(high * 16 + low);
            at += 2;
        }
        if (c == '~' && (*at == '0' || *at == '1'))
            c = *at++ == '0' ? '~' : '/';
        out[used++] = c;
    }
    out[used] = '\0';
    return at;
}

static const cJSON *pointer_follow(const cJSON *from, const char *pointer)
{
    char token[REFERENCE_BYTES];
    while (from && *pointer == '/') {
        pointer = token_read(pointer + 1, token, sizeof(token));
        if (cJSON_IsArray(from)) {
            char *end;
            unsigned long index = strtoul(token, &end, 10);
            bool number = token[0] >= '0' && token[0] <= '9' && *end == '\0';
            from = number && index < LIMIT_JSON_FILE_BYTES ? cJSON_GetArrayItem(from, (int)index)
                                                           : NULL;
        } else {
            from = schema_member(from, token);
        }
    }
    return *pointer == '\0' ? from : NULL;
}

const cJSON *schema_document_follow(const struct schema_document *document, const cJSON *node,
                                    const char *reference)
{
    const cJSON *resource = reference_resource(document, node);
    const char *fragment = strchr(reference, '#');
    size_t length = fragment ? (size_t)(fragment - reference) : strlen(reference);
    if (length >= REFERENCE_BYTES / 2)
        return NULL;
    if (length > 0) {
        char text[REFERENCE_BYTES / 2], base[REFERENCE_BYTES] = "", wanted[REFERENCE_BYTES];
        memcpy(text, reference, length);
        text[length] = '\0';
        const char *root_id = resource_id(document, document->root);
        const char *own = resource_id(document, resource);
        if (own)
            identifier_resolve(resource == document->root ? NULL : root_id, own, base);
        identifier_resolve(base[0] ? base : root_id, text, wanted);
        resource = resource_find(document, wanted);
    }
    if (!resource || !fragment || fragment[1] == '\0')
        return resource;
    if (fragment[1] == '/')
        return pointer_follow(resource, fragment + 1);
    for (size_t i = 0; i < document->anchors.count; i++) {
        const struct schema_mark *anchor = &document->anchors.marks[i];
        if (anchor->resource == resource && strcmp(anchor->text, fragment + 1) == 0)
            return anchor->node;
    }
    return NULL;
}

/* Appends "/name" with ~ and / escaped. */
static size_t token_append(char *pointer, size_t used, size_t capacity, const cJSON *parent,
                           const cJSON *child, uint32_t index)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", index);
    const char *name = cJSON_IsArray(parent) ? number : child->string;
    if (used + 1 < capacity)
        pointer[used++] = '/';
    for (; *name != '\0' && used + 2 < capacity; name++) {
        bool escaped = *name == '~' || *name == '/';
        if (escaped)
            pointer[used++] = '~';
        pointer[used++] = escaped ? (*name == '~' ? '0' : '1') : *name;
    }
    pointer[used] = '\0';
    return used;
}

static bool pointer_find(const cJSON *from, const cJSON *wanted, char *pointer, size_t used,
                         size_t capacity)
{
    pointer[used] = '\0';
    if (from == wanted)
        return true;
    uint32_t index = 0;
    for (const cJSON *child = from->child; child; child = child->next, index++) {
        if (child != wanted && !child->child)
            continue;
        size_t longer = token_append(pointer, used, capacity, from, child, index);
        if (pointer_find(child, wanted, pointer, longer, capacity))
            return true;
    }
    pointer[used] = '\0';
    return false;
}

void schema_document_pointer(const struct schema_document *document, const cJSON *node,
                             char *pointer, size_t capacity)
{
    if (capacity > 0)
        pointer_find(document->root, node, pointer, 0, capacity);
}
