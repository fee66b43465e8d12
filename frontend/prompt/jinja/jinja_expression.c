/*
 * Expressions, by precedence climbing: condition, or, and, not, comparison, sum, concatenation,
 * product, power, unary, postfix (member, index, call), filter and test.
 *
 * jinja2's precedence differs from Python's (`~` binds tighter than `+`, a filter tighter than a
 * minus sign). One function per level; a chain of operators of one level is one node with many
 * items, so the depth of the tree is the nesting of the source, which is bounded, and not the
 * length of a chain.
 *
 * Everything that jinja2 accepts is accepted, except chains of more than LIMIT_TEMPLATE_CALL_DEPTH
 * / 4 postfixes.
 */
#include "frontend/prompt/jinja/jinja_expression.h"

#include <string.h>

#include "frontend/prompt/jinja/jinja_arguments.h"
#include "frontend/prompt/jinja/jinja_filters.h"
#include "frontend/prompt/jinja/jinja_tests.h"
#include "proto/limits.h"

#define POSTFIXES_MAX (LIMIT_TEMPLATE_CALL_DEPTH / 4)

typedef struct jinja_node *level_parser(struct jinja_parser *parser);

static struct jinja_node *parse_or(struct jinja_parser *parser);
static struct jinja_node *parse_unary(struct jinja_parser *parser, bool with_filters);

static struct jinja_node *parse_name(struct jinja_parser *parser, bool with_namespace)
{
    const struct jinja_token *token = parser->at;
    struct jinja_node *node = jinja_parser_node(parser, NODE_CONST, token->line);
    if (node == NULL)
        return NULL;
    if (jinja_parser_skip_word(parser, "true") || jinja_parser_skip_word(parser, "True")) {
        node->value = jinja_bool(true);
    } else if (jinja_parser_skip_word(parser, "false") || jinja_parser_skip_word(parser, "False")) {
        node->value = jinja_bool(false);
    } else if (jinja_parser_skip_word(parser, "none") || jinja_parser_skip_word(parser, "None")) {
        node->value = jinja_none();
    } else {
        jinja_parser_next(parser);
        node->type = NODE_NAME;
        node->name = token->text;
        node->name_bytes = token->text_bytes;
        bool loop = token->text_bytes == 4 && memcmp(token->text, "loop", 4) == 0;
        parser->uses.loop += loop ? 1 : 0;
        parser->uses.caller +=
            token->text_bytes == 6 && memcmp(token->text, "caller", 6) == 0 ? 1 : 0;
        parser->uses.kwargs +=
            token->text_bytes == 6 && memcmp(token->text, "kwargs", 6) == 0 ? 1 : 0;
        parser->uses.varargs +=
            token->text_bytes == 7 && memcmp(token->text, "varargs", 7) == 0 ? 1 : 0;
        if (with_namespace && jinja_parser_skip(parser, TOKEN_DOT)) {
            const struct jinja_token *member = parser->at;
            if (!jinja_parser_expect(parser, TOKEN_NAME))
                return NULL;
            node->type = NODE_NAMESPACE_REF;
            if (!jinja_arguments_string(parser, member->text, member->text_bytes, &node->value))
                return NULL;
        }
    }
    return node;
}

/* Adjacent string literals are one. */
static struct jinja_node *parse_string(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parser_node(parser, NODE_CONST, parser->at->line);
    size_t length = 0;
    for (const struct jinja_token *token = parser->at; token->type == TOKEN_STRING; token++)
        length += token->text_bytes;
    char *bytes = node == NULL ? NULL : jinja_parser_take(parser, length + 1, 1);
    if (bytes == NULL)
        return NULL;
    size_t at = 0;
    for (; parser->at->type == TOKEN_STRING; jinja_parser_next(parser)) {
        memcpy(bytes + at, parser->at->text, parser->at->text_bytes);
        at += parser->at->text_bytes;
    }
    return jinja_arguments_string(parser, bytes, length, &node->value) ? node : NULL;
}

