/*
 * One pass over the text with the parser's place as its only state; parentheses recurse up to
 * NESTING_MAX. The first error ends it: the reader has then failed and nodes are RULE_NONE.
 */
#include "frontend/grammar/gbnf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/grammar_reader.h"
#include "frontend/grammar/rule_tree.h"
#include "proto/utf8.h"

enum { NESTING_MAX = 64, CLASS_RANGES = 1024 };
#define GBNF_ESCAPES "\\\"[]-^'"

struct gbnf {
    struct grammar_reader reader;
    struct grammar_builder *builder;
    const struct special_finder *specials;
    struct rule_tree *tree;
    struct code_point_range ranges[CLASS_RANGES];
};

static bool has(const struct gbnf *g, char c)
{
    return g->reader.at < g->reader.end && *g->reader.at == c;
}

/* Skips white space and comments. */
static void blanks_skip(struct gbnf *g)
{
    while (g->reader.at < g->reader.end) {
        if (*g->reader.at == '#') {
            while (g->reader.at < g->reader.end && *g->reader.at != '\n' && *g->reader.at != '\r')
                g->reader.at++;
        } else if (*g->reader.at == ' ' || *g->reader.at == '\t' || *g->reader.at == '\n' ||
                   *g->reader.at == '\r') {
            g->reader.at++;
        } else {
            return;
        }
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static size_t word_length(const struct gbnf *g)
{
    const char *p = g->reader.at;
    while (p < g->reader.end && is_word(*p))
        p++;
    return (size_t)(p - g->reader.at);
}

/* --- characters ------------------------------------------------------------------------------ */

/* After the opening quote. */
static uint32_t string_read(struct gbnf *g)
{
    const char *close = g->reader.at;
    while (close < g->reader.end && *close != '"')
        close += *close == '\\' && close + 1 < g->reader.end ? 2 : 1;
    size_t room = ((size_t)(close - g->reader.at) + 1) * UTF8_MAX_CHAR_BYTES, length = 0;
    char *bytes = malloc(room);
    if (!bytes)
        return grammar_reader_stop(&g->reader);
    uint32_t code_point;
    while (!has(g, '"') && grammar_reader_character(&g->reader, GBNF_ESCAPES, &code_point))
        length += utf8_encode(code_point, bytes + length);
    uint32_t node = RULE_NONE;
    if (!g->reader.failed) {
        g->reader.at++;
        node = rule_tree_regex(g->tree, grammar_regex_literal(g->builder, bytes, length));
    }
    free(bytes);
    return node;
}

static int range_compare(const void *left, const void *right)
{
    const struct code_point_range *a = left, *b = right;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Sorts the ranges and replaces them by all other characters. Returns the new count. */
static size_t ranges_invert(struct code_point_range *ranges, size_t count)
{
    uint32_t next = 0;
    size_t kept = 0;
    qsort(ranges, count, sizeof *ranges, range_compare);
    for (size_t i = 0; i < count; i++) {
        struct code_point_range range = ranges[i];
        if (range.first > next)
            ranges[kept++] = (struct code_point_range){next, range.first - 1};
        if (range.last + 1 > next)
            next = range.last + 1;
    }
    if (next <= 0x10ffff)
        ranges[kept++] = (struct code_point_range){next, 0x10ffff};
    return kept;
}

/* After the opening bracket. */
static uint32_t class_read(struct gbnf *g)
{
    size_t count = 0;
    bool inverted = has(g, '^');
    g->reader.at += inverted;
    while (!has(g, ']')) {
        uint32_t first, last;
        if (count + 1 >= CLASS_RANGES)
            return grammar_reader_fail(&g->reader, "a class has more than %d parts",
                                       CLASS_RANGES - 2);
        if (!grammar_reader_character(&g->reader, GBNF_ESCAPES, &first))
            return RULE_NONE;
        last = first;
        if (has(g, '-') && g->reader.at + 1 < g->reader.end && g->reader.at[1] != ']') {
            g->reader.at++;
            if (!grammar_reader_character(&g->reader, GBNF_ESCAPES, &last))
                return RULE_NONE;
        }
        if (last < first)
            return grammar_reader_fail(&g->reader, "a range ends before it begins");
        g->ranges[count++] = (struct code_point_range){first, last};
    }
    g->reader.at++;
    if (inverted)
        count = ranges_invert(g->ranges, count);
    return rule_tree_regex(g->tree, count == 0
                                        ? grammar_regex_nothing(g->builder)
                                        : grammar_regex_code_points(g->builder, g->ranges, count));
}

/* At the opening bracket. */
static uint32_t token_read(struct gbnf *g)
{
    uint32_t id;
    if (!grammar_reader_token(&g->reader, g->specials, &id))
        return RULE_NONE;
    return rule_tree_symbol(g->tree, grammar_token(g->builder, id));
}

/* --- rules ----------------------------------------------------------------------------------- */

static uint32_t choice_read(struct gbnf *g, unsigned depth);

/* `{m}`, `{m,}`, `{m,n}`: after the brace. */
static bool bounds_read(struct gbnf *g, uint32_t *minimum, uint32_t *maximum)
{
    blanks_skip(g);
    if (!grammar_reader_number(&g->reader, GRAMMAR_UNBOUNDED, minimum))
        return false;
    *maximum = *minimum;
    blanks_skip(g);
    if (has(g, ',')) {
        g->reader.at++;
        blanks_skip(g);
        *maximum = GRAMMAR_UNBOUNDED;
        if (!has(g, '}') && !grammar_reader_number(&g->reader, GRAMMAR_UNBOUNDED, maximum))
            return false;
        blanks_skip(g);
    }
    if (!has(g, '}')) {
        grammar_reader_fail(&g->reader, "a repetition needs a closing '}'");
        return false;
    }
    g->reader.at++;
    if (*maximum >= *minimum)
        return true;
    grammar_reader_fail(&g->reader, "a repetition has a maximum below its minimum");
    return false;
}

/* The operators after an item. */
static uint32_t repeats_read(struct gbnf *g, uint32_t node)
{
    for (unsigned count = 0; !g->reader.failed && g->reader.at < g->reader.end; count++) {
        uint32_t minimum = *g->reader.at == '+', maximum = GRAMMAR_UNBOUNDED;
        if (*g->reader.at != '*' && *g->reader.at != '+' && *g->reader.at != '?' &&
            *g->reader.at != '{')
            break;
        if (count == NESTING_MAX)
            return grammar_reader_fail(&g->reader, "more than %d repetitions of one item",
                                       NESTING_MAX);
        if (*g->reader.at == '?')
            maximum = 1;
        bool is_counted = *g->reader.at++ == '{';
        if (is_counted && !bounds_read(g, &minimum, &maximum))
            return RULE_NONE;
        node = rule_tree_repeat(g->tree, node, minimum, maximum);
        blanks_skip(g);
    }
    return node;
}

/* A rule ends where the next one begins, so that it may be written over several lines. */
static bool rule_begins(struct gbnf *g, size_t word)
{
    const char *at = g->reader.at;
    g->reader.at += word;
    blanks_skip(g);
    bool begins = g->reader.end - g->reader.at >= 3 && memcmp(g->reader.at, "::=", 3) == 0;
    g->reader.at = at;
    return begins;
}

/* RULE_NONE without an error: no item begins here. */
static uint32_t item_read(struct gbnf *g, unsigned depth)
{
    size_t word = word_length(g);
    char c = g->reader.at < g->reader.end ? *g->reader.at : 0;
    if (word > 0 && rule_begins(g, word))
        return RULE_NONE;
    if (word > 0) {
        uint32_t rule =
            rule_tree_rule(g->tree, g->reader.at, word, (size_t)(g->reader.at - g->reader.begin));
        g->reader.at += word;
        return rule_tree_reference(g->tree, rule);
    }
    if (c == '<')
        return token_read(g);
    if (c == '!')
        return grammar_reader_fail(&g->reader, "all tokens but one ('!<…>') are not supported");
    if (c != '"' && c != '[' && c != '(' && c != '.')
        return RULE_NONE;
    g->reader.at++;
    if (c == '"')
        return string_read(g);
    if (c == '[')
        return class_read(g);
    if (c == '.')
        return rule_tree_regex(
            g->tree,
            grammar_regex_code_points(g->builder, &(struct code_point_range){0, 0x10ffff}, 1));
    if (has(g, '?') || has(g, '='))
        return grammar_reader_fail(&g->reader, "look-ahead is not supported");
    blanks_skip(g);
    uint32_t node = choice_read(g, depth + 1);
    if (!g->reader.failed && !has(g, ')'))
        return grammar_reader_fail(&g->reader, "a group needs a closing ')'");
    g->reader.at++;
    return node;
}

static uint32_t sequence_read(struct gbnf *g, unsigned depth)
{
    uint32_t sequence = rule_tree_sequence(g->tree);
    while (!g->reader.failed) {
        uint32_t node = item_read(g, depth);
        if (node == RULE_NONE)
            break;
        blanks_skip(g);
        rule_tree_add(g->tree, sequence, repeats_read(g, node));
    }
    return sequence;
}

static uint32_t choice_read(struct gbnf *g, unsigned depth)
{
    if (depth > NESTING_MAX)
        return grammar_reader_fail(&g->reader, "groups are nested deeper than %d", NESTING_MAX);
    uint32_t choice = rule_tree_choice(g->tree);
    rule_tree_add(g->tree, choice, sequence_read(g, depth));
    while (!g->reader.failed && has(g, '|')) {
        g->reader.at++;
        blanks_skip(g);
        rule_tree_add(g->tree, choice, sequence_read(g, depth));
    }
    return choice;
}

static void rule_read(struct gbnf *g)
{
    size_t length = word_length(g);
    const char *name = g->reader.at;
    if (length == 0) {
        grammar_reader_fail(&g->reader, "a rule's name is expected");
        return;
    }
    uint32_t rule = rule_tree_rule(g->tree, name, length, (size_t)(name - g->reader.begin));
    g->reader.at += length;
    blanks_skip(g);
    if (g->reader.end - g->reader.at < 3 || memcmp(g->reader.at, "::=", 3) != 0) {
        grammar_reader_fail(&g->reader, "'::=' is expected");
        return;
    }
    if (rule_tree_is_defined(g->tree, rule)) {
        grammar_reader_fail(&g->reader, "the rule '%.*s' is defined twice",
                            length > 64 ? 64 : (int)length, name);
        return;
    }
    g->reader.at += 3;
    blanks_skip(g);
    rule_tree_define(g->tree, rule, choice_read(g, 0));
    if (!g->reader.failed && g->reader.at < g->reader.end && word_length(g) == 0)
        grammar_reader_fail(&g->reader, "unexpected text");
}

bool gbnf_compile(struct grammar_builder *builder, const char *text, size_t length,
                  const struct special_finder *specials, symbol_id *out,
                  struct grammar_error *error)
{
    struct gbnf *g = calloc(1, sizeof *g);
    *out = GRAMMAR_NONE;
    *error = (struct grammar_error){0};
    if (g)
        *g = (struct gbnf){.reader = {text, text, text + length, error, false},
                           .builder = builder,
                           .specials = specials,
                           .tree = rule_tree_create(builder)};
    if (!g || !g->tree) {
        free(g);
        return false;
    }
    if (!utf8_is_valid(text, length))
        grammar_reader_fail(&g->reader, "the grammar is not valid UTF-8");
    blanks_skip(g);
    while (!g->reader.failed && g->reader.at < g->reader.end)
        rule_read(g);
    uint32_t root = rule_tree_rule(g->tree, "root", 4, length);
    if (!g->reader.failed && !rule_tree_is_defined(g->tree, root))
        grammar_reader_fail(&g->reader, "the rule 'root' is not defined");
    bool good = !g->reader.failed && rule_tree_finish(g->tree, root, out, error);
    rule_tree_destroy(g->tree);
    free(g);
    return good;
}
