/*
 * The parser for expressions, and the state that it shares with the parser for statements.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_EXPRESSION_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_EXPRESSION_H

#include "frontend/prompt/jinja/jinja_arena.h"
#include "frontend/prompt/jinja/jinja_node.h"
#include "proto/result.h"

/* Names with a special meaning in macros and loops: how often each was read so far. */
struct jinja_special_uses {
    unsigned loop;
    unsigned caller;
    unsigned kwargs;
    unsigned varargs;
};

struct jinja_parser {
    struct jinja_arena *arena;
    const struct jinja_token *at; /* never past the TOKEN_END */
    struct error_text *error;
    enum result failure;
    unsigned depth;
    unsigned loop_depth;   /* enclosing loops, for break and continue */
    unsigned target_loops; /* enclosing loops, for targets named `loop` */
    unsigned soft_depth;   /* enclosing conditions: unknown filters fail only when reached */
    struct jinja_special_uses uses;
};

/* A growing list of nodes. */
struct jinja_node_list {
    struct jinja_node **items;
    size_t count;
    size_t capacity;
};

/* Where a tuple without parentheses ends, besides the ends of tags and parentheses. */
struct jinja_tuple_rules {
    bool primaries_only; /* targets: names and literals */
    bool with_condition;
    bool in_parentheses;
    bool with_namespace;  /* `ns.x` is a target */
    const char *end_word; /* or NULL */
};

/* All return NULL or false after the parser failed; the first failure is kept. */
struct jinja_node *jinja_expression_parse(struct jinja_parser *parser, bool with_condition);
struct jinja_node *jinja_expression_tuple(struct jinja_parser *parser,
                                          struct jinja_tuple_rules rules);
/* Filters after `|` without a subject (of filter and set blocks). `inline_first`: the first has no
 * bar. */
struct jinja_node *jinja_expression_filters(struct jinja_parser *parser, bool inline_first);

bool jinja_parser_fail(struct jinja_parser *parser, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Over a bound: RESULT_TOO_LARGE. */
bool jinja_parser_fail_bound(struct jinja_parser *parser, const char *what);
void *jinja_parser_take(struct jinja_parser *parser, size_t count, size_t element_bytes);
struct jinja_node *jinja_parser_node(struct jinja_parser *parser, enum jinja_node_type type,
                                     int line);
bool jinja_parser_add(struct jinja_parser *parser, struct jinja_node_list *list,
                      struct jinja_node *node);
bool jinja_parser_is_word(const struct jinja_parser *parser, const char *word);
bool jinja_parser_skip_word(struct jinja_parser *parser, const char *word);
bool jinja_parser_skip(struct jinja_parser *parser, enum jinja_token_type type);
bool jinja_parser_expect(struct jinja_parser *parser, enum jinja_token_type type);
void jinja_parser_next(struct jinja_parser *parser);
/* Depth of nesting in the source: enter before recursing, leave after. */
bool jinja_parser_enter(struct jinja_parser *parser);

#endif
