/*
 * The syntax tree: immutable once the scope pass (jinja_scope.h) has bound its names. All of it is
 * in the compiled template's arena.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_NODE_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_NODE_H

#include "frontend/prompt/jinja/jinja_token.h"
#include "frontend/prompt/jinja/jinja_value.h"

enum jinja_node_type {
    /* expressions */
    NODE_CONST,
    NODE_NAME,
    NODE_NAMESPACE_REF, /* `ns.x` as an assignment's target */
    NODE_TUPLE,
    NODE_LIST,
    NODE_DICT, /* items: key, value, key, value … */
    NODE_MEMBER,
    NODE_INDEX,
    NODE_SLICE, /* items: start, stop, step; NULL where absent */
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_CONDITION, /* items: test, then, else or NULL */
    NODE_OR,
    NODE_AND,
    NODE_NOT,
    NODE_COMPARE,
    NODE_ARITHMETIC,
    NODE_CONCAT,
    NODE_NEGATE,
    NODE_PLUS,
    /* statements */
    NODE_OUTPUT,
    NODE_IF, /* items: test, body, test, body …, and an else body with a NULL test */
    NODE_FOR,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_WITH,
    NODE_SCOPE, /* generation blocks: a scope of their own */
    NODE_BODY,  /* a sequence of statements */
    NODE_BREAK,
    NODE_CONTINUE,
};

/* The source of a slot's value when its scope is entered. */
enum jinja_load {
    LOAD_PARAMETER, /* set by the code that enters the scope */
    LOAD_GLOBAL,    /* set by the code that enters the scope */
    LOAD_ALIAS,     /* the outer scope's value, copied */
    LOAD_UNDEFINED,
};

struct jinja_slot {
    const char *name;
    size_t name_bytes;
    enum jinja_load load;
    bool stored;
    uint32_t store_order; /* of the first store, among all in the template */
    uint32_t alias_depth; /* for LOAD_ALIAS: scopes up from the slot's own, >= 1 */
    uint32_t alias_slot;
};

struct jinja_scope {
    struct jinja_scope *outer;
    struct jinja_slot *slots;
    size_t count;
    size_t capacity;
};

struct jinja_keyword {
    const char *name;
    size_t name_bytes;
    struct jinja_node *value;
};

struct jinja_arguments {
    struct jinja_node **positional;
    size_t positional_count;
    struct jinja_keyword *keywords;
    size_t keyword_count;
    struct jinja_node *star;        /* *args or NULL */
    struct jinja_node *double_star; /* **kwargs or NULL */
};

struct jinja_parameter {
    struct jinja_node *name;     /* NODE_NAME */
    struct jinja_node *fallback; /* or NULL */
};

/* A macro, or the body of a call block. Hidden slots are UINT32_MAX if the body does not use
 * them. */
struct jinja_macro_body {
    struct jinja_scope *scope;
    struct jinja_parameter *parameters;
    size_t parameter_count;
    struct jinja_node *body;
    bool uses_caller;
    bool uses_kwargs;
    bool uses_varargs;
    uint32_t caller_slot;
    uint32_t kwargs_slot;
    uint32_t varargs_slot;
};

struct jinja_loop_body {
    struct jinja_scope *scope;
    struct jinja_scope *test_scope;
    struct jinja_scope *else_scope;
    struct jinja_node *target;
    struct jinja_node *iterable;
    struct jinja_node *test;        /* NULL */
    struct jinja_node *test_target; /* the target as the test's scope sees it */
    struct jinja_node *body;
    struct jinja_node *otherwise; /* NULL */
    bool uses_loop;
    bool recursive;
    uint32_t loop_slot;
};

struct jinja_node {
    enum jinja_node_type type;
    int line;
    bool store;                       /* of a name: a target */
    enum jinja_token_type *operators; /* compare, arithmetic: one before each item but the first */
    const char *name;                 /* name, namespace ref, member, filter, test, macro */
    size_t name_bytes;
    uint32_t depth; /* name: scopes up */
    uint32_t slot;
    struct jinja_node
        *subject; /* member, index, call, filter, test, not …, set's value, block's expression */
    struct jinja_node **items;
    size_t count;
    struct jinja_arguments *arguments;
    const struct jinja_signature
        *signature;            /* filter, test; NULL when unknown (fails when reached) */
    struct jinja_value value;  /* const; a member's name as a string */
    struct jinja_node *target; /* set, set block: what is assigned to */
    struct jinja_node *body;
    struct jinja_scope *scope;
    struct jinja_macro_body *macro;
    struct jinja_loop_body *loop;
};

#endif
