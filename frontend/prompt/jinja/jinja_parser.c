/*
 * Statements: text, `{{ }}` and the tags of `{% %}`.
 *
 * Recursive descent with one function per tag, found in a table. A body is parsed until one of its
 * closing words follows `{%`. The surroundings decide about some of its content (break needs a
 * loop, a macro's body determines its hidden parameters). Tags that load other templates or change
 * escaping are refused: a chat template is one file without escaping.
 */
#include "frontend/prompt/jinja/jinja_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_expression.h"
#include "proto/limits.h"

bool jinja_parser_fail(struct jinja_parser *parser, int line, const char *format, ...)
{
    if (parser->failure != RESULT_OK)
        return false;
    char words[200];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(words, sizeof(words), format, arguments);
    va_end(arguments);
    parser->failure = error_set(parser->error, RESULT_INVALID, "line %d: %s", line, words);
    return false;
}

void *jinja_parser_take(struct jinja_parser *parser, size_t count, size_t element_bytes)
{
    void *piece = jinja_arena_take(parser->arena, count * element_bytes);
    if (piece == NULL && parser->failure == RESULT_OK)
        parser->failure = error_set(parser->error, RESULT_TOO_LARGE, "template is too large");
    return piece;
}

struct jinja_node *jinja_parser_node(struct jinja_parser *parser, enum jinja_node_type type,
                                     int line)
{
    struct jinja_node *node = jinja_parser_take(parser, 1, sizeof(*node));
    if (node != NULL)
        *node = (struct jinja_node){.type = type, .line = line};
    return node;
}

bool jinja_parser_add(struct jinja_parser *parser, struct jinja_node_list *list,
                      struct jinja_node *node)
{
    if (node == NULL)
        return false;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 4 : list->capacity * 2;
        struct jinja_node **grown = jinja_parser_take(parser, capacity, sizeof(*grown));
        if (grown == NULL)
            return false;
        if (list->count > 0)
            memcpy(grown, list->items, list->count * sizeof(*grown));
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = node;
    return true;
}

bool jinja_parser_is_word(const struct jinja_parser *parser, const char *word)
{
    return parser->at->type == TOKEN_NAME && parser->at->text_bytes == strlen(word) &&
           memcmp(parser->at->text, word, parser->at->text_bytes) == 0;
}

void jinja_parser_next(struct jinja_parser *parser)
{
    if (parser->at->type != TOKEN_END)
        parser->at++;
}

bool jinja_parser_skip_word(struct jinja_parser *parser, const char *word)
{
    if (!jinja_parser_is_word(parser, word))
        return false;
    jinja_parser_next(parser);
    return true;
}

bool jinja_parser_skip(struct jinja_parser *parser, enum jinja_token_type type)
{
    if (parser->at->type != type)
        return false;
    jinja_parser_next(parser);
    return true;
}

bool jinja_parser_expect(struct jinja_parser *parser, enum jinja_token_type type)
{
    static const char *const names[] = {
        [TOKEN_NAME] = "name", [TOKEN_VARIABLE_END] = "}}", [TOKEN_BLOCK_END] = "%}",
        [TOKEN_LPAREN] = "(",  [TOKEN_RPAREN] = ")",        [TOKEN_RBRACKET] = "]",
        [TOKEN_RBRACE] = "}",  [TOKEN_COMMA] = ",",         [TOKEN_COLON] = ":",
        [TOKEN_ASSIGN] = "=",  [TOKEN_SEMICOLON] = ";"};
    if (jinja_parser_skip(parser, type))
        return true;
    if (parser->at->type == TOKEN_END)
        return jinja_parser_fail(parser, parser->at->line,
                                 "unexpected end of template, expected '%s'.", names[type]);
    return jinja_parser_fail(parser, parser->at->line, "expected token '%s', got '%.*s'",
                             names[type],
                             (int)(parser->at->text_bytes > 60 ? 60 : parser->at->text_bytes),
                             parser->at->text == NULL ? "" : parser->at->text);
}

bool jinja_parser_fail_bound(struct jinja_parser *parser, const char *what)
{
    if (parser->failure == RESULT_OK)
        parser->failure =
            error_set(parser->error, RESULT_TOO_LARGE, "line %d: %s", parser->at->line, what);
    return false;
}

