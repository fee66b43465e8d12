/*
 * The rules of a written grammar (GBNF, Lark) as a tree, and its translation by grammar_builder.h.
 *
 * A part that refers to no recursive rule becomes one regular expression, so that the worker
 * follows it as one automaton; all else becomes productions. Both have the same language. Errors
 * are sticky: after the first, nodes are RULE_NONE and rule_tree_finish() reports it. The tree is
 * limited to LIMIT_GRAMMAR_NODES nodes.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_RULE_TREE_H
#define SHOAL_FRONTEND_GRAMMAR_RULE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"
#include "proto/result.h"

#define RULE_NONE UINT32_MAX

struct rule_tree;

/* NULL: out of memory. */
struct rule_tree *rule_tree_create(struct grammar_builder *builder);
void rule_tree_destroy(struct rule_tree *tree);

/* The rule of this name; a new one without a definition if there is none yet. `place`: where in the
 * text it was first named, for errors. */
uint32_t rule_tree_rule(struct rule_tree *tree, const char *name, size_t length, size_t place);
bool rule_tree_is_defined(const struct rule_tree *tree, uint32_t rule);
void rule_tree_define(struct rule_tree *tree, uint32_t rule, uint32_t node);

/* Nodes. Sequences and choices are built by adding children in order. */
uint32_t rule_tree_regex(struct rule_tree *tree, regex_id regex);
uint32_t rule_tree_symbol(struct rule_tree *tree, symbol_id symbol);
uint32_t rule_tree_reference(struct rule_tree *tree, uint32_t rule);
uint32_t rule_tree_sequence(struct rule_tree *tree);
uint32_t rule_tree_choice(struct rule_tree *tree);
void rule_tree_add(struct rule_tree *tree, uint32_t parent, uint32_t child);
uint32_t rule_tree_repeat(struct rule_tree *tree, uint32_t child, uint32_t minimum,
                          uint32_t maximum);

/* The symbol of `rule`, of which every rule that was named must be defined. False: an error is set,
 * the builder failed, or memory ran out (the message is empty). */
bool rule_tree_finish(struct rule_tree *tree, uint32_t rule, symbol_id *symbol,
                      struct grammar_error *error) RESULT_CHECKED;

#endif
