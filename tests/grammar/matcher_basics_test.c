/*
 * Small grammars with known texts: what is accepted, what may end, what a mask allows, and that a
 * cut goes back exactly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/grammar/grammar_builder.h"
#include "proto/limits.h"
#include "worker/sample/grammar_matcher.h"

/* Token t is the byte t; 256.. are words; the last two have no bytes: a special and an end token. */
static const char *const WORDS[] = {"ab",   "abc", "bc",  "\":",  "\", \"",
                                    "aaaa", "}",   "{\"", "\xc3", "\xa9x"};
#define WORD_COUNT (sizeof WORDS / sizeof WORDS[0])
#define SPECIAL    (256 + WORD_COUNT)
#define END        (SPECIAL + 1)
#define TOKENS     (END + 1)
#define LOGITS     (TOKENS + 40)

static struct grammar_vocabulary *open_vocabulary(void)
{
    static uint8_t bytes[4096];
    static uint32_t offsets[TOKENS + 1];
    uint32_t used = 0;
    for (uint32_t t = 0; t < TOKENS; t++) {
        offsets[t] = used;
        if (t < 256) {
            bytes[used++] = (uint8_t)t;
        } else if (t < SPECIAL) {
            memcpy(bytes + used, WORDS[t - 256], strlen(WORDS[t - 256]));
            used += (uint32_t)strlen(WORDS[t - 256]);
        }
    }
    offsets[TOKENS] = used;
    return grammar_vocabulary_open(&(struct token_bytes){bytes, offsets, TOKENS},
                                   &(const uint32_t){END}, 1, LOGITS);
}

struct fixture {
    struct grammar_builder *b;
    struct grammar_vocabulary *vocabulary;
    struct grammar_matcher *m;
};

static void start(struct fixture *f)
{
    f->b = grammar_builder_open(&(struct grammar_bounds){0});
    assert_non_null(f->b);
    f->vocabulary = open_vocabulary();
    assert_non_null(f->vocabulary);
}

static void run(struct fixture *f, symbol_id root)
{
    struct grammar_blob_out out;
    if (!grammar_builder_finish(f->b, root, &out))
        fail_msg("%s", grammar_builder_reason(f->b));
    enum grammar_result result;
    f->m = grammar_matcher_open(f->vocabulary, out.bytes, out.size, &result);
    assert_int_equal(result, GRAMMAR_OK);
    free(out.bytes);
}

static void stop(struct fixture *f)
{
    grammar_matcher_close(f->m);
    grammar_vocabulary_close(f->vocabulary);
    grammar_builder_close(f->b);
}

static bool reads(struct fixture *f, const char *text)
{
    grammar_matcher_cut(f->m, 0);
    for (; *text != '\0'; text++)
        if (grammar_matcher_follow(f->m, &(const uint32_t){(uint8_t)*text}, 1) != GRAMMAR_OK)
            return false;
    return true;
}

static bool matches(struct fixture *f, const char *text)
{
    return reads(f, text) && grammar_matcher_may_end(f->m);
}

static symbol_id literal(struct fixture *f, const char *text)
{
    return grammar_terminal(f->b, grammar_regex_literal(f->b, text, strlen(text)));
}

static regex_id range(struct fixture *f, uint32_t first, uint32_t last)
{
    return grammar_regex_code_points(f->b, &(const struct code_point_range){first, last}, 1);
}

/* The mask is what following each token alone allows. */
static void check_mask(struct fixture *f)
{
    uint32_t words[(LOGITS + 31) / 32];
    size_t allowed, count = 0, before = grammar_matcher_followed(f->m);
    assert_int_equal(grammar_matcher_mask(f->m, words, &allowed), GRAMMAR_OK);
    for (uint32_t t = 0; t < LOGITS; t++) {
        bool taken = grammar_matcher_follow(f->m, &t, 1) == GRAMMAR_OK;
        if (taken != (words[t / 32] >> t % 32 & 1))
            fail_msg("token %u: mask %u, follow %u", t, words[t / 32] >> t % 32 & 1, taken);
        count += taken;
        grammar_matcher_cut(f->m, before);
    }
    assert_int_equal(count, allowed);
}