bool jinja_parser_enter(struct jinja_parser *parser)
{
    if (parser->depth == LIMIT_TEMPLATE_DEPTH)
        return jinja_parser_fail_bound(parser, "template nests too deep");
    parser->depth++;
    return true;
}

/* --- targets
 * ---------------------------------------------------------------------------------------------- */

static bool mark_target(struct jinja_parser *parser, struct jinja_node *target)
{
    static const char *const types[] = {
        [NODE_CONST] = "const", [NODE_LIST] = "list", [NODE_DICT] = "dict"};
    if (target->type == NODE_TUPLE) {
        for (size_t i = 0; i < target->count; i++)
            if (!mark_target(parser, target->items[i]))
                return false;
        return true;
    }
    if (target->type == NODE_NAMESPACE_REF)
        return true;
    if (target->type != NODE_NAME)
        return jinja_parser_fail(parser, target->line, "can't assign to '%s'",
                                 target->type <= NODE_DICT ? types[target->type] : "expression");
    bool loop = target->name_bytes == 4 && memcmp(target->name, "loop", 4) == 0;
    if (loop && parser->target_loops > 0)
        return jinja_parser_fail(parser, target->line,
                                 "Can't assign to special loop variable in for-loop target");
    target->store = true;
    return true;
}

static struct jinja_node *parse_target(struct jinja_parser *parser, const char *end_word,
                                       bool with_namespace)
{
    struct jinja_special_uses uses = parser->uses;
    struct jinja_node *target =
        jinja_expression_tuple(parser, (struct jinja_tuple_rules){.primaries_only = true,
                                                                  .with_namespace = with_namespace,
                                                                  .end_word = end_word});
    parser->uses = uses; /* a store is no use */
    return target != NULL && mark_target(parser, target) ? target : NULL;
}

static struct jinja_node *parse_name_target(struct jinja_parser *parser)
{
    const struct jinja_token *token = parser->at;
    struct jinja_node *node = jinja_parser_node(parser, NODE_NAME, token->line);
    if (node == NULL || !jinja_parser_expect(parser, TOKEN_NAME))
        return NULL;
    static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (token->text_bytes == strlen(reserved[i]) &&
            memcmp(token->text, reserved[i], token->text_bytes) == 0) {
            (void)jinja_parser_fail(parser, token->line, "can't assign to 'name'");
            return NULL;
        }
    node->name = token->text;
    node->name_bytes = token->text_bytes;
    return mark_target(parser, node) ? node : NULL;
}

/* A copy, to be bound in another scope. */
static struct jinja_node *copy_target(struct jinja_parser *parser, const struct jinja_node *target)
{
    struct jinja_node *copy = jinja_parser_node(parser, target->type, target->line);
    if (copy == NULL)
        return NULL;
    *copy = *target;
    struct jinja_node_list list = {0};
    for (size_t i = 0; i < target->count; i++)
        if (!jinja_parser_add(parser, &list, copy_target(parser, target->items[i])))
            return NULL;
    copy->items = list.items;
    return copy;
}

/* --- bodies
 * ------------------------------------------------------------------------------------------------
 */

static struct jinja_node *parse_statement(struct jinja_parser *parser);

static bool at_end_word(const struct jinja_parser *parser, const char *const end_words[])
{
    for (size_t i = 0; end_words != NULL && end_words[i] != NULL; i++)
        if (jinja_parser_is_word(parser, end_words[i]))
            return true;
    return false;
}

/* Appends text or `{{ }}` to the current output node. */
static bool parse_output(struct jinja_parser *parser, struct jinja_node_list *pieces)
{
    const struct jinja_token *token = parser->at;
    jinja_parser_next(parser);
    if (token->type == TOKEN_VARIABLE_BEGIN)
        return jinja_parser_add(parser, pieces,
                                jinja_expression_tuple(
                                    parser, (struct jinja_tuple_rules){.with_condition = true})) &&
               jinja_parser_expect(parser, TOKEN_VARIABLE_END);
    struct jinja_node *data = jinja_parser_node(parser, NODE_CONST, token->line);
    struct jinja_string *string = jinja_parser_take(parser, 1, sizeof(*string));
    if (data == NULL || string == NULL)
        return false;
    *string =
        (struct jinja_string){.bytes = token->text, .length = token->text_bytes, .trusted = true};
    data->value = jinja_string(string);
    return jinja_parser_add(parser, pieces, data);
}