/* Items up to a closing bracket: of a list, or alternating keys and values. */
static struct jinja_node *parse_display(struct jinja_parser *parser, enum jinja_node_type type,
                                        enum jinja_token_type close)
{
    struct jinja_node *node = jinja_parser_node(parser, type, parser->at->line);
    struct jinja_node_list list = {0};
    jinja_parser_next(parser);
    while (node != NULL && parser->at->type != close) {
        if (list.count > 0 && !jinja_parser_expect(parser, TOKEN_COMMA))
            return NULL;
        if (parser->at->type == close)
            break;
        if (!jinja_parser_add(parser, &list, jinja_expression_parse(parser, true)))
            return NULL;
        if (type != NODE_DICT)
            continue;
        if (!jinja_parser_expect(parser, TOKEN_COLON) ||
            !jinja_parser_add(parser, &list, jinja_expression_parse(parser, true)))
            return NULL;
    }
    if (node == NULL || !jinja_parser_expect(parser, close))
        return NULL;
    node->items = list.items;
    node->count = list.count;
    return node;
}

static struct jinja_node *parse_primary(struct jinja_parser *parser, bool with_namespace)
{
    const struct jinja_token *token = parser->at;
    struct jinja_node *node = NULL;
    if (!jinja_parser_enter(parser))
        return NULL;
    switch (token->type) {
    case TOKEN_NAME: node = parse_name(parser, with_namespace); break;
    case TOKEN_STRING: node = parse_string(parser); break;
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
        jinja_parser_next(parser);
        node = jinja_parser_node(parser, NODE_CONST, token->line);
        if (node != NULL)
            node->value =
                token->type == TOKEN_INTEGER ? jinja_int(token->integer) : jinja_float(token->real);
        break;
    case TOKEN_LPAREN:
        jinja_parser_next(parser);
        node = jinja_expression_tuple(
            parser, (struct jinja_tuple_rules){.with_condition = true, .in_parentheses = true});
        if (!jinja_parser_expect(parser, TOKEN_RPAREN))
            node = NULL;
        break;
    case TOKEN_LBRACKET: node = parse_display(parser, NODE_LIST, TOKEN_RBRACKET); break;
    case TOKEN_LBRACE: node = parse_display(parser, NODE_DICT, TOKEN_RBRACE); break;
    default:
        (void)jinja_parser_fail(parser, token->line, "unexpected '%.*s'",
                                (int)(token->text_bytes > 40 ? 40 : token->text_bytes),
                                token->text == NULL ? "" : token->text);
    }
    parser->depth--;
    return node;
}

/* One part of an index in brackets: an expression or a slice. */
static struct jinja_node *parse_subscript(struct jinja_parser *parser)
{
    struct jinja_node *parts[3] = {NULL, NULL, NULL};
    int line = parser->at->line;
    if (parser->at->type != TOKEN_COLON) {
        parts[0] = jinja_expression_parse(parser, true);
        if (parts[0] == NULL || parser->at->type != TOKEN_COLON)
            return parts[0];
    }
    for (size_t i = 1; i < 3 && jinja_parser_skip(parser, TOKEN_COLON); i++) {
        enum jinja_token_type next = parser->at->type;
        if (next == TOKEN_COLON || next == TOKEN_RBRACKET || next == TOKEN_COMMA)
            continue;
        parts[i] = jinja_expression_parse(parser, true);
        if (parts[i] == NULL)
            return NULL;
    }
    struct jinja_node *slice = jinja_parser_node(parser, NODE_SLICE, line);
    struct jinja_node **items = jinja_parser_take(parser, 3, sizeof(*items));
    if (slice == NULL || items == NULL)
        return NULL;
    memcpy(items, parts, sizeof(parts));
    slice->items = items;
    slice->count = 3;
    return slice;
}