static void check_masks_along(struct fixture *f, const char *text)
{
    assert_true(reads(f, ""));
    check_mask(f);
    for (; *text != '\0'; text++) {
        assert_int_equal(grammar_matcher_follow(f->m, &(const uint32_t){(uint8_t)*text}, 1),
                         GRAMMAR_OK);
        check_mask(f);
    }
}

static void test_no_longest_match(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    symbol_id letters =
        grammar_terminal(f.b, grammar_regex_repeat(f.b, range(&f, 'a', 'z'), 1, GRAMMAR_UNBOUNDED));
    run(&f, grammar_sequence(f.b, (symbol_id[]){letters, literal(&f, "x")}, 2));
    assert_true(matches(&f, "abx"));
    assert_true(matches(&f, "xx"));
    assert_false(matches(&f, "x"));
    assert_false(matches(&f, "ab"));
    assert_false(reads(&f, "a1"));
    check_masks_along(&f, "abxabx");
    stop(&f);
}

/* list = list "," item | item; item = "(" list ")" | [ab]+ : left recursion and nesting. */
static void test_left_recursion(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    symbol_id list = grammar_rule(f.b), item = grammar_rule(f.b);
    grammar_production(f.b, list, (symbol_id[]){list, literal(&f, ","), item}, 3);
    grammar_production(f.b, list, &item, 1);
    grammar_production(f.b, item, (symbol_id[]){literal(&f, "("), list, literal(&f, ")")}, 3);
    symbol_id word =
        grammar_terminal(f.b, grammar_regex_repeat(f.b, range(&f, 'a', 'b'), 1, GRAMMAR_UNBOUNDED));
    grammar_production(f.b, item, &word, 1);
    run(&f, list);
    assert_true(matches(&f, "a,(b,(ab)),b"));
    assert_false(matches(&f, "a,(b,(ab),b"));
    assert_false(reads(&f, "a,,"));
    assert_false(reads(&f, "a)"));
    check_masks_along(&f, "(a,(b)),ab");
    stop(&f);
}

/* list = "a" | "a" list: each letter ends all lists around it, more than a row may have items. */
static void test_right_recursion(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    symbol_id list = grammar_rule(f.b), nested = grammar_rule(f.b), root = grammar_rule(f.b);
    grammar_production(f.b, list, (symbol_id[]){literal(&f, "a")}, 1);
    grammar_production(f.b, list, (symbol_id[]){literal(&f, "a"), list}, 2);
    grammar_production(f.b, nested, (symbol_id[]){literal(&f, "("), list, literal(&f, ")")}, 3);
    grammar_production(f.b, nested, (symbol_id[]){literal(&f, "b"), nested}, 2);
    grammar_production(f.b, root, &list, 1);
    grammar_production(f.b, root, &nested, 1);
    run(&f, root);
    for (uint32_t i = 0; i < 3 * LIMIT_GRAMMAR_ROW_ITEMS; i++) {
        assert_int_equal(grammar_matcher_follow(f.m, &(const uint32_t){'a'}, 1), GRAMMAR_OK);
        assert_true(grammar_matcher_may_end(f.m));
    }
    grammar_matcher_cut(f.m, 1);
    assert_true(grammar_matcher_may_end(f.m));
    assert_false(reads(&f, "ab"));
    assert_true(matches(&f, "bbb(aaa)"));
    assert_false(reads(&f, "bb(aa)a"));
    check_masks_along(&f, "bb(aa)");
    stop(&f);
}

/* s = s s | "a" | "": ambiguous, nullable and recursive at once. */
static void test_ambiguous_nullable(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    symbol_id s = grammar_rule(f.b), a = literal(&f, "a");
    grammar_production(f.b, s, (symbol_id[]){s, s}, 2);
    grammar_production(f.b, s, &a, 1);
    grammar_production(f.b, s, NULL, 0);
    symbol_id twice = grammar_repeat(f.b, s, 2, 3);
    run(&f, grammar_sequence(f.b, (symbol_id[]){twice, literal(&f, "b")}, 2));
    assert_true(matches(&f, "b"));
    assert_true(matches(&f, "aaaaaaab"));
    assert_false(matches(&f, "aa"));
    check_masks_along(&f, "aaab");
    stop(&f);
}