static bool flush_output(struct jinja_parser *parser, struct jinja_node_list *pieces,
                         struct jinja_node_list *statements)
{
    if (pieces->count == 0)
        return true;
    struct jinja_node *output = jinja_parser_node(parser, NODE_OUTPUT, pieces->items[0]->line);
    if (output == NULL)
        return false;
    output->items = pieces->items;
    output->count = pieces->count;
    *pieces = (struct jinja_node_list){0};
    return jinja_parser_add(parser, statements, output);
}

/* Statements up to `{% word` with one of the end words (stops at the word), or the template's end
 * if there are none. */
static struct jinja_node *parse_until(struct jinja_parser *parser, const char *const end_words[])
{
    struct jinja_node *body = jinja_parser_node(parser, NODE_BODY, parser->at->line);
    struct jinja_node_list statements = {0};
    struct jinja_node_list pieces = {0};
    bool closed = end_words == NULL;
    if (body == NULL || !jinja_parser_enter(parser))
        return NULL;
    while (parser->at->type != TOKEN_END) {
        if (parser->at->type != TOKEN_BLOCK_BEGIN) {
            if (!parse_output(parser, &pieces))
                return NULL;
            continue;
        }
        if (!flush_output(parser, &pieces, &statements))
            return NULL;
        jinja_parser_next(parser);
        if (at_end_word(parser, end_words)) {
            closed = true;
            break;
        }
        if (!jinja_parser_add(parser, &statements, parse_statement(parser)) ||
            !jinja_parser_expect(parser, TOKEN_BLOCK_END))
            return NULL;
    }
    parser->depth--;
    if (!closed) {
        (void)jinja_parser_fail(
            parser, parser->at->line,
            "Unexpected end of template. Jinja was looking for the following tags: '%s'.",
            end_words[0]);
        return NULL;
    }
    if (!flush_output(parser, &pieces, &statements))
        return NULL;
    body->items = statements.items;
    body->count = statements.count;
    return body;
}

/* The rest of a tag's header (`%}`, perhaps a colon) and its body; the end word is left unread. */
static struct jinja_node *parse_body(struct jinja_parser *parser, const char *const end_words[])
{
    (void)jinja_parser_skip(parser, TOKEN_COLON);
    if (!jinja_parser_expect(parser, TOKEN_BLOCK_END))
        return NULL;
    return parse_until(parser, end_words);
}

/* A body with one end word, which is read. In bodies with their own scope unknown filters are
 * errors again. */
static struct jinja_node *parse_scoped_body(struct jinja_parser *parser, const char *end_word)
{
    const char *const end_words[] = {end_word, NULL};
    unsigned soft_depth = parser->soft_depth;
    parser->soft_depth = 0;
    struct jinja_node *body = parse_body(parser, end_words);
    parser->soft_depth = soft_depth;
    if (body != NULL)
        jinja_parser_next(parser);
    return body;
}

/* --- tags
 * ----------------------------------------------------------------------------------------------------
 */

static struct jinja_node *parse_if(struct jinja_parser *parser, int line)
{
    static const char *const end_words[] = {"elif", "else", "endif", NULL};
    struct jinja_node *node = jinja_parser_node(parser, NODE_IF, line);
    struct jinja_node_list branches = {0};
    bool otherwise = false;
    parser->soft_depth++;
    while (node != NULL) {
        struct jinja_node *test = NULL;
        if (!otherwise)
            test = jinja_expression_tuple(parser, (struct jinja_tuple_rules){0});
        else
            test = jinja_parser_node(parser, NODE_CONST, parser->at->line);
        if (otherwise && test != NULL)
            test->value = jinja_bool(true);
        if (!jinja_parser_add(parser, &branches, test) ||
            !jinja_parser_add(parser, &branches,
                              parse_body(parser, otherwise ? end_words + 2 : end_words)))
            return NULL;
        if (jinja_parser_skip_word(parser, "endif"))
            break;
        otherwise = jinja_parser_is_word(parser, "else");
        jinja_parser_next(parser);
    }
    parser->soft_depth--;
    if (node == NULL)
        return NULL;
    node->items = branches.items;
    node->count = branches.count;
    return node;
}

