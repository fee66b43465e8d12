/*
 * The syntax of regular expressions: ECMAScript's with the u flag, plus \A, \z, (?P<name>...) of
 * Python and PCRE. Lazy quantifiers are read as greedy ones, because only the language counts. What
 * is not regular or not known is refused: look-behind, back references, flags, recursion, possessive
 * quantifiers and atomic groups. Groups nest to LIMIT_JSON_DEPTH, the depth of the reader's recursion.
 */
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/regex_tree.h"
#include "proto/limits.h"
#include "proto/utf8.h"

struct regex_reader {
    struct regex_tree *tree;
    const char *pattern;
    size_t length, at;
    uint32_t depth;
    struct grammar_error *error;
    struct code_point_set set;
};

static uint32_t alternation_read(struct regex_reader *reader);

void regex_tree_fini(struct regex_tree *tree)
{
    free(tree->nodes);
    free(tree->ranges);
    *tree = (struct regex_tree){0};
}

static bool refuse(struct regex_reader *reader, const char *reason)
{
    return regex_refuse(reader->error, reader->at, reason);
}

/* Grows to hold one element more; NULL: no memory. */
static void *array_grown(void *array, uint32_t count, uint32_t *capacity, size_t element_bytes)
{
    if (count < *capacity)
        return array;
    uint32_t wanted = *capacity ? *capacity * 2 : 32;
    void *grown = realloc(array, wanted * element_bytes);
    if (grown)
        *capacity = wanted;
    return grown;
}

static uint32_t node_add(struct regex_reader *reader, enum regex_node_kind kind)
{
    struct regex_tree *tree = reader->tree;
    struct regex_node *grown =
        array_grown(tree->nodes, tree->node_count, &tree->node_capacity, sizeof(*grown));
    if (!grown) {
        refuse(reader, "not enough memory");
        return REGEX_NODE_NONE;
    }
    tree->nodes = grown;
    bool anchor = kind >= REGEX_BEGIN;
    tree->nodes[tree->node_count] = (struct regex_node){
        .kind = kind,
        .first_child = REGEX_NODE_NONE,
        .next = REGEX_NODE_NONE,
        .special = anchor,
        .has_begin = kind == REGEX_BEGIN,
        .nullable = anchor || kind == REGEX_CONCAT,
    };
    return tree->node_count++;
}

static uint32_t set_node_add(struct regex_reader *reader)
{
    struct regex_tree *tree = reader->tree;
    uint32_t first = tree->range_count;
    for (uint32_t i = 0; i < reader->set.count; i++) {
        struct code_point_range *grown =
            array_grown(tree->ranges, tree->range_count, &tree->range_capacity, sizeof(*grown));
        if (!grown) {
            refuse(reader, "not enough memory");
            return REGEX_NODE_NONE;
        }
        tree->ranges = grown;
        tree->ranges[tree->range_count++] = reader->set.ranges[i];
    }
    uint32_t node = node_add(reader, REGEX_SET);
    if (node != REGEX_NODE_NONE) {
        tree->nodes[node].first_range = first;
        tree->nodes[node].range_count = reader->set.count;
    }
    return node;
}

/* Takes over what the parent must know of a child. */
static void parent_mark(struct regex_tree *tree, uint32_t parent, uint32_t child)
{
    tree->nodes[parent].special |= tree->nodes[child].special;
    tree->nodes[parent].has_begin |= tree->nodes[child].has_begin;
}

static bool starts_with(const struct regex_reader *reader, const char *text)
{
    size_t length = strlen(text);
    return reader->length - reader->at >= length &&
           memcmp(reader->pattern + reader->at, text, length) == 0;
}

/* Skips a group's name up to its '>'. */
static bool group_name_skip(struct regex_reader *reader)
{
    const char *end = memchr(reader->pattern + reader->at, '>', reader->length - reader->at);
    if (!end)
        return refuse(reader, "a group's name without >");
    reader->at = (size_t)(end - reader->pattern) + 1;
    return true;
}

/* What follows "(?"; writes the kind of group: REGEX_CONCAT for one that only groups. */
static bool group_kind_read(struct regex_reader *reader, enum regex_node_kind *kind)
{
    static const struct {
        const char *mark;
        enum regex_node_kind kind;
    } KINDS[] = {
        {"?:", REGEX_CONCAT}, {"?=", REGEX_AHEAD}, {"?!", REGEX_NOT_AHEAD}, {"?P<", REGEX_CONCAT}};
    *kind = REGEX_CONCAT;
    if (!starts_with(reader, "?"))
        return true;
    if (starts_with(reader, "?<=") || starts_with(reader, "?<!"))
        return refuse(reader, "look-behind is not supported");
    if (starts_with(reader, "?<")) {
        reader->at += 2;
        return group_name_skip(reader);
    }
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        if (!starts_with(reader, KINDS[i].mark))
            continue;
        reader->at += strlen(KINDS[i].mark);
        *kind = KINDS[i].kind;
        return KINDS[i].mark[1] != 'P' || group_name_skip(reader);
    }
    return refuse(reader, "flags, atomic and conditional groups are not supported");
}

