/*
 * A node is compiled together with what follows it: follow(node, rest) is the language of the whole
 * remaining text. Then $ is rest & "", (?=x) is rest & x.*, (?!x) is rest & ~(x.*). For ^ the caller
 * knows whether the position is the start of the text: a part that may be empty is split into its
 * empty match, after which the position is still the start, and the others. Parts without anchors
 * and look-ahead (almost all) are plain regexes put before the rest. Counted repetition of a special
 * part is written out up to UNROLL_MAXIMUM times; beyond that it is refused.
 */
#include "frontend/grammar/regex_compile.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/json_text_regex.h"
#include "frontend/grammar/regex_tree.h"
#include "proto/limits.h"
#include "proto/utf8.h"

#define UNROLL_MAXIMUM 8u
/* Characters of a run that become one literal. */
#define RUN_BYTES 256u

struct regex_compiler {
    struct grammar_builder *builder;
    const struct regex_tree *tree;
    const struct regex_options *options;
    struct grammar_error *error;
    regex_id character, any, empty;
    uint32_t depth;
    bool refused;
};

/* A list of nodes: a node and its siblings, or one node alone, and the list after it. */
struct node_list {
    uint32_t node;
    bool alone;
    const struct node_list *rest;
};

static regex_id list_follow(struct regex_compiler *compiler, const struct node_list *list,
                            regex_id rest, bool at_start);
static regex_id node_plain(struct regex_compiler *compiler, uint32_t index);

static regex_id refuse(struct regex_compiler *compiler, const char *reason)
{
    if (!compiler->refused)
        regex_refuse(compiler->error, 0, reason);
    compiler->refused = true;
    return GRAMMAR_NONE;
}

static regex_id set_plain(struct regex_compiler *compiler, const struct regex_node *node)
{
    const struct code_point_range *all = compiler->tree->ranges; /* NULL: the tree has none */
    const struct code_point_range *ranges = all ? all + node->first_range : NULL;
    if (compiler->options->json_spelling)
        return json_text_code_points(compiler->builder, ranges, node->range_count);
    if (node->range_count == 0)
        return grammar_regex_nothing(compiler->builder);
    return grammar_regex_code_points(compiler->builder, ranges, node->range_count);
}

/* If the node is one character: writes its spelling; returns the bytes, else 0. */
static size_t character_spell(const struct regex_compiler *compiler, uint32_t index,
                              char out[JSON_TEXT_CHARACTER_BYTES])
{
    const struct regex_node *node = &compiler->tree->nodes[index];
    if (node->kind != REGEX_SET || node->range_count != 1)
        return 0;
    struct code_point_range range = compiler->tree->ranges[node->first_range];
    if (range.first != range.last)
        return 0;
    if (compiler->options->json_spelling)
        return json_text_spell(range.first, out);
    return utf8_encode(range.first, out);
}

/* The longest run of single characters from *index on as one literal; GRAMMAR_NONE: there is none.
 * *index becomes the node after it. */
static regex_id run_plain(struct regex_compiler *compiler, uint32_t *index)
{
    char run[RUN_BYTES];
    size_t used = 0;
    while (*index != REGEX_NODE_NONE && used + JSON_TEXT_CHARACTER_BYTES <= sizeof(run)) {
        size_t bytes = character_spell(compiler, *index, run + used);
        if (bytes == 0)
            break;
        used += bytes;
        *index = compiler->tree->nodes[*index].next;
    }
    return used ? grammar_regex_literal(compiler->builder, run, used) : GRAMMAR_NONE;
}

/* Concatenates in a balanced way, so that long patterns stay shallow. */
static regex_id parts_concat(struct regex_compiler *compiler, const regex_id *parts, size_t count)
{
    if (count == 0)
        return compiler->empty;
    if (count == 1)
        return parts[0];
    regex_id left = parts_concat(compiler, parts, count / 2);
    regex_id right = parts_concat(compiler, parts + count / 2, count - count / 2);
    return grammar_regex_concat(compiler->builder, left, right);
}

/* The plain regexes of a node and its siblings, joined. */
static regex_id siblings_plain(struct regex_compiler *compiler, uint32_t first, bool concat)
{
    size_t count = 0, used = 0;
    for (uint32_t i = first; i != REGEX_NODE_NONE; i = compiler->tree->nodes[i].next)
        count++;
    regex_id *parts = malloc((count + 1) * sizeof(*parts));
    if (!parts)
        return refuse(compiler, "not enough memory");
    uint32_t index = first;
    while (index != REGEX_NODE_NONE) {
        regex_id run = concat ? run_plain(compiler, &index) : GRAMMAR_NONE;
        if (run == GRAMMAR_NONE && index == REGEX_NODE_NONE) {
            parts[used++] = GRAMMAR_NONE; /* the builder has failed */
        } else if (run == GRAMMAR_NONE) {
            parts[used++] = node_plain(compiler, index);
            index = compiler->tree->nodes[index].next;
        } else {
            parts[used++] = run;
        }
    }
    regex_id joined = concat ? parts_concat(compiler, parts, used)
                             : grammar_regex_or_of(compiler->builder, parts, used);
    free(parts);
    return joined;
}

