/*
 * A rule is translated when it is first referred to. A reference to a rule whose translation has
 * begun, or that stands deeper than DEPTH_MAX nodes, gets the rule's symbol, whose production
 * follows later; other references get the rule's expression itself. So recursion in C is limited
 * and recursion in the grammar becomes productions.
 */
#include "frontend/grammar/rule_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

enum { DEPTH_MAX = 64 };

enum node_kind { NODE_REGEX, NODE_SYMBOL, NODE_REFERENCE, NODE_SEQUENCE, NODE_CHOICE, NODE_REPEAT };

struct node {
    enum node_kind kind;
    uint32_t value;   /* a regex, a symbol, a rule, or the minimum */
    uint32_t maximum; /* of NODE_REPEAT */
    uint32_t first;   /* child */
    uint32_t last;
    uint32_t next; /* sibling */
};

enum rule_state { RULE_NAMED, RULE_DEFINED, RULE_BEGUN, RULE_DONE };

struct rule {
    const char *name; /* in the caller's text */
    uint32_t name_length;
    size_t place;
    enum rule_state state;
    uint32_t node;
    uint32_t next_same_hash;
    symbol_id symbol; /* given to references before the value was known; or GRAMMAR_NONE */
    symbol_id value;
};

enum { HASH_SLOTS = 4096 };

struct rule_tree {
    struct grammar_builder *builder;
    struct node *nodes;
    uint32_t node_count;
    uint32_t node_capacity;
    struct rule *rules;
    uint32_t rule_count;
    uint32_t rule_capacity;
    bool too_large;
    bool out_of_memory;
    uint32_t slots[HASH_SLOTS]; /* first rule of each hash */
};

struct rule_tree *rule_tree_create(struct grammar_builder *builder)
{
    struct rule_tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return NULL;
    tree->builder = builder;
    memset(tree->slots, 0xff, sizeof tree->slots);
    return tree;
}

void rule_tree_destroy(struct rule_tree *tree)
{
    if (!tree)
        return;
    free(tree->nodes);
    free(tree->rules);
    free(tree);
}

