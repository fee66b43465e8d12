/*
 * Random grammars over three letters against an interpreter of their own: every text up to
 * TEXT_LETTERS letters is accepted or not as the interpreter says; whatever the matcher reads has
 * a completion that the interpreter accepts; and masks equal following each token.
 *
 * The interpreter uses neither derivatives nor Earley rows: it computes at which letters a regex or
 * rule that begins at a letter can end, rules by a fixed point.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/grammar/grammar_builder.h"
#include "tests/support/test_random.h"
#include "worker/sample/grammar_matcher.h"

#define GRAMMARS     150u
#define TEXT_LETTERS 6u
#define LONGEST      20u /* letters of a completion */
#define RULES        4u
#define NODES        400u
#define OPEN_COUNT   99u

enum node_kind { LETTERS, WORD, SEQUENCE, CHOICE, BOTH, OTHER, TIMES, RULE };

/* Of a regex, or of a production if it reaches a RULE. */
struct node {
    enum node_kind kind;
    uint32_t letters; /* LETTERS: bits */
    char word[4];
    uint32_t a, b; /* nodes; RULE: its number in a */
    uint32_t minimum, maximum;
};

struct language {
    unsigned seed;
    struct test_random random;
    struct node nodes[NODES];
    uint32_t node_count;
    uint32_t productions[RULES][3]; /* nodes */
    uint32_t production_count[RULES];
    symbol_id rules[RULES];
    /* of one text */
    const char *text;
    uint32_t length;
    uint32_t ends[RULES][LONGEST + 1]; /* bits of letters after which the rule can end */
};

/* --- Drawing ------------------------------------------------------------------------------------ */

static uint32_t add_node(struct language *l, struct node node)
{
    assert_true(l->node_count < NODES);
    l->nodes[l->node_count] = node;
    return l->node_count++;
}

static uint32_t below(struct language *l, uint32_t bound)
{
    return test_random_below(&l->random, bound);
}

static uint32_t draw(struct language *l, uint32_t depth, bool with_rules)
{
    uint32_t pick = depth == 0 ? below(l, 2) : below(l, with_rules ? 10 : 9);
    struct node node = {.kind = LETTERS, .letters = 1 + below(l, 7)};
    switch (pick) {
    case 0: break;
    case 1:
        node.kind = WORD;
        for (uint32_t i = 0, n = below(l, 4); i < n; i++)
            node.word[i] = (char)('a' + below(l, 3));
        break;
    case 2:
    case 3:
    case 4: node.kind = SEQUENCE; break;
    case 5: node.kind = CHOICE; break;
    case 6: node.kind = with_rules ? SEQUENCE : BOTH; break;
    case 7: node.kind = with_rules ? CHOICE : OTHER; break;
    case 8:
        node.kind = TIMES;
        node.minimum = below(l, 3);
        node.maximum = below(l, 3) == 0 ? OPEN_COUNT : node.minimum + below(l, 3);
        break;
    default:
        node.kind = RULE;
        node.a = below(l, RULES);
        return add_node(l, node);
    }
    /* below a rule's production, parts are regexes or symbols */
    bool inner = with_rules && below(l, 3) > 0;
    if (node.kind >= SEQUENCE)
        node.a = draw(l, depth - 1, inner);
    if (node.kind == SEQUENCE || node.kind == CHOICE || node.kind == BOTH)
        node.b = draw(l, depth - 1, inner);
    return add_node(l, node);
}

static bool has_rule(const struct language *l, uint32_t index)
{
    const struct node *node = &l->nodes[index];
    if (node->kind == RULE)
        return true;
    return (node->kind >= SEQUENCE && has_rule(l, node->a)) ||
           ((node->kind == SEQUENCE || node->kind == CHOICE || node->kind == BOTH) &&
            has_rule(l, node->b));
}

/* --- Interpreting ------------------------------------------------------------------------------- */

static uint32_t ends_of(const struct language *l, uint32_t index, uint32_t from);

static uint32_t ends_after(const struct language *l, uint32_t index, uint32_t starts)
{
    uint32_t ends = 0;
    for (uint32_t at = 0; at <= l->length; at++)
        if (starts >> at & 1)
            ends |= ends_of(l, index, at);
    return ends;
}

static uint32_t ends_of(const struct language *l, uint32_t index, uint32_t from)
{
    const struct node *node = &l->nodes[index];
    uint32_t all = ((2u << l->length) - 1) & ~((1u << from) - 1);
    switch (node->kind) {
    case LETTERS:
        return from < l->length && (node->letters >> (l->text[from] - 'a') & 1) ? 2u << from : 0;
    case WORD: {
        uint32_t length = (uint32_t)strlen(node->word);
        return from + length <= l->length && memcmp(l->text + from, node->word, length) == 0
                   ? 1u << (from + length)
                   : 0;
    }
    case SEQUENCE: return ends_after(l, node->b, ends_of(l, node->a, from));
    case CHOICE: return ends_of(l, node->a, from) | ends_of(l, node->b, from);
    case BOTH: return ends_of(l, node->a, from) & ends_of(l, node->b, from);
    case OTHER: return all & ~ends_of(l, node->a, from);
    case RULE: return l->ends[node->a][from];
    default: break;
    }
    uint32_t reached = 1u << from, ends = node->minimum == 0 ? reached : 0;
    for (uint32_t i = 1; i <= node->maximum && i <= node->minimum + LONGEST; i++) {
        reached = ends_after(l, node->a, reached);
        if (i >= node->minimum)
            ends |= reached;
    }
    return ends;
}

