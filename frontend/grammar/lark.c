/*
 * One pass over the text, like gbnf.c. A rule ends where the next statement begins.
 *
 * Ignored terminals: every string, regular expression and terminal in a rule is followed by a
 * reference to a rule without a name that one can write, which is defined at the end as the
 * repetition of all ignored terminals.
 */
#include "frontend/grammar/lark.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/grammar_reader.h"
#include "frontend/grammar/json_schema_compile.h"
#include "frontend/grammar/json_text_regex.h"
#include "frontend/grammar/lark_common.h"
#include "frontend/grammar/regex_compile.h"
#include "frontend/grammar/rule_tree.h"
#include "proto/limits.h"
#include "proto/utf8.h"

enum { NESTING_MAX = 64, REPEATS_MAX = 64 };

struct lark {
    struct grammar_reader reader;
    struct grammar_builder *builder;
    const struct special_finder *specials;
    struct rule_tree *tree;
    uint32_t ignored; /* rule: what may follow a terminal */
    uint32_t ignores; /* node: choice of the ignored terminals */
    bool has_ignores;
    bool spelled; /* characters as in a JSON string */
    bool in_rule; /* not in a terminal: ignored text may follow strings */
};

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_name(char c)
{
    return is_lower(c) || is_upper(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static size_t name_length(const struct lark *l)
{
    const char *p = l->reader.at;
    if (p < l->reader.end && !is_lower(*p) && !is_upper(*p) && *p != '_')
        return 0;
    while (p < l->reader.end && is_name(*p) && !(*p == '-' && p + 1 < l->reader.end && p[1] == '>'))
        p++;
    return (size_t)(p - l->reader.at);
}

/* Terminals are upper case after their underscores. */
static bool is_terminal(const char *name, size_t length)
{
    while (length > 0 && *name == '_')
        name++, length--;
    return length > 0 && is_upper(*name);
}

static void blanks_skip(struct lark *l)
{
    struct grammar_reader *r = &l->reader;
    while (r->at < r->end) {
        bool is_comment = *r->at == '#' || grammar_reader_has(r, "//");
        if (is_comment) {
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        } else if (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r') {
            r->at++;
        } else {
            return;
        }
    }
}

static uint32_t fail(struct lark *l, const char *words)
{
    return grammar_reader_fail(&l->reader, "%s", words);
}

/* --- terminals ------------------------------------------------------------------------------- */

/* What is read as one terminal: in a rule ignored text may follow. */
static uint32_t terminal_end(struct lark *l, uint32_t node)
{
    if (!l->in_rule || node == RULE_NONE)
        return node;
    uint32_t sequence = rule_tree_sequence(l->tree);
    rule_tree_add(l->tree, sequence, node);
    rule_tree_add(l->tree, sequence, rule_tree_reference(l->tree, l->ignored));
    return sequence;
}

/* The bytes of a string after its opening quote, malloc'd; NULL after an error. */
static char *string_read(struct lark *l, size_t *length)
{
    struct grammar_reader *r = &l->reader;
    const char *close = r->at;
    while (close < r->end && *close != '"')
        close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    char *bytes = malloc(((size_t)(close - r->at) + 1) * UTF8_MAX_CHAR_BYTES);
    uint32_t code_point;
    *length = 0;
    if (!bytes) {
        grammar_reader_stop(&l->reader);
        return NULL;
    }
    while (!grammar_reader_has(r, "\"") && grammar_reader_character(r, "\\\"'/", &code_point))
        *length += utf8_encode(code_point, bytes + *length);
    if (!r->failed) {
        r->at++;
        return bytes;
    }
    free(bytes);
    return NULL;
}

/* One of these characters. */
static regex_id characters(const struct lark *l, const struct code_point_range *ranges,
                           size_t count)
{
    return l->spelled ? json_text_code_points(l->builder, ranges, count)
                      : grammar_regex_code_points(l->builder, ranges, count);
}

/* This text, valid UTF-8. */
static regex_id literal(const struct lark *l, const char *bytes, size_t length)
{
    regex_id text = grammar_regex_empty(l->builder);
    if (!l->spelled)
        return grammar_regex_literal(l->builder, bytes, length);
    for (size_t at = 0; at < length;) {
        struct code_point_range one;
        at += utf8_decode(bytes + at, length - at, &one.first);
        one.last = one.first;
        text = grammar_regex_concat(l->builder, text, characters(l, &one, 1));
    }
    return text;
}

/* The text in any case of its letters, of which only ASCII is known here. */
static regex_id caseless(struct lark *l, const char *bytes, size_t length)
{
    regex_id text = grammar_regex_empty(l->builder);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        struct code_point_range cases[] = {{byte, byte}, {byte, byte}};
        if (byte >= 0x80) {
            fail(l, "the flag i is supported for ASCII only");
            return GRAMMAR_NONE;
        }
        if (is_lower(bytes[i]) || is_upper(bytes[i]))
            cases[1] = (struct code_point_range){byte ^ 32u, byte ^ 32u};
        text = grammar_regex_concat(l->builder, text, characters(l, cases, 2));
    }
    return text;
}

/* "a".."z": after the first string and the dots. */
static uint32_t range_read(struct lark *l, const char *first, size_t first_length)
{
    struct code_point_range range;
    size_t last_length = 0;
    blanks_skip(l);
    if (!grammar_reader_take(&l->reader, "\""))
        return fail(l, "a range needs two strings");
    char *last = string_read(l, &last_length);
    if (!last)
        return RULE_NONE;
    bool good = first_length > 0 && last_length > 0 &&
                utf8_decode(first, first_length, &range.first) == first_length &&
                utf8_decode(last, last_length, &range.last) == last_length &&
                range.first <= range.last;
    free(last);
    if (!good)
        return fail(l, "a range needs two characters in order");
    return terminal_end(l, rule_tree_regex(l->tree, characters(l, &range, 1)));
}

/* After the opening quote. */
static uint32_t string_node(struct lark *l)
{
    size_t length;
    char *bytes = string_read(l, &length);
    if (!bytes)
        return RULE_NONE;
    uint32_t node;
    if (grammar_reader_take(&l->reader, "..")) {
        node = range_read(l, bytes, length);
    } else {
        bool any_case = grammar_reader_has(&l->reader, "i") &&
                        (l->reader.at + 1 == l->reader.end || !is_name(l->reader.at[1]));
        l->reader.at += any_case;
        regex_id regex = any_case ? caseless(l, bytes, length) : literal(l, bytes, length);
        node = terminal_end(l, rule_tree_regex(l->tree, regex));
    }
    free(bytes);
    return !l->reader.failed ? node : RULE_NONE;
}

static uint32_t pattern_node(struct lark *l, const char *pattern, size_t length)
{
    const struct regex_options whole = {.json_spelling = l->spelled};
    struct grammar_error error = {0};
    regex_id regex = GRAMMAR_NONE;
    if (regex_compile(l->builder, pattern, length, &whole, &regex, &error))
        return rule_tree_regex(l->tree, regex);
    return grammar_reader_fail(&l->reader, "%s", error.message);
}

/* After the opening slash. */
static uint32_t regex_node(struct lark *l)
{
    struct grammar_reader *r = &l->reader;
    const char *begin = r->at;
    size_t length = 0;
    while (r->at < r->end && *r->at != '/' && *r->at != '\n')
        r->at += *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
    if (!grammar_reader_has(r, "/"))
        return fail(l, "a regular expression needs a closing '/'");
    char *pattern = malloc((size_t)(r->at - begin) + 1);
    if (!pattern)
        return grammar_reader_stop(&l->reader);
    for (const char *p = begin; p < r->at; p++) {
        bool is_slash = *p == '\\' && p + 1 < r->at && p[1] == '/';
        if (!is_slash) {
            pattern[length++] = *p;
            if (*p == '\\' && p + 1 < r->at)
                pattern[length++] = *++p;
        }
    }
    r->at++;
    (void)grammar_reader_take(r, "u");
    if (r->at < r->end && is_lower(*r->at))
        grammar_reader_fail(r, "the flag '%c' is not supported", *r->at);
    uint32_t node = r->failed ? RULE_NONE : pattern_node(l, pattern, length);
    free(pattern);
    return r->failed ? RULE_NONE : terminal_end(l, node);
}

/* After %json. */
static uint32_t schema_node(struct lark *l)
{
    const char *end = NULL;
    if (l->spelled)
        return fail(l, "%json is not supported in the input of a tool");
    blanks_skip(l);
    cJSON *schema = cJSON_ParseWithLengthOpts(l->reader.at, (size_t)(l->reader.end - l->reader.at),
                                              &end, false);
    if (!schema)
        return fail(l, "%json needs a JSON schema");
    l->reader.at = end;
    struct grammar_error error = {0};
    symbol_id symbol = GRAMMAR_NONE;
    const struct json_schema_options options = {.blanks = JSON_SCHEMA_BLANKS};
    bool good = json_schema_compile(l->builder, schema, &options, &symbol, &error);
    cJSON_Delete(schema);
    if (!good)
        return grammar_reader_fail(&l->reader, "%%json%.100s: %s", error.pointer, error.message);
    return terminal_end(l, rule_tree_symbol(l->tree, symbol));
}

/* --- rules ----------------------------------------------------------------------------------- */

static uint32_t choice_read(struct lark *l, unsigned depth);

/* Whether the name of this length begins a definition. */
static bool definition_begins(struct lark *l, size_t length)
{
    const char *at = l->reader.at;
    l->reader.at += length;
    if (grammar_reader_take(&l->reader, "."))
        while (l->reader.at < l->reader.end && *l->reader.at >= '0' && *l->reader.at <= '9')
            l->reader.at++;
    while (grammar_reader_take(&l->reader, " ") || grammar_reader_take(&l->reader, "\t"))
        continue;
    bool begins = grammar_reader_has(&l->reader, ":");
    l->reader.at = at;
    return begins;
}

static uint32_t name_node(struct lark *l, size_t length)
{
    const char *name = l->reader.at;
    uint32_t rule = rule_tree_rule(l->tree, name, length, (size_t)(name - l->reader.begin));
    l->reader.at += length;
    if (grammar_reader_has(&l->reader, "{") || grammar_reader_has(&l->reader, "["))
        return fail(l, "templates and rule attributes are not supported");
    uint32_t node = rule_tree_reference(l->tree, rule);
    return is_terminal(name, length) ? terminal_end(l, node) : node;
}

/* `( … )` and `[ … ]`: after the bracket. */
static uint32_t group_read(struct lark *l, bool optional, unsigned depth)
{
    uint32_t node = choice_read(l, depth + 1);
    if (!l->reader.failed && !grammar_reader_take(&l->reader, optional ? "]" : ")"))
        return fail(l, "a group is not closed");
    return optional ? rule_tree_repeat(l->tree, node, 0, 1) : node;
}

/* RULE_NONE without an error: no item begins here. */
static uint32_t item_read(struct lark *l, unsigned depth)
{
    struct grammar_reader *r = &l->reader;
    size_t name = name_length(l);
    uint32_t token;
    if (name > 0)
        return definition_begins(l, name) ? RULE_NONE : name_node(l, name);
    if (grammar_reader_take(r, "\""))
        return string_node(l);
    if (grammar_reader_take(r, "/"))
        return regex_node(l);
    if (grammar_reader_take(r, "("))
        return group_read(l, false, depth);
    if (grammar_reader_take(r, "["))
        return group_read(l, true, depth);
    if (grammar_reader_take(r, "%json"))
        return schema_node(l);
    if (grammar_reader_has(r, "<") && l->spelled)
        return fail(l, "special tokens are not supported in the input of a tool");
    if (grammar_reader_has(r, "<"))
        return grammar_reader_token(r, l->specials, &token)
                   ? terminal_end(l, rule_tree_symbol(l->tree, grammar_token(l->builder, token)))
                   : RULE_NONE;
    return RULE_NONE;
}

/* The operators after an item. */
static uint32_t repeats_read(struct lark *l, uint32_t node)
{
    struct grammar_reader *r = &l->reader;
    for (unsigned count = 0; !r->failed; count++) {
        uint32_t minimum = 0, maximum = GRAMMAR_UNBOUNDED;
        blanks_skip(l);
        if (count == REPEATS_MAX)
            return fail(l, "too many repetitions of one item");
        if (grammar_reader_take(r, "?")) {
            maximum = 1;
        } else if (grammar_reader_take(r, "+")) {
            minimum = 1;
        } else if (grammar_reader_take(r, "~")) {
            blanks_skip(l);
            if (!grammar_reader_number(r, GRAMMAR_UNBOUNDED, &minimum))
                return RULE_NONE;
            maximum = minimum;
            blanks_skip(l);
            if (grammar_reader_take(r, "..")) {
                blanks_skip(l);
                if (!grammar_reader_number(r, GRAMMAR_UNBOUNDED, &maximum))
                    return RULE_NONE;
            }
            if (maximum < minimum)
                return fail(l, "a repetition has a maximum below its minimum");
        } else if (!grammar_reader_take(r, "*")) {
            break;
        }
        node = rule_tree_repeat(l->tree, node, minimum, maximum);
    }
    return node;
}

static uint32_t sequence_read(struct lark *l, unsigned depth)
{
    uint32_t sequence = rule_tree_sequence(l->tree);
    while (!l->reader.failed) {
        blanks_skip(l);
        uint32_t node = item_read(l, depth);
        if (node == RULE_NONE)
            break;
        rule_tree_add(l->tree, sequence, repeats_read(l, node));
    }
    if (!l->reader.failed && grammar_reader_take(&l->reader, "->")) {
        blanks_skip(l);
        l->reader.at += name_length(l);
        blanks_skip(l);
    }
    return sequence;
}

static uint32_t choice_read(struct lark *l, unsigned depth)
{
    if (depth > NESTING_MAX)
        return fail(l, "groups are nested too deeply");
    uint32_t choice = rule_tree_choice(l->tree);
    blanks_skip(l);
    (void)grammar_reader_take(&l->reader, "|");
    rule_tree_add(l->tree, choice, sequence_read(l, depth));
    while (!l->reader.failed && grammar_reader_take(&l->reader, "|"))
        rule_tree_add(l->tree, choice, sequence_read(l, depth));
    return choice;
}

static void rule_read(struct lark *l)
{
    struct grammar_reader *r = &l->reader;
    while (grammar_reader_take(r, "?") || grammar_reader_take(r, "!"))
        continue;
    const char *name = r->at;
    size_t length = name_length(l);
    if (length == 0) {
        fail(l, "a rule or a directive is expected");
        return;
    }
    uint32_t rule = rule_tree_rule(l->tree, name, length, (size_t)(name - r->begin));
    uint32_t priority;
    r->at += length;
    if (grammar_reader_has(r, "{") || grammar_reader_has(r, "["))
        fail(l, "templates and rule attributes are not supported");
    if (grammar_reader_take(r, "."))
        (void)grammar_reader_number(r, UINT32_MAX, &priority);
    blanks_skip(l);
    if (!grammar_reader_take(r, ":"))
        fail(l, "':' is expected");
    if (rule_tree_is_defined(l->tree, rule))
        fail(l, "a rule is defined twice");
    if (r->failed)
        return;
    l->in_rule = !is_terminal(name, length);
    uint32_t node = choice_read(l, 0);
    if (!r->failed)
        rule_tree_define(l->tree, rule, node);
    if (!r->failed && r->at < r->end && name_length(l) == 0 && !strchr("%?!", *r->at))
        fail(l, "unexpected text");
}

/* --- directives ------------------------------------------------------------------------------ */

/* Defines the terminal `name` (or another name after ->) as common's. */
static void common_import(struct lark *l)
{
    struct grammar_reader *r = &l->reader;
    const char *name = r->at;
    size_t length = name_length(l);
    const char *pattern = lark_common_find(name, length);
    if (!pattern) {
        grammar_reader_fail(r, "common has no terminal '%.*s'", length > 48 ? 48 : (int)length,
                            name);
        return;
    }
    r->at += length;
    blanks_skip(l);
    if (grammar_reader_take(r, "->")) {
        blanks_skip(l);
        name = r->at;
        length = name_length(l);
        r->at += length;
    }
    uint32_t rule = rule_tree_rule(l->tree, name, length, (size_t)(name - r->begin));
    if (length == 0 || !is_terminal(name, length) || rule_tree_is_defined(l->tree, rule))
        fail(l, "an imported terminal needs an upper-case name of its own");
    else
        rule_tree_define(l->tree, rule, pattern_node(l, pattern, strlen(pattern)));
}

static void import_read(struct lark *l)
{
    struct grammar_reader *r = &l->reader;
    blanks_skip(l);
    if (!grammar_reader_take(r, "common")) {
        fail(l, "only 'common' can be imported from");
        return;
    }
    blanks_skip(l);
    if (grammar_reader_take(r, ".")) {
        common_import(l);
        return;
    }
    if (!grammar_reader_take(r, "(")) {
        fail(l, "'.' or '(' is expected");
        return;
    }
    do {
        blanks_skip(l);
        common_import(l);
        blanks_skip(l);
    } while (!r->failed && grammar_reader_take(r, ","));
    if (!r->failed && !grammar_reader_take(r, ")"))
        fail(l, "')' is expected");
}

static void directive_read(struct lark *l)
{
    if (grammar_reader_take(&l->reader, "%import")) {
        import_read(l);
    } else if (grammar_reader_take(&l->reader, "%ignore")) {
        l->in_rule = false;
        l->has_ignores = true;
        rule_tree_add(l->tree, l->ignores, choice_read(l, 0));
    } else {
        fail(l, "directives other than %import, %ignore and %json are not "
                "supported");
    }
}

static bool finish(struct lark *l, symbol_id *out)
{
    struct rule_tree *tree = l->tree;
    uint32_t start = rule_tree_rule(tree, "start", 5, (size_t)(l->reader.end - l->reader.begin));
    uint32_t nothing = rule_tree_sequence(tree);
    rule_tree_define(tree, l->ignored,
                     l->has_ignores ? rule_tree_repeat(tree, l->ignores, 0, GRAMMAR_UNBOUNDED)
                                    : nothing);
    if (!rule_tree_is_defined(tree, start))
        fail(l, "the rule 'start' is not defined");
    uint32_t whole = rule_tree_sequence(tree);
    rule_tree_add(tree, whole, rule_tree_reference(tree, l->ignored));
    rule_tree_add(tree, whole, rule_tree_reference(tree, start));
    uint32_t root = rule_tree_rule(tree, ":", 1, 0);
    rule_tree_define(tree, root, whole);
    return !l->reader.failed && rule_tree_finish(tree, root, out, l->reader.error);
}

static bool compile(struct lark *l, symbol_id *out, struct grammar_error *error)
{
    const char *text = l->reader.begin;
    size_t length = (size_t)(l->reader.end - text);
    *out = GRAMMAR_NONE;
    *error = (struct grammar_error){0};
    l->tree = rule_tree_create(l->builder);
    if (!l->tree)
        return false;
    l->ignored = rule_tree_rule(l->tree, "%ignore", 7, 0);
    l->ignores = rule_tree_choice(l->tree);
    if (!utf8_is_valid(text, length))
        fail(l, "the grammar is not valid UTF-8");
    blanks_skip(l);
    while (!l->reader.failed && l->reader.at < l->reader.end) {
        if (grammar_reader_has(&l->reader, "%"))
            directive_read(l);
        else
            rule_read(l);
        blanks_skip(l);
    }
    bool good = finish(l, out);
    rule_tree_destroy(l->tree);
    return good;
}

bool lark_compile(struct grammar_builder *builder, const char *text, size_t length,
                  const struct special_finder *specials, symbol_id *out,
                  struct grammar_error *error)
{
    struct lark l = {.reader = {text, text, text + length, error, false},
                     .builder = builder,
                     .specials = specials};
    return compile(&l, out, error);
}

bool lark_compile_spelled(struct grammar_builder *builder, const char *text, size_t length,
                          symbol_id *out, struct grammar_error *error)
{
    struct lark l = {
        .reader = {text, text, text + length, error, false}, .builder = builder, .spelled = true};
    return compile(&l, out, error);
}