static bool parse_for_header(struct jinja_parser *parser, struct jinja_loop_body *loop)
{
    parser->target_loops++;
    loop->target = parse_target(parser, "in", false);
    parser->target_loops--;
    if (loop->target == NULL)
        return false;
    if (!jinja_parser_skip_word(parser, "in"))
        return jinja_parser_fail(parser, parser->at->line, "expected token 'in'");
    loop->iterable =
        jinja_expression_tuple(parser, (struct jinja_tuple_rules){.end_word = "recursive"});
    if (loop->iterable == NULL)
        return false;
    if (jinja_parser_skip_word(parser, "if")) {
        unsigned soft_depth = parser->soft_depth;
        parser->soft_depth = 0;
        loop->test = jinja_expression_parse(parser, true);
        parser->soft_depth = soft_depth;
        loop->test_target = copy_target(parser, loop->target);
        if (loop->test == NULL || loop->test_target == NULL)
            return false;
    }
    loop->recursive = jinja_parser_skip_word(parser, "recursive");
    return true;
}

static struct jinja_node *parse_for(struct jinja_parser *parser, int line)
{
    static const char *const end_words[] = {"endfor", "else", NULL};
    struct jinja_node *node = jinja_parser_node(parser, NODE_FOR, line);
    struct jinja_loop_body *loop = jinja_parser_take(parser, 1, sizeof(*loop));
    if (node == NULL || loop == NULL)
        return NULL;
    *loop = (struct jinja_loop_body){0};
    node->loop = loop;
    if (!parse_for_header(parser, loop))
        return NULL;
    unsigned loop_uses = parser->uses.loop;
    unsigned soft_depth = parser->soft_depth;
    parser->soft_depth = 0;
    parser->loop_depth++;
    parser->target_loops++;
    loop->body = parse_body(parser, end_words);
    parser->loop_depth--;
    loop->uses_loop = parser->uses.loop != loop_uses || loop->recursive;
    if (loop->body == NULL)
        return NULL;
    if (jinja_parser_skip_word(parser, "endfor")) {
        parser->target_loops--;
        parser->soft_depth = soft_depth;
        return node;
    }
    jinja_parser_next(parser);
    loop->otherwise = parse_scoped_body(parser, "endfor");
    parser->target_loops--;
    parser->soft_depth = soft_depth;
    return loop->otherwise == NULL ? NULL : node;
}

static bool parse_parameters(struct jinja_parser *parser, struct jinja_macro_body *macro)
{
    size_t capacity = 0;
    if (!jinja_parser_expect(parser, TOKEN_LPAREN))
        return false;
    while (parser->at->type != TOKEN_RPAREN) {
        if (macro->parameter_count > 0 && !jinja_parser_expect(parser, TOKEN_COMMA))
            return false;
        struct jinja_parameter parameter = {parse_name_target(parser), NULL};
        if (parameter.name == NULL)
            return false;
        if (jinja_parser_skip(parser, TOKEN_ASSIGN)) {
            parameter.fallback = jinja_expression_parse(parser, true);
            if (parameter.fallback == NULL)
                return false;
        } else if (macro->parameter_count > 0 &&
                   macro->parameters[macro->parameter_count - 1].fallback != NULL) {
            return jinja_parser_fail(parser, parser->at->line,
                                     "non-default argument follows default argument");
        }
        if (macro->parameter_count == capacity) {
            capacity = capacity == 0 ? 4 : capacity * 2;
            struct jinja_parameter *grown = jinja_parser_take(parser, capacity, sizeof(*grown));
            if (grown == NULL)
                return false;
            if (macro->parameter_count > 0)
                memcpy(grown, macro->parameters, macro->parameter_count * sizeof(*grown));
            macro->parameters = grown;
        }
        macro->parameters[macro->parameter_count++] = parameter;
    }
    return jinja_parser_expect(parser, TOKEN_RPAREN);
}

/* True if the body's special name is a hidden parameter, that is, not declared. */
static bool is_hidden(const struct jinja_macro_body *macro, const char *name)
{
    for (size_t i = 0; i < macro->parameter_count; i++)
        if (macro->parameters[i].name->name_bytes == strlen(name) &&
            memcmp(macro->parameters[i].name->name, name, strlen(name)) == 0)
            return false;
    return true;
}