static bool accepts(struct language *l, const char *text, uint32_t length)
{
    l->text = text;
    l->length = length;
    memset(l->ends, 0, sizeof l->ends);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t r = 0; r < RULES; r++)
            for (uint32_t from = 0; from <= length; from++) {
                uint32_t ends = l->ends[r][from];
                for (uint32_t p = 0; p < l->production_count[r]; p++)
                    ends |= ends_of(l, l->productions[r][p], from);
                changed = changed || ends != l->ends[r][from];
                l->ends[r][from] = ends;
            }
    }
    return l->ends[0][0] >> length & 1;
}

/* --- Building ----------------------------------------------------------------------------------- */

static regex_id build_regex(struct language *l, struct grammar_builder *b, uint32_t index)
{
    const struct node *node = &l->nodes[index];
    switch (node->kind) {
    case LETTERS:
        return grammar_regex_bytes(b, (const uint64_t[]){0, (uint64_t)node->letters << 33, 0, 0});
    case WORD: return grammar_regex_literal(b, node->word, strlen(node->word));
    case SEQUENCE:
        return grammar_regex_concat(b, build_regex(l, b, node->a), build_regex(l, b, node->b));
    case CHOICE: return grammar_regex_or(b, build_regex(l, b, node->a), build_regex(l, b, node->b));
    case BOTH: return grammar_regex_and(b, build_regex(l, b, node->a), build_regex(l, b, node->b));
    case OTHER: return grammar_regex_not(b, build_regex(l, b, node->a));
    default:
        return grammar_regex_repeat(b, build_regex(l, b, node->a), node->minimum,
                                    node->maximum == OPEN_COUNT ? GRAMMAR_UNBOUNDED
                                                                : node->maximum);
    }
}

static symbol_id build_symbol(struct language *l, struct grammar_builder *b, uint32_t index)
{
    const struct node *node = &l->nodes[index];
    if (!has_rule(l, index))
        return grammar_terminal(b, build_regex(l, b, index));
    if (node->kind == RULE)
        return l->rules[node->a];
    symbol_id parts[2] = {build_symbol(l, b, node->a), GRAMMAR_NONE};
    if (node->kind == TIMES)
        return grammar_repeat(b, parts[0], node->minimum,
                              node->maximum == OPEN_COUNT ? GRAMMAR_UNBOUNDED : node->maximum);
    parts[1] = build_symbol(l, b, node->b);
    if (below(l, 2) == 0)
        return node->kind == SEQUENCE ? grammar_sequence(b, parts, 2) : grammar_choice(b, parts, 2);
    symbol_id rule = grammar_rule(b); /* the same without joined terminals */
    grammar_production(b, rule, parts, node->kind == SEQUENCE ? 2 : 1);
    if (node->kind == CHOICE)
        grammar_production(b, rule, parts + 1, 1);
    return rule;
}

/* A blob, or false if the language has no text. */
static bool build(struct language *l, struct grammar_blob_out *out)
{
    struct grammar_builder *b = grammar_builder_open(&(struct grammar_bounds){0});
    assert_non_null(b);
    for (uint32_t r = 0; r < RULES; r++)
        l->rules[r] = grammar_rule(b);
    for (uint32_t r = 0; r < RULES; r++)
        for (uint32_t p = 0; p < l->production_count[r]; p++) {
            symbol_id symbol = build_symbol(l, b, l->productions[r][p]);
            grammar_production(b, l->rules[r], &symbol, 1);
        }
    bool good = grammar_builder_finish(b, l->rules[0], out);
    if (!good)
        assert_int_equal(grammar_builder_failure(b), GRAMMAR_EMPTY_LANGUAGE);
    grammar_builder_close(b);
    return good;
}

/* --- Comparing ---------------------------------------------------------------------------------- */

/* Tokens: every text of 1 to 3 letters, then some longer ones and an end token. */
#define SHORT_TOKENS 39u
#define TOKENS       (SHORT_TOKENS + 20u)
#define END          TOKENS
#define LOGITS       (TOKENS + 5u)

static uint8_t token_text[TOKENS][8];
static uint32_t token_length[TOKENS];