static void test_counted_rule(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    symbol_id pair = grammar_rule(f.b);
    grammar_production(f.b, pair, (symbol_id[]){literal(&f, "("), pair, literal(&f, ")")}, 3);
    symbol_id a = literal(&f, "a");
    grammar_production(f.b, pair, &a, 1);
    run(&f, grammar_repeat(f.b, pair, 2, 3));
    assert_false(matches(&f, "a"));
    assert_true(matches(&f, "a(a)"));
    assert_true(matches(&f, "a(a)((a))"));
    assert_false(reads(&f, "a(a)((a))a"));
    check_masks_along(&f, "a(a)a");
    stop(&f);
}

static void test_separated(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    symbol_id word = grammar_rule(f.b);
    grammar_production(f.b, word, (symbol_id[]){literal(&f, "a"), word}, 2);
    symbol_id b = literal(&f, "b");
    grammar_production(f.b, word, &b, 1);
    run(&f, grammar_separated(f.b, word, literal(&f, ","), 0, 3));
    assert_true(matches(&f, ""));
    assert_true(matches(&f, "ab"));
    assert_true(matches(&f, "ab,b,aab"));
    assert_false(reads(&f, "b,b,b,"));
    assert_false(matches(&f, "b,"));
    check_masks_along(&f, "ab,b,b");
    stop(&f);
}

/* Any text but "ab" and "abc", in quotes: the complement ends where no key may go on. */
static void test_complement(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    regex_id names = grammar_regex_or(f.b, grammar_regex_literal(f.b, "ab", 2),
                                      grammar_regex_literal(f.b, "abc", 3));
    regex_id word = grammar_regex_repeat(f.b, range(&f, 'a', 'c'), 0, 3);
    regex_id other = grammar_regex_and(f.b, word, grammar_regex_not(f.b, names));
    regex_id quote = grammar_regex_literal(f.b, "\"", 1);
    run(&f, grammar_terminal(
                f.b, grammar_regex_concat(f.b, quote, grammar_regex_concat(f.b, other, quote))));
    assert_true(matches(&f, "\"a\""));
    assert_true(matches(&f, "\"abb\""));
    assert_false(reads(&f, "\"ab\""));
    assert_false(reads(&f, "\"abc"));
    check_masks_along(&f, "\"abb\"");
    stop(&f);
}

static void test_emptiness(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    bool known;
    regex_id even =
        grammar_regex_repeat(f.b, grammar_regex_literal(f.b, "aa", 2), 0, GRAMMAR_UNBOUNDED);
    regex_id odd = grammar_regex_concat(f.b, even, grammar_regex_literal(f.b, "a", 1));
    assert_true(grammar_regex_is_nothing(f.b, grammar_regex_and(f.b, even, odd), &known));
    assert_true(known);
    regex_id long_text = grammar_regex_repeat(f.b, range(&f, 'a', 'z'), 500, 100000);
    assert_false(grammar_regex_is_nothing(f.b, grammar_regex_and(f.b, even, long_text), &known));
    assert_true(known);
    run(&f, grammar_choice(f.b,
                           (symbol_id[]){grammar_terminal(f.b, grammar_regex_and(f.b, even, odd)),
                                         literal(&f, "b")},
                           2));
    assert_false(reads(&f, "a"));
    assert_true(matches(&f, "b"));
    stop(&f);
}

static void test_empty_language(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    symbol_id loop = grammar_rule(f.b);
    grammar_production(f.b, loop, (symbol_id[]){literal(&f, "a"), loop}, 2);
    struct grammar_blob_out out;
    assert_false(grammar_builder_finish(f.b, loop, &out));
    assert_int_equal(grammar_builder_failure(f.b), GRAMMAR_EMPTY_LANGUAGE);
    grammar_vocabulary_close(f.vocabulary);
    grammar_builder_close(f.b);
}

/* Tokens that end inside a character are allowed; invalid UTF-8 is not. */
static void test_utf8(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    run(&f, grammar_terminal(f.b, grammar_regex_any_text(f.b)));
    assert_true(matches(&f, "\xc3\xa9\xf0\x9f\x98\x80\xe2\x82\xac"));
    assert_true(reads(&f, "\xe2\x82"));
    assert_false(matches(&f, "\xe2\x82"));
    assert_false(reads(&f, "\xc0"));
    assert_false(reads(&f, "\xe0\x80"));
    assert_false(reads(&f, "\xed\xa0"));
    assert_false(reads(&f, "\xf4\x90"));
    assert_false(reads(&f, "\x80"));
    check_masks_along(&f, "a\xc3\xa9");
    stop(&f);
}