/* A node without anchors and look-ahead. Recursion is bounded by the depth of groups. */
static regex_id node_plain(struct regex_compiler *compiler, uint32_t index)
{
    const struct regex_node *node = &compiler->tree->nodes[index];
    switch (node->kind) {
    case REGEX_SET: return set_plain(compiler, node);
    case REGEX_CONCAT: return siblings_plain(compiler, node->first_child, true);
    case REGEX_ALTERNATION: return siblings_plain(compiler, node->first_child, false);
    case REGEX_REPEAT:
        return grammar_regex_repeat(compiler->builder, node_plain(compiler, node->first_child),
                                    node->minimum, node->maximum);
    default: return refuse(compiler, "an anchor where none is expected");
    }
}

/* x without the empty text. */
static regex_id without_empty(struct regex_compiler *compiler, regex_id x)
{
    regex_id some = grammar_regex_concat(compiler->builder, compiler->character, compiler->any);
    return grammar_regex_and(compiler->builder, x, some);
}

static regex_id look_follow(struct regex_compiler *compiler, const struct regex_node *node,
                            regex_id rest, bool at_start)
{
    const struct node_list content = {.node = node->first_child, .alone = true};
    regex_id seen = list_follow(compiler, &content, compiler->any, at_start);
    if (node->kind == REGEX_NOT_AHEAD) /* within spelled text, which the complement alone is not */
        seen = grammar_regex_and(compiler->builder, compiler->any,
                                 grammar_regex_not(compiler->builder, seen));
    return grammar_regex_and(compiler->builder, rest, seen);
}

static regex_id alternation_follow(struct regex_compiler *compiler, const struct regex_node *node,
                                   const struct node_list *after, regex_id rest, bool at_start)
{
    regex_id sum = grammar_regex_nothing(compiler->builder);
    for (uint32_t i = node->first_child; i != REGEX_NODE_NONE; i = compiler->tree->nodes[i].next) {
        const struct node_list branch = {.node = i, .alone = true, .rest = after};
        regex_id language = list_follow(compiler, &branch, rest, at_start);
        sum = grammar_regex_or(compiler->builder, sum, language);
    }
    return sum;
}

/* x{m,n} with an anchor or a look-ahead in x, written out: x{m,n} is x x{m-1,n-1}, and "" if m = 0. */
static regex_id repeat_follow(struct regex_compiler *compiler, const struct regex_node *node,
                              const struct node_list *after, regex_id rest, bool at_start)
{
    if (node->maximum > UNROLL_MAXIMUM)
        return refuse(compiler, "an anchor or look-ahead inside a repetition is not supported");
    /* Stack of lists: the i-th is x followed by the others. */
    struct node_list copies[UNROLL_MAXIMUM];
    regex_id sum = grammar_regex_nothing(compiler->builder);
    for (uint32_t count = node->minimum; count <= node->maximum; count++) {
        for (uint32_t i = 0; i < count; i++)
            copies[i] = (struct node_list){
                .node = node->first_child, .alone = true, .rest = i ? &copies[i - 1] : after};
        const struct node_list *list = count ? &copies[count - 1] : after;
        sum = grammar_regex_or(compiler->builder, sum, list_follow(compiler, list, rest, at_start));
    }
    return sum;
}

static bool list_has_begin(const struct regex_compiler *compiler, const struct node_list *list)
{
    for (; list; list = list->rest) {
        uint32_t node = list->node;
        while (node != REGEX_NODE_NONE) {
            if (compiler->tree->nodes[node].has_begin)
                return true;
            node = list->alone ? REGEX_NODE_NONE : compiler->tree->nodes[node].next;
        }
    }
    return false;
}

/* A special node, then the list after it, then the rest. */
static regex_id special_follow(struct regex_compiler *compiler, const struct regex_node *node,
                               const struct node_list *after, regex_id rest, bool at_start)
{
    struct node_list children = {.node = node->first_child, .rest = after};
    switch (node->kind) {
    case REGEX_BEGIN:
        return at_start ? list_follow(compiler, after, rest, true)
                        : grammar_regex_nothing(compiler->builder);
    case REGEX_END:
        return grammar_regex_and(compiler->builder, compiler->empty,
                                 list_follow(compiler, after, rest, at_start));
    case REGEX_AHEAD:
    case REGEX_NOT_AHEAD:
        return look_follow(compiler, node, list_follow(compiler, after, rest, at_start), at_start);
    case REGEX_CONCAT: return list_follow(compiler, &children, rest, at_start);
    case REGEX_ALTERNATION: return alternation_follow(compiler, node, after, rest, at_start);
    case REGEX_REPEAT: return repeat_follow(compiler, node, after, rest, at_start);
    default: return refuse(compiler, "an unknown construct");
    }
}