static bool parse_macro_body(struct jinja_parser *parser, struct jinja_macro_body *macro,
                             const char *end_word)
{
    struct jinja_special_uses before = parser->uses;
    unsigned loop_depth = parser->loop_depth;
    parser->loop_depth = 0;
    macro->body = parse_scoped_body(parser, end_word);
    parser->loop_depth = loop_depth;
    if (macro->body == NULL)
        return false;
    macro->uses_caller = parser->uses.caller != before.caller;
    macro->uses_kwargs = parser->uses.kwargs != before.kwargs && is_hidden(macro, "kwargs");
    macro->uses_varargs = parser->uses.varargs != before.varargs && is_hidden(macro, "varargs");
    if (!macro->uses_caller || is_hidden(macro, "caller"))
        return true;
    for (size_t i = 0; i < macro->parameter_count; i++)
        if (macro->parameters[i].name->name_bytes == 6 &&
            memcmp(macro->parameters[i].name->name, "caller", 6) == 0 &&
            macro->parameters[i].fallback == NULL)
            return jinja_parser_fail(parser, macro->body->line,
                                     "When defining macros or call blocks the special \"caller\" "
                                     "argument must be omitted or be given a default.");
    macro->uses_caller = false; /* an ordinary parameter */
    return true;
}

static struct jinja_node *make_macro(struct jinja_parser *parser, enum jinja_node_type type,
                                     int line)
{
    struct jinja_node *node = jinja_parser_node(parser, type, line);
    struct jinja_macro_body *macro = jinja_parser_take(parser, 1, sizeof(*macro));
    if (node == NULL || macro == NULL)
        return NULL;
    *macro = (struct jinja_macro_body){0};
    node->macro = macro;
    return node;
}

static struct jinja_node *parse_macro(struct jinja_parser *parser, int line)
{
    struct jinja_node *node = make_macro(parser, NODE_MACRO, line);
    if (node == NULL)
        return NULL;
    node->target = parse_name_target(parser);
    if (node->target == NULL || !parse_parameters(parser, node->macro) ||
        !parse_macro_body(parser, node->macro, "endmacro"))
        return NULL;
    node->name = node->target->name;
    node->name_bytes = node->target->name_bytes;
    return node;
}

static struct jinja_node *parse_call_block(struct jinja_parser *parser, int line)
{
    struct jinja_node *node = make_macro(parser, NODE_CALL_BLOCK, line);
    if (node == NULL)
        return NULL;
    if (parser->at->type == TOKEN_LPAREN && !parse_parameters(parser, node->macro))
        return NULL;
    node->subject = jinja_expression_parse(parser, true);
    if (node->subject == NULL)
        return NULL;
    if (node->subject->type != NODE_CALL) {
        (void)jinja_parser_fail(parser, line, "expected call");
        return NULL;
    }
    return parse_macro_body(parser, node->macro, "endcall") ? node : NULL;
}

static struct jinja_node *parse_filter_block(struct jinja_parser *parser, int line)
{
    struct jinja_node *node = jinja_parser_node(parser, NODE_FILTER_BLOCK, line);
    if (node == NULL)
        return NULL;
    node->subject = jinja_expression_filters(parser, true);
    node->body = node->subject == NULL ? NULL : parse_scoped_body(parser, "endfilter");
    return node->body == NULL ? NULL : node;
}

static struct jinja_node *parse_set(struct jinja_parser *parser, int line)
{
    struct jinja_node *node = jinja_parser_node(parser, NODE_SET, line);
    if (node == NULL)
        return NULL;
    node->target = parse_target(parser, NULL, true);
    if (node->target == NULL)
        return NULL;
    if (jinja_parser_skip(parser, TOKEN_ASSIGN)) {
        node->subject =
            jinja_expression_tuple(parser, (struct jinja_tuple_rules){.with_condition = true});
        return node->subject == NULL ? NULL : node;
    }
    node->type = NODE_SET_BLOCK;
    if (parser->at->type == TOKEN_PIPE) {
        node->subject = jinja_expression_filters(parser, false);
        if (node->subject == NULL)
            return NULL;
    }
    node->body = parse_scoped_body(parser, "endset");
    return node->body == NULL ? NULL : node;
}

static struct jinja_node *parse_with(struct jinja_parser *parser, int line)
{
    struct jinja_node *node = jinja_parser_node(parser, NODE_WITH, line);
    struct jinja_node_list pairs = {0};
    while (node != NULL && parser->at->type != TOKEN_BLOCK_END) {
        if (pairs.count > 0 && !jinja_parser_expect(parser, TOKEN_COMMA))
            return NULL;
        if (!jinja_parser_add(parser, &pairs, parse_target(parser, NULL, false)) ||
            !jinja_parser_expect(parser, TOKEN_ASSIGN) ||
            !jinja_parser_add(parser, &pairs, jinja_expression_parse(parser, true)))
            return NULL;
    }
    if (node == NULL)
        return NULL;
    node->items = pairs.items;
    node->count = pairs.count;
    node->body = parse_scoped_body(parser, "endwith");
    return node->body == NULL ? NULL : node;
}