/* Room for one more element of `size` bytes; false: too many, or out of memory. */
static bool room_make(void **items, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    uint32_t wanted = *capacity ? 2 * *capacity : 64;
    if (count >= LIMIT_GRAMMAR_NODES)
        return false;
    void *grown = realloc(*items, wanted * size);
    if (!grown)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

static uint32_t name_slot(const char *name, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return (hash ^ hash >> 12) % HASH_SLOTS;
}

uint32_t rule_tree_rule(struct rule_tree *tree, const char *name, size_t length, size_t place)
{
    uint32_t slot = name_slot(name, length);
    for (uint32_t r = tree->slots[slot]; r != RULE_NONE; r = tree->rules[r].next_same_hash) {
        if (tree->rules[r].name_length == length && memcmp(tree->rules[r].name, name, length) == 0)
            return r;
    }
    if (!room_make((void **)&tree->rules, tree->rule_count, &tree->rule_capacity,
                   sizeof *tree->rules)) {
        tree->too_large = true;
        return RULE_NONE;
    }
    uint32_t rule = tree->rule_count++;
    tree->rules[rule] = (struct rule){.name = name,
                                      .name_length = (uint32_t)length,
                                      .place = place,
                                      .node = RULE_NONE,
                                      .next_same_hash = tree->slots[slot],
                                      .symbol = GRAMMAR_NONE,
                                      .value = GRAMMAR_NONE};
    tree->slots[slot] = rule;
    return rule;
}

bool rule_tree_is_defined(const struct rule_tree *tree, uint32_t rule)
{
    return rule < tree->rule_count && tree->rules[rule].state != RULE_NAMED;
}

void rule_tree_define(struct rule_tree *tree, uint32_t rule, uint32_t node)
{
    if (rule >= tree->rule_count || node == RULE_NONE)
        return;
    tree->rules[rule].node = node;
    tree->rules[rule].state = RULE_DEFINED;
}

static uint32_t node_add(struct rule_tree *tree, enum node_kind kind, uint32_t value)
{
    if (tree->too_large || !room_make((void **)&tree->nodes, tree->node_count, &tree->node_capacity,
                                      sizeof *tree->nodes)) {
        tree->too_large = true;
        return RULE_NONE;
    }
    tree->nodes[tree->node_count] = (struct node){
        .kind = kind, .value = value, .first = RULE_NONE, .last = RULE_NONE, .next = RULE_NONE};
    return tree->node_count++;
}

uint32_t rule_tree_regex(struct rule_tree *tree, regex_id regex)
{
    return node_add(tree, NODE_REGEX, regex);
}

uint32_t rule_tree_symbol(struct rule_tree *tree, symbol_id symbol)
{
    return node_add(tree, NODE_SYMBOL, symbol);
}

uint32_t rule_tree_reference(struct rule_tree *tree, uint32_t rule)
{
    return node_add(tree, NODE_REFERENCE, rule);
}

uint32_t rule_tree_sequence(struct rule_tree *tree)
{
    return node_add(tree, NODE_SEQUENCE, 0);
}

uint32_t rule_tree_choice(struct rule_tree *tree)
{
    return node_add(tree, NODE_CHOICE, 0);
}

void rule_tree_add(struct rule_tree *tree, uint32_t parent, uint32_t child)
{
    if (parent == RULE_NONE || child == RULE_NONE)
        return;
    if (tree->nodes[parent].last == RULE_NONE)
        tree->nodes[parent].first = child;
    else
        tree->nodes[tree->nodes[parent].last].next = child;
    tree->nodes[parent].last = child;
}

uint32_t rule_tree_repeat(struct rule_tree *tree, uint32_t child, uint32_t minimum,
                          uint32_t maximum)
{
    uint32_t node = node_add(tree, NODE_REPEAT, minimum);
    if (node == RULE_NONE)
        return node;
    tree->nodes[node].maximum = maximum;
    rule_tree_add(tree, node, child);
    return node;
}

/* --- translation ----------------------------------------------------------------------------- */

static symbol_id node_translate(struct rule_tree *tree, uint32_t node, unsigned depth);

static void rule_translate(struct rule_tree *tree, uint32_t index, unsigned depth)
{
    tree->rules[index].state = RULE_BEGUN;
    symbol_id value = node_translate(tree, tree->rules[index].node, depth);
    struct rule *rule = &tree->rules[index];
    rule->state = RULE_DONE;
    rule->value = value;
    if (rule->symbol == GRAMMAR_NONE)
        return;
    grammar_production(tree->builder, rule->symbol, &value, 1);
    rule->value = rule->symbol;
}

static symbol_id reference_translate(struct rule_tree *tree, uint32_t index, unsigned depth)
{
    struct rule *rule = &tree->rules[index];
    if (rule->state == RULE_DONE)
        return rule->value;
    if (rule->state == RULE_DEFINED && depth < DEPTH_MAX) {
        rule_translate(tree, index, depth);
        return tree->rules[index].value;
    }
    if (rule->symbol == GRAMMAR_NONE)
        rule->symbol = grammar_rule(tree->builder);
    return rule->symbol;
}

/* Appends a symbol to the list; false: out of memory. */
static bool symbol_append(symbol_id **symbols, size_t *count, size_t *capacity, symbol_id symbol)
{
    if (*count == *capacity) {
        size_t wanted = *capacity ? 2 * *capacity : 16;
        symbol_id *grown = realloc(*symbols, wanted * sizeof **symbols);
        if (!grown)
            return false;
        *symbols = grown;
        *capacity = wanted;
    }
    (*symbols)[(*count)++] = symbol;
    return true;
}

/* The builder joins terminals: neighbours of a sequence, all of a choice. */
static symbol_id list_translate(struct rule_tree *tree, uint32_t node, unsigned depth)
{
    bool is_choice = tree->nodes[node].kind == NODE_CHOICE;
    symbol_id *symbols = NULL;
    size_t count = 0, capacity = 0;
    bool good = true;
    for (uint32_t child = tree->nodes[node].first; child != RULE_NONE && good;
         child = tree->nodes[child].next)
        good = symbol_append(&symbols, &count, &capacity, node_translate(tree, child, depth + 1));
    symbol_id result = GRAMMAR_NONE;
    if (good && count == 1)
        result = symbols[0];
    else if (good)
        result = is_choice ? grammar_choice(tree->builder, symbols, count)
                           : grammar_sequence(tree->builder, symbols, count);
    tree->out_of_memory = tree->out_of_memory || !good;
    free(symbols);
    return result;
}

/* Recurses over DEPTH_MAX nodes and at most as many more as the reader lets a rule nest. */
static symbol_id node_translate(struct rule_tree *tree, uint32_t index, unsigned depth)
{
    const struct node node = tree->nodes[index];
    if (tree->out_of_memory || grammar_builder_failed(tree->builder))
        return GRAMMAR_NONE;
    switch (node.kind) {
    case NODE_REGEX: return grammar_terminal(tree->builder, node.value);
    case NODE_SYMBOL: return node.value;
    case NODE_REFERENCE: return reference_translate(tree, node.value, depth);
    case NODE_SEQUENCE:
    case NODE_CHOICE: return list_translate(tree, index, depth);
    default: break;
    }
    symbol_id child = node_translate(tree, node.first, depth + 1);
    regex_id regex = grammar_symbol_regex(tree->builder, child);
    if (regex == GRAMMAR_NONE)
        return grammar_repeat(tree->builder, child, node.value, node.maximum);
    return grammar_terminal(tree->builder,
                            grammar_regex_repeat(tree->builder, regex, node.value, node.maximum));
}

/* Sets the error and returns false if a rule is named and not defined, or the tree is too large. */
static bool tree_check(const struct rule_tree *tree, struct grammar_error *error)
{
    if (tree->too_large) {
        snprintf(error->message, sizeof error->message, "the grammar has more than %u parts",
                 LIMIT_GRAMMAR_NODES);
        return false;
    }
    for (uint32_t r = 0; r < tree->rule_count; r++) {
        const struct rule *rule = &tree->rules[r];
        if (rule->state != RULE_NAMED)
            continue;
        snprintf(error->pointer, sizeof error->pointer, "byte %zu", rule->place);
        snprintf(error->message, sizeof error->message, "the rule '%.*s' is not defined",
                 rule->name_length > 64 ? 64 : (int)rule->name_length, rule->name);
        return false;
    }
    return true;
}

bool rule_tree_finish(struct rule_tree *tree, uint32_t rule, symbol_id *symbol,
                      struct grammar_error *error)
{
    *symbol = GRAMMAR_NONE;
    if (!tree_check(tree, error))
        return false;
    *symbol = reference_translate(tree, rule, 0);
    for (bool found = true; found && !grammar_builder_failed(tree->builder);) {
        found = false;
        for (uint32_t r = 0; r < tree->rule_count; r++) {
            if (tree->rules[r].state != RULE_DEFINED || tree->rules[r].symbol == GRAMMAR_NONE)
                continue;
            rule_translate(tree, r, 0);
            found = true;
        }
    }
    return !tree->out_of_memory && !grammar_builder_failed(tree->builder);
}