/* Takes plain nodes from the front of the list; *list becomes what is after them. */
static regex_id plain_run(struct regex_compiler *compiler, struct node_list *list)
{
    regex_id parts[64];
    size_t used = 0;
    const struct regex_node *nodes = compiler->tree->nodes;
    while (list->node != REGEX_NODE_NONE && !nodes[list->node].special && used < 64) {
        regex_id run = GRAMMAR_NONE;
        if (!list->alone)
            run = run_plain(compiler, &list->node);
        if (run == GRAMMAR_NONE && list->node == REGEX_NODE_NONE)
            return GRAMMAR_NONE; /* the builder has failed */
        if (run == GRAMMAR_NONE && nodes[list->node].special)
            break;
        if (run == GRAMMAR_NONE) {
            run = node_plain(compiler, list->node);
            list->node = list->alone ? REGEX_NODE_NONE : nodes[list->node].next;
        }
        parts[used++] = run;
    }
    return parts_concat(compiler, parts, used);
}

/* One plain node at the start of the text before nodes with a ^. */
static regex_id start_follow(struct regex_compiler *compiler, const struct regex_node *nodes,
                             uint32_t index, const struct node_list *after, regex_id rest)
{
    regex_id plain = node_plain(compiler, index);
    regex_id moved = list_follow(compiler, after, rest, false);
    if (!nodes[index].nullable)
        return grammar_regex_concat(compiler->builder, plain, moved);
    regex_id still = list_follow(compiler, after, rest, true);
    regex_id some = grammar_regex_concat(compiler->builder, without_empty(compiler, plain), moved);
    return grammar_regex_or(compiler->builder, still, some);
}

static regex_id list_follow(struct regex_compiler *compiler, const struct node_list *list,
                            regex_id rest, bool at_start)
{
    while (list && list->node == REGEX_NODE_NONE)
        list = list->rest;
    if (!list || compiler->refused)
        return rest;
    if (!grammar_builder_spend(compiler->builder, 16))
        return GRAMMAR_NONE;
    if (++compiler->depth > LIMIT_REGEX_DEPTH)
        return refuse(compiler, "it has too many anchors and look-aheads");
    at_start = at_start && list_has_begin(compiler, list);
    const struct regex_node *nodes = compiler->tree->nodes;
    const struct regex_node *node = &nodes[list->node];
    struct node_list after = {.node = list->alone ? REGEX_NODE_NONE : node->next,
                              .rest = list->rest};
    regex_id result;
    if (node->special) {
        result = special_follow(compiler, node, &after, rest, at_start);
    } else if (at_start) {
        result = start_follow(compiler, nodes, list->node, &after, rest);
    } else {
        struct node_list remaining = *list;
        regex_id plain = plain_run(compiler, &remaining);
        regex_id tail = list_follow(compiler, &remaining, rest, false);
        result = grammar_regex_concat(compiler->builder, plain, tail);
    }
    compiler->depth--;
    return result;
}

static regex_id tree_compile(struct regex_compiler *compiler)
{
    const struct node_list whole = {.node = compiler->tree->root, .alone = true};
    if (!compiler->options->search)
        return list_follow(compiler, &whole, compiler->empty, true);
    regex_id at_start = list_follow(compiler, &whole, compiler->any, true);
    regex_id later = list_follow(compiler, &whole, compiler->any, false);
    /* Without ^ both are one language, and a match at the start is found by the general form. */
    if (at_start == later)
        return grammar_regex_concat(compiler->builder, compiler->any, later);
    regex_id some = grammar_regex_concat(compiler->builder, compiler->character, compiler->any);
    later = grammar_regex_concat(compiler->builder, some, later);
    return grammar_regex_or(compiler->builder, at_start, later);
}

bool regex_compile(struct grammar_builder *builder, const char *pattern, size_t length,
                   const struct regex_options *options, regex_id *out, struct grammar_error *error)
{
    struct regex_tree tree = {0};
    struct regex_compiler compiler = {
        .builder = builder, .tree = &tree, .options = options, .error = error};
    bool parsed = regex_tree_parse(&tree, pattern, length, error);
    if (parsed) {
        compiler.empty = grammar_regex_empty(builder);
        if (options->json_spelling) {
            compiler.character = json_text_character(builder);
        } else {
            const struct code_point_range all = {0, CODE_POINT_LAST};
            compiler.character = grammar_regex_code_points(builder, &all, 1);
        }
        compiler.any = grammar_regex_repeat(builder, compiler.character, 0, GRAMMAR_UNBOUNDED);
        *out = tree_compile(&compiler);
    }
    regex_tree_fini(&tree);
    return parsed && !compiler.refused && !grammar_builder_failed(builder);
}