static uint32_t group_read(struct regex_reader *reader)
{
    enum regex_node_kind kind;
    if (++reader->depth > LIMIT_JSON_DEPTH) {
        refuse(reader, "groups are nested too deeply");
        return REGEX_NODE_NONE;
    }
    if (!group_kind_read(reader, &kind))
        return REGEX_NODE_NONE;
    uint32_t inner = alternation_read(reader);
    if (inner == REGEX_NODE_NONE)
        return inner;
    if (reader->at == reader->length) {
        refuse(reader, "a group without )");
        return REGEX_NODE_NONE;
    }
    reader->at++; /* only ')' ends an alternation before the end */
    reader->depth--;
    if (kind == REGEX_CONCAT)
        return inner;
    uint32_t node = node_add(reader, kind);
    if (node == REGEX_NODE_NONE)
        return node;
    reader->tree->nodes[node].first_child = inner;
    parent_mark(reader->tree, node, inner);
    return node;
}

static uint32_t escape_read(struct regex_reader *reader)
{
    bool single;
    char name = reader->at < reader->length ? reader->pattern[reader->at] : '\0';
    if (name == 'A' || name == 'z') {
        reader->at++;
        return node_add(reader, name == 'A' ? REGEX_BEGIN : REGEX_END);
    }
    if (!regex_class_escape(reader->pattern, reader->length, &reader->at, false, &reader->set,
                            &single, reader->error))
        return REGEX_NODE_NONE;
    return set_node_add(reader);
}

static uint32_t dot_node(struct regex_reader *reader)
{
    code_point_set_clear(&reader->set);
    code_point_set_add(&reader->set, '\n', '\n');
    code_point_set_add(&reader->set, '\r', '\r');
    code_point_set_add(&reader->set, 0x2028, 0x2029);
    code_point_set_negate(&reader->set);
    return set_node_add(reader);
}

static uint32_t atom_read(struct regex_reader *reader)
{
    char c = reader->pattern[reader->at];
    uint32_t value;
    switch (c) {
    case '(': reader->at++; return group_read(reader);
    case '.': reader->at++; return dot_node(reader);
    case '^': reader->at++; return node_add(reader, REGEX_BEGIN);
    case '$': reader->at++; return node_add(reader, REGEX_END);
    case '\\': reader->at++; return escape_read(reader);
    case '[':
        reader->at++;
        if (!regex_class_read(reader->pattern, reader->length, &reader->at, &reader->set,
                              reader->error))
            return REGEX_NODE_NONE;
        return set_node_add(reader);
    case '*':
    case '+':
    case '?': refuse(reader, "a quantifier without something before it"); return REGEX_NODE_NONE;
    default: break;
    }
    reader->at += utf8_decode(reader->pattern + reader->at, reader->length - reader->at, &value);
    code_point_set_clear(&reader->set);
    code_point_set_add(&reader->set, value, value);
    return set_node_add(reader);
}

/* Decimal digits; saturates far above every bound that the builder accepts. */
static bool count_read(const struct regex_reader *reader, size_t *at, uint32_t *count)
{
    size_t start = *at;
    uint64_t value = 0;
    for (; *at < reader->length && reader->pattern[*at] >= '0' && reader->pattern[*at] <= '9';
         ++*at)
        value =
            value > UINT32_MAX / 16 ? value : value * 10 + (uint64_t)(reader->pattern[*at] - '0');
    *count = (uint32_t)value;
    return *at > start;
}

/* {m}, {m,} or {m,n}; a brace that begins none of these is an ordinary character. */
static bool braces_read(struct regex_reader *reader, uint32_t *minimum, uint32_t *maximum)
{
    size_t at = reader->at + 1;
    if (!count_read(reader, &at, minimum))
        return false;
    *maximum = *minimum;
    if (at < reader->length && reader->pattern[at] == ',') {
        at++;
        if (!count_read(reader, &at, maximum))
            *maximum = GRAMMAR_UNBOUNDED;
    }
    if (at == reader->length || reader->pattern[at] != '}')
        return false;
    reader->at = at + 1;
    return true;
}

