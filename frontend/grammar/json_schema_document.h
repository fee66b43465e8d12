/*
 * A schema's JSON text as a whole: its depth, the targets of references, the draft, and the JSON
 * pointer of a node for messages. Remote documents are never fetched: a reference to one is refused.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_JSON_SCHEMA_DOCUMENT_H
#define SHOAL_FRONTEND_GRAMMAR_JSON_SCHEMA_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;

/* An $id, $anchor or $ref and the schema resource that it stands in. */
struct schema_mark {
    const struct cJSON *node;     /* the schema object that has the member */
    const struct cJSON *resource; /* the nearest object around it (or itself) with an $id */
    const char *text;
};

struct schema_marks {
    struct schema_mark *marks;
    size_t count, capacity;
};

struct schema_document {
    const struct cJSON *root;
    struct schema_marks ids, anchors, references; /* references are sorted by node */
    uint32_t draft;                               /* 4, 6, 7, 2019 or 2020 */
};

enum schema_document_result {
    SCHEMA_DOCUMENT_OK,
    SCHEMA_DOCUMENT_TOO_DEEP, /* nested deeper than LIMIT_BODY_DEPTH */
    SCHEMA_DOCUMENT_NO_MEMORY,
};

/* `document` points into `root`. schema_document_close() frees it, after a failure too. */
enum schema_document_result schema_document_open(struct schema_document *document,
                                                 const struct cJSON *root);
void schema_document_close(struct schema_document *document);

/* What the $ref of this schema means; NULL: not in this document. */
const struct cJSON *schema_document_follow(const struct schema_document *document,
                                           const struct cJSON *node, const char *reference);
/* Writes the JSON pointer of a node, cut if it is too long; "" if it is the root or not found. */
void schema_document_pointer(const struct schema_document *document, const struct cJSON *node,
                             char *pointer, size_t capacity);
/* A member by its exact name; NULL: none. */
const struct cJSON *schema_member(const struct cJSON *object, const char *name);

#endif