static struct jinja_node *parse_index(struct jinja_parser *parser, struct jinja_node *subject)
{
    struct jinja_node *node = jinja_parser_node(parser, NODE_INDEX, parser->at->line);
    struct jinja_node_list list = {0};
    jinja_parser_next(parser);
    while (node != NULL && parser->at->type != TOKEN_RBRACKET) {
        if (list.count > 0 && !jinja_parser_expect(parser, TOKEN_COMMA))
            return NULL;
        if (!jinja_parser_add(parser, &list, parse_subscript(parser)))
            return NULL;
    }
    if (node == NULL || !jinja_parser_expect(parser, TOKEN_RBRACKET))
        return NULL;
    struct jinja_node *key =
        list.count == 1 ? list.items[0] : jinja_parser_node(parser, NODE_TUPLE, node->line);
    if (key == NULL)
        return NULL;
    if (list.count != 1) {
        key->items = list.items;
        key->count = list.count;
    }
    struct jinja_node_list keys = {0};
    if (!jinja_parser_add(parser, &keys, key))
        return NULL;
    node->subject = subject;
    node->items = keys.items;
    node->count = 1;
    return node;
}

static struct jinja_node *parse_member(struct jinja_parser *parser, struct jinja_node *subject)
{
    struct jinja_node *node = jinja_parser_node(parser, NODE_MEMBER, parser->at->line);
    jinja_parser_next(parser);
    const struct jinja_token *token = parser->at;
    if (node == NULL)
        return NULL;
    node->subject = subject;
    if (jinja_parser_skip(parser, TOKEN_NAME))
        return jinja_arguments_string(parser, token->text, token->text_bytes, &node->value) ? node
                                                                                            : NULL;
    if (!jinja_parser_skip(parser, TOKEN_INTEGER)) {
        (void)jinja_parser_fail(parser, token->line, "expected name or number");
        return NULL;
    }
    struct jinja_node *key = jinja_parser_node(parser, NODE_CONST, token->line);
    struct jinja_node_list keys = {0};
    if (key == NULL || !jinja_parser_add(parser, &keys, key))
        return NULL;
    key->value = jinja_int(token->integer);
    node->type = NODE_INDEX;
    node->items = keys.items;
    node->count = 1;
    return node;
}

static struct jinja_node *parse_call(struct jinja_parser *parser, struct jinja_node *subject)
{
    struct jinja_node *node = jinja_parser_node(parser, NODE_CALL, parser->at->line);
    if (node == NULL)
        return NULL;
    node->subject = subject;
    node->arguments = jinja_arguments_parse(parser);
    return node->arguments == NULL ? NULL : node;
}

static bool postfix_counts(struct jinja_parser *parser, unsigned count)
{
    return count < POSTFIXES_MAX || jinja_parser_fail_bound(parser, "expression is too long");
}

static struct jinja_node *parse_postfix(struct jinja_parser *parser, struct jinja_node *node)
{
    for (unsigned count = 0; node != NULL; count++) {
        enum jinja_token_type type = parser->at->type;
        if (type != TOKEN_DOT && type != TOKEN_LBRACKET && type != TOKEN_LPAREN)
            break;
        if (!postfix_counts(parser, count))
            return NULL;
        if (type == TOKEN_DOT)
            node = parse_member(parser, node);
        else
            node = type == TOKEN_LPAREN ? parse_call(parser, node) : parse_index(parser, node);
    }
    return node;
}

