/*
 * Call arguments: positional, keyword, *list and **dict, in Python's order.
 *
 * jinja2 has its own rules about which kind of argument may follow which, as in `f(a, k=1, *more)`.
 * One loop records the kinds seen so far and refuses what jinja2 refuses, with jinja2's messages.
 */
#include "frontend/prompt/jinja/jinja_arguments.h"

#include <string.h>

bool jinja_arguments_string(struct jinja_parser *parser, const char *bytes, size_t length,
                            struct jinja_value *out)
{
    struct jinja_string *string = jinja_parser_take(parser, 1, sizeof(*string));
    if (string == NULL)
        return false;
    *string = (struct jinja_string){.bytes = bytes, .length = length, .trusted = true};
    *out = jinja_string(string);
    return true;
}

struct jinja_arguments *jinja_arguments_none(struct jinja_parser *parser)
{
    struct jinja_arguments *arguments = jinja_parser_take(parser, 1, sizeof(*arguments));
    if (arguments != NULL)
        *arguments = (struct jinja_arguments){0};
    return arguments;
}

struct jinja_arguments *jinja_arguments_one(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_arguments *arguments = jinja_arguments_none(parser);
    struct jinja_node_list list = {0};
    if (arguments == NULL || !jinja_parser_add(parser, &list, node))
        return NULL;
    arguments->positional = list.items;
    arguments->positional_count = 1;
    return arguments;
}

static bool add_keyword(struct jinja_parser *parser, struct jinja_arguments *arguments,
                        size_t *capacity)
{
    const struct jinja_token *name = parser->at;
    jinja_parser_next(parser);
    jinja_parser_next(parser);
    struct jinja_node *value = jinja_expression_parse(parser, true);
    if (value == NULL)
        return false;
    for (size_t i = 0; i < arguments->keyword_count; i++)
        if (arguments->keywords[i].name_bytes == name->text_bytes &&
            memcmp(arguments->keywords[i].name, name->text, name->text_bytes) == 0)
            return jinja_parser_fail(parser, name->line, "keyword argument repeated");
    if (arguments->keyword_count == *capacity) {
        *capacity = *capacity == 0 ? 4 : *capacity * 2;
        struct jinja_keyword *grown = jinja_parser_take(parser, *capacity, sizeof(*grown));
        if (grown == NULL)
            return false;
        if (arguments->keyword_count > 0)
            memcpy(grown, arguments->keywords, arguments->keyword_count * sizeof(*grown));
        arguments->keywords = grown;
    }
    arguments->keywords[arguments->keyword_count++] =
        (struct jinja_keyword){name->text, name->text_bytes, value};
    return true;
}

static bool order_fail(struct jinja_parser *parser, int line)
{
    return jinja_parser_fail(parser, line, "invalid syntax for function call expression");
}

static bool add_argument(struct jinja_parser *parser, struct jinja_arguments *arguments,
                         struct jinja_node_list *positional, size_t *keyword_capacity, int line)
{
    if (jinja_parser_skip(parser, TOKEN_MUL)) {
        if (arguments->star != NULL || arguments->double_star != NULL)
            return order_fail(parser, line);
        arguments->star = jinja_expression_parse(parser, true);
        return arguments->star != NULL;
    }
    if (jinja_parser_skip(parser, TOKEN_POW)) {
        if (arguments->double_star != NULL)
            return order_fail(parser, line);
        arguments->double_star = jinja_expression_parse(parser, true);
        return arguments->double_star != NULL;
    }
    if (parser->at->type == TOKEN_NAME && parser->at[1].type == TOKEN_ASSIGN) {
        if (arguments->double_star != NULL)
            return order_fail(parser, line);
        return add_keyword(parser, arguments, keyword_capacity);
    }
    if (arguments->star != NULL || arguments->double_star != NULL || arguments->keyword_count > 0)
        return order_fail(parser, line);
    return jinja_parser_add(parser, positional, jinja_expression_parse(parser, true));
}

struct jinja_arguments *jinja_arguments_parse(struct jinja_parser *parser)
{
    struct jinja_arguments *arguments = jinja_arguments_none(parser);
    struct jinja_node_list positional = {0};
    size_t keyword_capacity = 0;
    int line = parser->at->line;
    bool first = true;
    if (arguments == NULL || !jinja_parser_expect(parser, TOKEN_LPAREN))
        return NULL;
    while (parser->at->type != TOKEN_RPAREN) {
        if (!first && !jinja_parser_expect(parser, TOKEN_COMMA))
            return NULL;
        if (!first && parser->at->type == TOKEN_RPAREN)
            break;
        first = false;
        if (!add_argument(parser, arguments, &positional, &keyword_capacity, line))
            return NULL;
    }
    if (!jinja_parser_expect(parser, TOKEN_RPAREN))
        return NULL;
    arguments->positional = positional.items;
    arguments->positional_count = positional.count;
    return arguments;
}