static bool quantifier_read(struct regex_reader *reader, uint32_t *minimum, uint32_t *maximum)
{
    char c = reader->at < reader->length ? reader->pattern[reader->at] : '\0';
    if (c == '{')
        return braces_read(reader, minimum, maximum);
    if (c != '*' && c != '+' && c != '?')
        return false;
    *minimum = c == '+';
    *maximum = c == '?' ? 1 : GRAMMAR_UNBOUNDED;
    reader->at++;
    return true;
}

static uint32_t repeat_add(struct regex_reader *reader, uint32_t child, uint32_t minimum,
                           uint32_t maximum)
{
    struct regex_tree *tree = reader->tree;
    if (maximum < minimum) {
        refuse(reader, "a quantifier whose maximum is below its minimum");
        return REGEX_NODE_NONE;
    }
    uint32_t node = node_add(reader, REGEX_REPEAT);
    if (node == REGEX_NODE_NONE)
        return node;
    tree->nodes[node].first_child = child;
    tree->nodes[node].minimum = minimum;
    tree->nodes[node].maximum = maximum;
    tree->nodes[node].nullable = minimum == 0 || tree->nodes[child].nullable;
    parent_mark(tree, node, child);
    return node;
}

static uint32_t quantified_read(struct regex_reader *reader)
{
    uint32_t node = atom_read(reader);
    uint32_t minimum, maximum;
    if (node == REGEX_NODE_NONE || !quantifier_read(reader, &minimum, &maximum))
        return node;
    if (starts_with(reader, "+")) {
        refuse(reader, "possessive quantifiers are not supported");
        return REGEX_NODE_NONE;
    }
    reader->at += starts_with(reader, "?");
    return repeat_add(reader, node, minimum, maximum);
}

static uint32_t concat_read(struct regex_reader *reader)
{
    struct regex_tree *tree = reader->tree;
    uint32_t first = REGEX_NODE_NONE, last = REGEX_NODE_NONE, count = 0;
    bool nullable = true;
    while (reader->at < reader->length && reader->pattern[reader->at] != '|' &&
           reader->pattern[reader->at] != ')') {
        uint32_t node = quantified_read(reader);
        if (node == REGEX_NODE_NONE)
            return node;
        if (count++ == 0)
            first = node;
        else
            tree->nodes[last].next = node;
        last = node;
        nullable = nullable && tree->nodes[node].nullable;
    }
    if (count == 1)
        return first;
    uint32_t concat = node_add(reader, REGEX_CONCAT);
    if (concat == REGEX_NODE_NONE)
        return concat;
    tree->nodes[concat].first_child = first;
    tree->nodes[concat].nullable = nullable;
    for (uint32_t node = first; node != REGEX_NODE_NONE; node = tree->nodes[node].next)
        parent_mark(tree, concat, node);
    return concat;
}

static uint32_t alternation_read(struct regex_reader *reader)
{
    struct regex_tree *tree = reader->tree;
    uint32_t first = concat_read(reader);
    if (first == REGEX_NODE_NONE || !starts_with(reader, "|"))
        return first;
    bool nullable = tree->nodes[first].nullable;
    uint32_t last = first;
    while (starts_with(reader, "|")) {
        reader->at++;
        uint32_t node = concat_read(reader);
        if (node == REGEX_NODE_NONE)
            return node;
        tree->nodes[last].next = node;
        last = node;
        nullable = nullable || tree->nodes[node].nullable;
    }
    uint32_t alternation = node_add(reader, REGEX_ALTERNATION);
    if (alternation == REGEX_NODE_NONE)
        return alternation;
    tree->nodes[alternation].first_child = first;
    tree->nodes[alternation].nullable = nullable;
    for (uint32_t node = first; node != REGEX_NODE_NONE; node = tree->nodes[node].next)
        parent_mark(tree, alternation, node);
    return alternation;
}

bool regex_tree_parse(struct regex_tree *tree, const char *pattern, size_t length,
                      struct grammar_error *error)
{
    struct regex_reader reader = {
        .tree = tree, .pattern = pattern, .length = length, .error = error};
    if (length > LIMIT_REGEX_BYTES)
        return refuse(&reader, "it is too long");
    if (!utf8_is_valid(pattern, length))
        return refuse(&reader, "it is not valid UTF-8");
    tree->root = alternation_read(&reader);
    if (tree->root == REGEX_NODE_NONE)
        return false;
    return reader.at == length || refuse(&reader, "a ) without its (");
}