static struct jinja_node *parse_print(struct jinja_parser *parser, int line)
{
    struct jinja_node *node = jinja_parser_node(parser, NODE_OUTPUT, line);
    struct jinja_node_list pieces = {0};
    while (node != NULL && parser->at->type != TOKEN_BLOCK_END) {
        if (pieces.count > 0 && !jinja_parser_expect(parser, TOKEN_COMMA))
            return NULL;
        if (!jinja_parser_add(parser, &pieces, jinja_expression_parse(parser, true)))
            return NULL;
    }
    if (node == NULL)
        return NULL;
    node->items = pieces.items;
    node->count = pieces.count;
    return node;
}

static struct jinja_node *parse_generation(struct jinja_parser *parser, int line)
{
    struct jinja_node *node = jinja_parser_node(parser, NODE_SCOPE, line);
    if (node == NULL)
        return NULL;
    unsigned loop_depth = parser->loop_depth;
    parser->loop_depth = 0; /* jinja2 compiles it as a macro's body */
    node->body = parse_scoped_body(parser, "endgeneration");
    parser->loop_depth = loop_depth;
    return node->body == NULL ? NULL : node;
}

static struct jinja_node *parse_break(struct jinja_parser *parser, int line)
{
    if (parser->loop_depth > 0)
        return jinja_parser_node(parser, NODE_BREAK, line);
    (void)jinja_parser_fail(parser, line, "'break' outside loop");
    return NULL;
}

static struct jinja_node *parse_continue(struct jinja_parser *parser, int line)
{
    if (parser->loop_depth > 0)
        return jinja_parser_node(parser, NODE_CONTINUE, line);
    (void)jinja_parser_fail(parser, line, "'continue' not properly in loop");
    return NULL;
}

static struct jinja_node *parse_unsupported(struct jinja_parser *parser, int line)
{
    if (parser->failure == RESULT_OK)
        parser->failure = error_set(parser->error, RESULT_UNSUPPORTED,
                                    "line %d: chat templates cannot load templates, name blocks "
                                    "or switch escaping",
                                    line);
    return NULL;
}

static const struct {
    const char *word;
    struct jinja_node *(*parse)(struct jinja_parser *parser, int line);
} TAGS[] = {{"if", parse_if},
            {"for", parse_for},
            {"set", parse_set},
            {"macro", parse_macro},
            {"call", parse_call_block},
            {"filter", parse_filter_block},
            {"with", parse_with},
            {"print", parse_print},
            {"generation", parse_generation},
            {"break", parse_break},
            {"continue", parse_continue},
            {"include", parse_unsupported},
            {"import", parse_unsupported},
            {"from", parse_unsupported},
            {"extends", parse_unsupported},
            {"block", parse_unsupported},
            {"autoescape", parse_unsupported}};

static struct jinja_node *parse_statement(struct jinja_parser *parser)
{
    const struct jinja_token *token = parser->at;
    for (size_t i = 0; i < sizeof(TAGS) / sizeof(TAGS[0]); i++)
        if (jinja_parser_skip_word(parser, TAGS[i].word))
            return TAGS[i].parse(parser, token->line);
    if (token->type != TOKEN_NAME)
        (void)jinja_parser_fail(parser, token->line, "tag name expected");
    else
        (void)jinja_parser_fail(parser, token->line, "Encountered unknown tag '%.*s'.",
                                (int)(token->text_bytes > 60 ? 60 : token->text_bytes),
                                token->text);
    return NULL;
}

enum result jinja_parser_parse(struct jinja_arena *arena, const struct jinja_token_list *tokens,
                               struct jinja_node **root, struct error_text *error)
{
    struct jinja_parser parser = {.arena = arena, .at = tokens->tokens, .error = error};
    *root = parse_until(&parser, NULL);
    if (*root == NULL && parser.failure == RESULT_OK)
        return error_set(error, RESULT_TOO_LARGE, "template is too large");
    return parser.failure;
}