/* Parses a filter's or test's name, which may have dots, and looks it up in its table. */
static struct jinja_node *parse_named(struct jinja_parser *parser, enum jinja_node_type type)
{
    const struct jinja_token *first = parser->at;
    struct jinja_node *node = jinja_parser_node(parser, type, first->line);
    if (node == NULL || !jinja_parser_expect(parser, TOKEN_NAME))
        return NULL;
    const struct jinja_token *last = first;
    while (jinja_parser_skip(parser, TOKEN_DOT)) {
        last = parser->at;
        if (!jinja_parser_expect(parser, TOKEN_NAME))
            return NULL;
    }
    node->name = first->text;
    node->name_bytes = (size_t)(last->text + last->text_bytes - first->text);
    node->signature = type == NODE_FILTER ? jinja_filter_find(node->name, node->name_bytes)
                                          : jinja_test_find(node->name, node->name_bytes);
    if (node->signature == NULL && parser->soft_depth == 0) {
        (void)jinja_parser_fail(parser, first->line, "No %s named '%.*s'.",
                                type == NODE_FILTER ? "filter" : "test",
                                (int)(node->name_bytes > 60 ? 60 : node->name_bytes), node->name);
        return NULL;
    }
    return node;
}

/* Parses one filter, whose name is next, around the subject. */
static struct jinja_node *parse_filter(struct jinja_parser *parser, struct jinja_node *subject)
{
    struct jinja_node *filter = parse_named(parser, NODE_FILTER);
    if (filter == NULL)
        return NULL;
    filter->subject = subject;
    filter->arguments = parser->at->type == TOKEN_LPAREN ? jinja_arguments_parse(parser)
                                                         : jinja_arguments_none(parser);
    return filter->arguments == NULL ? NULL : filter;
}

struct jinja_node *jinja_expression_filters(struct jinja_parser *parser, bool inline_first)
{
    struct jinja_node *filters = NULL;
    for (unsigned count = 0; inline_first || parser->at->type == TOKEN_PIPE; count++) {
        if (!inline_first)
            jinja_parser_next(parser);
        inline_first = false;
        filters = postfix_counts(parser, count) ? parse_filter(parser, filters) : NULL;
        if (filters == NULL)
            return NULL;
    }
    return filters;
}

static bool starts_test_argument(const struct jinja_parser *parser)
{
    switch (parser->at->type) {
    case TOKEN_NAME:
        return !jinja_parser_is_word(parser, "else") && !jinja_parser_is_word(parser, "or") &&
               !jinja_parser_is_word(parser, "and");
    case TOKEN_STRING:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
    case TOKEN_LBRACKET:
    case TOKEN_LBRACE: return true;
    default: return false;
    }
}

static struct jinja_node *parse_test(struct jinja_parser *parser, struct jinja_node *subject)
{
    int line = parser->at->line;
    jinja_parser_next(parser); /* `is` */
    bool negated = jinja_parser_skip_word(parser, "not");
    struct jinja_node *test = parse_named(parser, NODE_TEST);
    if (test == NULL)
        return NULL;
    test->subject = subject;
    if (parser->at->type == TOKEN_LPAREN) {
        test->arguments = jinja_arguments_parse(parser);
    } else if (starts_test_argument(parser)) {
        if (jinja_parser_is_word(parser, "is")) {
            (void)jinja_parser_fail(parser, line, "You cannot chain multiple tests with is");
            return NULL;
        }
        test->arguments =
            jinja_arguments_one(parser, parse_postfix(parser, parse_primary(parser, false)));
    } else {
        test->arguments = jinja_arguments_none(parser);
    }
    if (test->arguments == NULL || !negated)
        return test->arguments == NULL ? NULL : test;
    struct jinja_node *node = jinja_parser_node(parser, NODE_NOT, line);
    if (node != NULL)
        node->subject = test;
    return node;
}

static struct jinja_node *parse_filters_and_tests(struct jinja_parser *parser,
                                                  struct jinja_node *node)
{
    for (unsigned count = 0; node != NULL; count++) {
        bool call = parser->at->type == TOKEN_LPAREN;
        bool test = jinja_parser_is_word(parser, "is");
        if (!call && !test && parser->at->type != TOKEN_PIPE)
            break;
        if (!postfix_counts(parser, count))
            return NULL;
        if (!call && !test)
            jinja_parser_next(parser); /* the bar */
        if (call)
            node = parse_call(parser, node);
        else
            node = test ? parse_test(parser, node) : parse_filter(parser, node);
    }
    return node;
}