/* A special token is allowed only where the grammar names it; end tokens where the text may end. */
static void test_tokens(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    symbol_id special = grammar_token(f.b, SPECIAL), word = grammar_token(f.b, 256);
    symbol_id a = literal(&f, "a");
    run(&f, grammar_sequence(
                f.b,
                (symbol_id[]){a, special,
                              grammar_choice(f.b, (symbol_id[]){word, literal(&f, "abcd")}, 2)},
                3));
    check_mask(&f);
    assert_int_equal(grammar_matcher_follow(f.m, (const uint32_t[]){'a', SPECIAL}, 2), GRAMMAR_OK);
    check_mask(&f);
    assert_int_equal(grammar_matcher_follow(f.m, &(const uint32_t){256}, 1), GRAMMAR_OK);
    assert_true(grammar_matcher_may_end(f.m)); /* as the token; as text "cd" is still due */
    check_mask(&f);
    assert_int_equal(grammar_matcher_follow(f.m, (const uint32_t[]){'c', 'd', END}, 3), GRAMMAR_OK);
    assert_true(grammar_matcher_has_ended(f.m));
    check_mask(&f);
    assert_int_equal(grammar_matcher_follow(f.m, &(const uint32_t){'a'}, 1), GRAMMAR_REFUSED);
    grammar_matcher_cut(f.m, 4);
    assert_false(grammar_matcher_may_end(f.m));
    assert_int_equal(grammar_matcher_follow(f.m, &(const uint32_t){END}, 1), GRAMMAR_REFUSED);
    assert_int_equal(grammar_matcher_followed(f.m), 4);
    stop(&f);
}

static bool forces(struct fixture *f, const char *before, uint32_t *token)
{
    uint32_t words[(LOGITS + 31) / 32];
    size_t allowed;
    assert_true(reads(f, before));
    assert_int_equal(grammar_matcher_mask(f->m, words, &allowed), GRAMMAR_OK);
    return grammar_matcher_forced_text(f->m, words, allowed, token);
}

/* Before "abc" the tokens a, ab and abc are allowed: the text is forced as far as the longest. */
static void test_forced_text(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t token = 0;
    start(&f);
    symbol_id choice = grammar_choice(f.b, (symbol_id[]){literal(&f, "x"), literal(&f, "aaaa")}, 2);
    run(&f, grammar_sequence(f.b, (symbol_id[]){literal(&f, "abc"), choice}, 2));
    assert_true(forces(&f, "", &token));
    assert_int_equal(token, 257);
    assert_true(forces(&f, "a", &token));
    assert_int_equal(token, 258);
    assert_true(forces(&f, "ab", &token));
    assert_int_equal(token, 'c');
    assert_false(forces(&f, "abc", &token));
    assert_true(forces(&f, "abcaaa", &token));
    assert_int_equal(token, 'a');
    assert_true(forces(&f, "abcx", &token)); /* only the end token is left */
    assert_int_equal(token, END);
    stop(&f);
}

static void test_counts_without_copies(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    regex_id a = grammar_regex_literal(f.b, "a", 1);
    run(&f, grammar_terminal(f.b, grammar_regex_concat(f.b, grammar_regex_repeat(f.b, a, 3, 100000),
                                                       grammar_regex_repeat(f.b, a, 2, 100000))));
    assert_false(matches(&f, "aaaa"));
    assert_true(matches(&f, "aaaaa"));
    assert_true(matches(&f, "aaaaaa"));
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_longest_match),
        cmocka_unit_test(test_left_recursion),
        cmocka_unit_test(test_right_recursion),
        cmocka_unit_test(test_ambiguous_nullable),
        cmocka_unit_test(test_counted_rule),
        cmocka_unit_test(test_separated),
        cmocka_unit_test(test_complement),
        cmocka_unit_test(test_emptiness),
        cmocka_unit_test(test_empty_language),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_forced_text),
        cmocka_unit_test(test_counts_without_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