static struct grammar_vocabulary *open_vocabulary(struct test_random *random)
{
    static uint8_t bytes[TOKENS * 8];
    static uint32_t offsets[TOKENS + 2];
    uint32_t used = 0;
    for (uint32_t t = 0; t < TOKENS; t++) {
        uint32_t length = t < 3 ? 1 : t < 12 ? 2 : t < SHORT_TOKENS ? 3 : 4 + t % 4;
        uint32_t number = t < 3              ? t
                          : t < 12           ? t - 3
                          : t < SHORT_TOKENS ? t - 12
                                             : (uint32_t)test_random_next(random) >> 8;
        offsets[t] = used;
        token_length[t] = length;
        for (uint32_t i = 0; i < length; i++, number /= 3)
            bytes[used++] = token_text[t][i] = (uint8_t)('a' + number % 3);
    }
    offsets[TOKENS] = offsets[TOKENS + 1] = used;
    return grammar_vocabulary_open(&(struct token_bytes){bytes, offsets, TOKENS + 1},
                                   &(const uint32_t){END}, 1, LOGITS);
}

static bool reads(struct grammar_matcher *m, const char *text, uint32_t length)
{
    grammar_matcher_cut(m, 0);
    for (uint32_t i = 0; i < length; i++) {
        enum grammar_result result =
            grammar_matcher_follow(m, &(const uint32_t){(uint32_t)(text[i] - 'a')}, 1);
        assert_true(result == GRAMMAR_OK || result == GRAMMAR_REFUSED);
        if (result != GRAMMAR_OK)
            return false;
    }
    return true;
}

static void check_mask(struct grammar_matcher *m)
{
    uint32_t words[(LOGITS + 31) / 32];
    size_t allowed, before = grammar_matcher_followed(m);
    assert_int_equal(grammar_matcher_mask(m, words, &allowed), GRAMMAR_OK);
    for (uint32_t t = 0; t < LOGITS; t++) {
        bool taken = grammar_matcher_follow(m, &t, 1) == GRAMMAR_OK;
        if (taken != (words[t / 32] >> t % 32 & 1))
            fail_msg("token %u: follow %u", t, taken);
        allowed -= taken;
        grammar_matcher_cut(m, before);
    }
    assert_int_equal(allowed, 0);
}

/* Some completion of the text that was read, found with the matcher and accepted by the
 * interpreter; breadth first. */
static bool completes(struct language *l, struct grammar_matcher *m, const char *text,
                      uint32_t length)
{
    static char queue[3000][LONGEST + 1];
    static uint32_t lengths[3000];
    uint32_t count = 1;
    memcpy(queue[0], text, length);
    lengths[0] = length;
    for (uint32_t at = 0; at < count; at++) {
        if (!reads(m, queue[at], lengths[at]))
            continue;
        if (grammar_matcher_may_end(m))
            return accepts(l, queue[at], lengths[at]);
        for (char letter = 'a'; letter <= 'c' && lengths[at] < LONGEST && count < 3000; letter++) {
            memcpy(queue[count], queue[at], lengths[at]);
            queue[count][lengths[at]] = letter;
            lengths[count++] = lengths[at] + 1;
        }
    }
    return false;
}

static void compare(struct language *l, struct grammar_matcher *m)
{
    char text[TEXT_LETTERS];
    uint32_t texts = 1;
    for (uint32_t length = 0; length <= TEXT_LETTERS; length++, texts *= 3)
        for (uint32_t number = 0; number < texts; number++) {
            uint32_t left = number;
            for (uint32_t i = 0; i < length; i++, left /= 3)
                text[i] = (char)('a' + left % 3);
            bool read = reads(m, text, length);
            bool accepted = read && grammar_matcher_may_end(m);
            if (accepted != accepts(l, text, length))
                fail_msg("seed %u, text %.*s: accepted %u", l->seed, (int)length, text, accepted);
            if (read && number % 7 == 0) {
                check_mask(m);
                if (!completes(l, m, text, length))
                    fail_msg("seed %u, text %.*s: no completion", l->seed, (int)length, text);
            }
        }
}

static void test_random_grammars(void **state)
{
    (void)state;
    uint32_t compared = 0;
    for (uint64_t seed = 1; seed <= GRAMMARS; seed++) {
        struct language *l = calloc(1, sizeof *l);
        l->seed = (unsigned)seed;
        l->random.state = seed;
        for (uint32_t r = 0; r < RULES; r++) {
            l->production_count[r] = 1 + below(l, 3);
            for (uint32_t p = 0; p < l->production_count[r]; p++)
                l->productions[r][p] = draw(l, 3, r > 0 || seed % 4 > 0);
        }
        struct grammar_vocabulary *vocabulary = open_vocabulary(&l->random);
        struct grammar_blob_out out;
        if (build(l, &out)) {
            enum grammar_result result;
            struct grammar_matcher *m =
                grammar_matcher_open(vocabulary, out.bytes, out.size, &result);
            assert_int_equal(result, GRAMMAR_OK);
            compare(l, m);
            grammar_matcher_close(m);
            free(out.bytes);
            compared++;
        }
        grammar_vocabulary_close(vocabulary);
        free(l);
    }
    assert_true(compared > GRAMMARS / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_grammars)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