static struct jinja_node *parse_sign(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parser_node(
        parser, parser->at->type == TOKEN_SUB ? NODE_NEGATE : NODE_PLUS, parser->at->line);
    jinja_parser_next(parser);
    if (node == NULL || !jinja_parser_enter(parser))
        return NULL;
    node->subject = parse_unary(parser, false);
    parser->depth--;
    return node->subject == NULL ? NULL : node;
}

static struct jinja_node *parse_unary(struct jinja_parser *parser, bool with_filters)
{
    bool sign = parser->at->type == TOKEN_SUB || parser->at->type == TOKEN_ADD;
    struct jinja_node *node = sign ? parse_sign(parser) : parse_primary(parser, false);
    node = parse_postfix(parser, node);
    return with_filters ? parse_filters_and_tests(parser, node) : node;
}

static struct jinja_node *parse_operand(struct jinja_parser *parser)
{
    return parse_unary(parser, true);
}

/* A chain `a op b op c` of the given operators as one node; a lone operand as itself. */
static struct jinja_node *parse_chain(struct jinja_parser *parser, level_parser *operand,
                                      enum jinja_node_type type,
                                      const enum jinja_token_type operators[],
                                      size_t operator_count)
{
    int line = parser->at->line;
    struct jinja_node *first = operand(parser);
    struct jinja_node_list list = {0};
    enum jinja_token_type *found = NULL;
    size_t capacity = 0;
    for (;;) {
        bool matches = false;
        for (size_t i = 0; i < operator_count; i++)
            matches = matches || parser->at->type == operators[i];
        if (first == NULL || !matches)
            break;
        if (list.count == 0 && !jinja_parser_add(parser, &list, first))
            return NULL;
        if (list.count >= capacity) {
            capacity = capacity == 0 ? 4 : capacity * 2;
            enum jinja_token_type *grown = jinja_parser_take(parser, capacity, sizeof(*grown));
            if (grown == NULL)
                return NULL;
            if (found != NULL)
                memcpy(grown, found, list.count * sizeof(*grown));
            found = grown;
        }
        found[list.count] = parser->at->type;
        jinja_parser_next(parser);
        if (!jinja_parser_add(parser, &list, operand(parser)))
            return NULL;
    }
    if (first == NULL || list.count == 0)
        return first;
    struct jinja_node *node = jinja_parser_node(parser, type, line);
    if (node == NULL)
        return NULL;
    node->items = list.items;
    node->count = list.count;
    node->operators = found;
    return node;
}

static struct jinja_node *parse_power(struct jinja_parser *parser)
{
    static const enum jinja_token_type operators[] = {TOKEN_POW};
    return parse_chain(parser, parse_operand, NODE_ARITHMETIC, operators, 1);
}

static struct jinja_node *parse_product(struct jinja_parser *parser)
{
    static const enum jinja_token_type operators[] = {TOKEN_MUL, TOKEN_DIV, TOKEN_FLOORDIV,
                                                      TOKEN_MOD};
    return parse_chain(parser, parse_power, NODE_ARITHMETIC, operators, 4);
}

static struct jinja_node *parse_concat(struct jinja_parser *parser)
{
    static const enum jinja_token_type operators[] = {TOKEN_TILDE};
    return parse_chain(parser, parse_product, NODE_CONCAT, operators, 1);
}

static struct jinja_node *parse_sum(struct jinja_parser *parser)
{
    static const enum jinja_token_type operators[] = {TOKEN_ADD, TOKEN_SUB};
    return parse_chain(parser, parse_concat, NODE_ARITHMETIC, operators, 2);
}

/* The comparison at the current token: TOKEN_PIPE stands for `in`, TOKEN_TILDE for `not in`,
 * TOKEN_END for none. */
