/*
 * The parsed form of a regular expression: nodes in one array, children as linked lists of indices.
 * Nodes are numbered in the order in which they are completed, so a child's index is smaller than
 * its parent's.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_REGEX_TREE_H
#define SHOAL_FRONTEND_GRAMMAR_REGEX_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/grammar/code_point_set.h"
#include "frontend/grammar/grammar_error.h"

#define REGEX_NODE_NONE UINT32_MAX

enum regex_node_kind {
    REGEX_SET,         /* one character of ranges [first_range, first_range + range_count) */
    REGEX_CONCAT,      /* the children, one after the other; without children: the empty text */
    REGEX_ALTERNATION, /* one of the children */
    REGEX_REPEAT,      /* the one child `minimum` to `maximum` times */
    REGEX_BEGIN,       /* ^ */
    REGEX_END,         /* $ */
    REGEX_AHEAD,       /* (?=child) */
    REGEX_NOT_AHEAD,   /* (?!child) */
};

struct regex_node {
    enum regex_node_kind kind;
    uint32_t first_child; /* REGEX_NODE_NONE: none */
    uint32_t next;        /* sibling */
    uint32_t first_range, range_count;
    uint32_t minimum, maximum;
    bool special;   /* an anchor or a look-ahead is in it */
    bool has_begin; /* a ^ is in it */
    bool nullable;  /* it may match the empty text (anchors and look-ahead counted as empty) */
};

struct regex_tree {
    struct regex_node *nodes;
    uint32_t node_count, node_capacity;
    struct code_point_range *ranges;
    uint32_t range_count, range_capacity;
    uint32_t root;
};

void regex_tree_fini(struct regex_tree *tree);

/* Parses `pattern` (valid UTF-8). False: `error` says why, or memory ran out. `tree` is zeroed by
 * the caller and freed by regex_tree_fini() either way. */
bool regex_tree_parse(struct regex_tree *tree, const char *pattern, size_t length,
                      struct grammar_error *error);

/* Reads an escape after its backslash that stands for a set of characters or for one character; at
 * *at is the character after the backslash. False: unknown, or refused. */
bool regex_class_escape(const char *pattern, size_t length, size_t *at, bool in_class,
                        struct code_point_set *set, bool *single, struct grammar_error *error);
/* Reads a class; *at is after its '['. */
bool regex_class_read(const char *pattern, size_t length, size_t *at, struct code_point_set *set,
                      struct grammar_error *error);
/* Writes the error; returns false. */
bool regex_refuse(struct grammar_error *error, size_t at, const char *reason);

#endif