static enum jinja_token_type take_comparison(struct jinja_parser *parser)
{
    enum jinja_token_type type = parser->at->type;
    if (type >= TOKEN_EQ && type <= TOKEN_GE) {
        jinja_parser_next(parser);
        return type;
    }
    if (jinja_parser_skip_word(parser, "in"))
        return TOKEN_PIPE;
    if (!jinja_parser_is_word(parser, "not"))
        return TOKEN_END;
    const struct jinja_token *not_token = parser->at;
    jinja_parser_next(parser);
    if (jinja_parser_skip_word(parser, "in"))
        return TOKEN_TILDE;
    parser->at = not_token;
    return TOKEN_END;
}

static struct jinja_node *parse_compare(struct jinja_parser *parser)
{
    struct jinja_node *first = parse_sum(parser);
    struct jinja_node *node = NULL;
    struct jinja_node_list list = {0};
    enum jinja_token_type operators[LIMIT_TEMPLATE_DEPTH];
    while (first != NULL) {
        enum jinja_token_type type = take_comparison(parser);
        if (type == TOKEN_END)
            break;
        if (list.count == 0 && !jinja_parser_add(parser, &list, first))
            return NULL;
        if (list.count == LIMIT_TEMPLATE_DEPTH) {
            (void)jinja_parser_fail_bound(parser, "expression is too long");
            return NULL;
        }
        operators[list.count] = type;
        if (!jinja_parser_add(parser, &list, parse_sum(parser)))
            return NULL;
    }
    if (first == NULL || list.count == 0)
        return first;
    node = jinja_parser_node(parser, NODE_COMPARE, first->line);
    enum jinja_token_type *kept = jinja_parser_take(parser, list.count, sizeof(*kept));
    if (node == NULL || kept == NULL)
        return NULL;
    memcpy(kept + 1, operators + 1, (list.count - 1) * sizeof(*kept));
    node->operators = kept;
    node->items = list.items;
    node->count = list.count;
    return node;
}

static struct jinja_node *parse_not(struct jinja_parser *parser)
{
    int line = parser->at->line;
    if (!jinja_parser_skip_word(parser, "not"))
        return parse_compare(parser);
    struct jinja_node *node = jinja_parser_node(parser, NODE_NOT, line);
    if (node == NULL || !jinja_parser_enter(parser))
        return NULL;
    node->subject = parse_not(parser);
    parser->depth--;
    return node->subject == NULL ? NULL : node;
}

static struct jinja_node *parse_logic(struct jinja_parser *parser, level_parser *operand,
                                      enum jinja_node_type type, const char *word)
{
    struct jinja_node *first = operand(parser);
    struct jinja_node_list list = {0};
    while (first != NULL && jinja_parser_skip_word(parser, word)) {
        if (list.count == 0 && !jinja_parser_add(parser, &list, first))
            return NULL;
        if (!jinja_parser_add(parser, &list, operand(parser)))
            return NULL;
    }
    if (first == NULL || list.count == 0)
        return first;
    struct jinja_node *node = jinja_parser_node(parser, type, first->line);
    if (node == NULL)
        return NULL;
    node->items = list.items;
    node->count = list.count;
    return node;
}

static struct jinja_node *parse_and(struct jinja_parser *parser)
{
    return parse_logic(parser, parse_not, NODE_AND, "and");
}

static struct jinja_node *parse_or(struct jinja_parser *parser)
{
    return parse_logic(parser, parse_and, NODE_OR, "or");
}

/* `then if test else otherwise`; the else branch is optional and may be a condition itself. */
static struct jinja_node *parse_condition(struct jinja_parser *parser)
{
    const struct jinja_token *start = parser->at;
    struct jinja_node *node = parse_or(parser);
    bool again = false;
    while (node != NULL && jinja_parser_skip_word(parser, "if")) {
        struct jinja_node *condition = jinja_parser_node(parser, NODE_CONDITION, start->line);
        struct jinja_node **items = jinja_parser_take(parser, 3, sizeof(*items));
        if (condition == NULL || items == NULL || (again && !jinja_parser_enter(parser)))
            return NULL;
        items[0] = parse_or(parser);
        items[1] = node;
        items[2] = NULL;
        if (items[0] != NULL && jinja_parser_skip_word(parser, "else")) {
            if (!jinja_parser_enter(parser))
                return NULL;
            items[2] = parse_condition(parser);
            parser->depth--;
            if (items[2] == NULL)
                return NULL;
        }
        if (items[0] == NULL)
            return NULL;
        condition->items = items;
        condition->count = 3;
        node = condition;
        again = true; /* each further `if` nests the expression before it */
    }
    return node;
}

/* A condition makes unknown filters in all its parts fail only when reached, and the part before
 * `if` is parsed before the condition is known. */
static bool condition_follows(const struct jinja_parser *parser)
{
    int open = 0;
    for (const struct jinja_token *token = parser->at; token->type != TOKEN_END; token++) {
        switch (token->type) {
        case TOKEN_LPAREN:
        case TOKEN_LBRACKET:
        case TOKEN_LBRACE: open++; break;
        case TOKEN_RPAREN:
        case TOKEN_RBRACKET:
        case TOKEN_RBRACE: open--; break;
        case TOKEN_NAME:
            if (open == 0 && token->text_bytes == 2 && memcmp(token->text, "if", 2) == 0)
                return true;
            break;
        default: break;
        }
        bool ends = token->type == TOKEN_VARIABLE_END || token->type == TOKEN_BLOCK_END ||
                    token->type == TOKEN_COMMA || token->type == TOKEN_COLON;
        if (open < 0 || (open == 0 && ends))
            return false;
    }
    return false;
}

struct jinja_node *jinja_expression_parse(struct jinja_parser *parser, bool with_condition)
{
    unsigned depth = parser->depth;
    if (!jinja_parser_enter(parser))
        return NULL;
    bool soft = with_condition && parser->soft_depth == 0 && condition_follows(parser);
    parser->soft_depth += soft ? 1 : 0;
    struct jinja_node *node = with_condition ? parse_condition(parser) : parse_or(parser);
    parser->soft_depth -= soft ? 1 : 0;
    parser->depth = depth;
    return node;
}

static bool tuple_ends(const struct jinja_parser *parser, struct jinja_tuple_rules rules)
{
    enum jinja_token_type type = parser->at->type;
    return type == TOKEN_VARIABLE_END || type == TOKEN_BLOCK_END || type == TOKEN_RPAREN ||
           (rules.end_word != NULL && jinja_parser_is_word(parser, rules.end_word));
}

struct jinja_node *jinja_expression_tuple(struct jinja_parser *parser,
                                          struct jinja_tuple_rules rules)
{
    int line = parser->at->line;
    struct jinja_node_list list = {0};
    bool tuple = false;
    for (;;) {
        if (list.count > 0 && !jinja_parser_expect(parser, TOKEN_COMMA))
            return NULL;
        if (tuple_ends(parser, rules))
            break;
        struct jinja_node *item = rules.primaries_only
                                      ? parse_primary(parser, rules.with_namespace)
                                      : jinja_expression_parse(parser, rules.with_condition);
        if (!jinja_parser_add(parser, &list, item))
            return NULL;
        if (parser->at->type != TOKEN_COMMA)
            break;
        tuple = true;
    }
    if (!tuple && list.count == 1)
        return list.items[0];
    if (!tuple && !rules.in_parentheses) {
        (void)jinja_parser_fail(parser, line, "Expected an expression");
        return NULL;
    }
    struct jinja_node *node = jinja_parser_node(parser, NODE_TUPLE, line);
    if (node == NULL)
        return NULL;
    node->items = list.items;
    node->count = list.count;
    return node;
}
