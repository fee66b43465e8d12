/*
 * GBNF: the language of each construct, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/grammar/gbnf.h"
#include "tests/support/grammar_language.h"

static struct grammar_language *compile(const char *text)
{
    struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
    struct grammar_error error;
    symbol_id root;
    if (!gbnf_compile(builder, text, strlen(text), &language_specials, &root, &error)) {
        print_message("%s: %s\n", error.pointer, error.message);
        fail();
    }
    return grammar_language_open(builder, root);
}

/* `texts`: those that are in the language first, NULL, those that are not, NULL. */
static void expect(const char *grammar, const char *const *texts)
{
    struct grammar_language *language = compile(grammar);
    assert_non_null(language);
    for (; *texts; texts++) {
        if (!grammar_language_has(language, *texts))
            fail_msg("%s lacks '%s'", grammar, *texts);
    }
    for (texts++; *texts; texts++) {
        if (grammar_language_has(language, *texts))
            fail_msg("%s has '%s'", grammar, *texts);
    }
    grammar_language_close(language);
}
#define EXPECT(grammar, ...) expect(grammar, (const char *const[]){__VA_ARGS__, NULL})

static void texts_of_each_construct(void **state)
{
    (void)state;
    EXPECT("root ::= \"yes\" | \"no\"", "yes", "no", NULL, "", "ye", "yesno");
    EXPECT("root ::= \"a\\n\\x41\\u00e9\\U0001F600\\\"\\\\\"", "a\nA\xc3\xa9\xf0\x9f\x98\x80\"\\",
           NULL, "a");
    EXPECT("root ::= [a-c_]+ [^a-z]", "ab_1", "a\xc3\xa9", NULL, "1", "abc", "a");
    EXPECT("root ::= . .", "\xc3\xa9x", "\n\n", NULL, "x", "\xc3\xa9");
    EXPECT("root ::= \"a\"* \"b\"? \"c\"{2} \"d\"{1,} \"e\"{0,2}", "ccd", "aabccdddee", NULL, "cd",
           "ccdeee", "cccd");
    EXPECT("root ::= (\"a\" | \"b\" \"c\")+", "abca", "bc", NULL, "b", "");
    EXPECT("root ::= \"\" | \"x\"", "", "x", NULL, "xx");
    EXPECT("root ::= | \"x\"", "", "x", NULL, "xx");
    EXPECT("root ::= [-a] [\\]b] [c-]", "-]-", "abc", NULL, "bbb");
}

static void rules_and_layout(void **state)
{
    (void)state;
    EXPECT("# a list\nroot ::= item (\",\" ws item)*  # items\n"
           "item ::= [0-9]+ |\n  \"x\"\n\nws ::= [ \\t]*\n",
           "1", "12, 3,x", NULL, "1,", ",1");
    EXPECT("root ::=\n  \"a\"\n  | \"b\"\n  \"c\"\nother ::= \"d\"", "a", "bc", NULL, "b", "d");
    EXPECT("root ::= \"(\" root \")\" | \"x\"", "x", "((x))", NULL, "((x)", "()");
    EXPECT("root ::= root \"+\" root | [0-9]", "1", "1+2+3", NULL, "1+", "+1");
    EXPECT("root ::= a-b\na-b ::= c_d{2}\nc_d ::= \"x\" root?", "xx", "xxxx", NULL, "x");
    /* No longest match: the class may leave its last letter to what follows. */
    EXPECT("root ::= [a-z]+ \"x\"", "ax", "xxx", NULL, "x", "a");
}

static void special_tokens(void **state)
{
    (void)state;
    EXPECT("root ::= <think> [a-z]* <[256]>", "<think>ab<|call|>", NULL, "<think>ab", "ab<|call|>");
}

/* A chain of rules that is deeper than the translation recurses, and one that doubles each time. */
static void deep_and_wide_rules(void **state)
{
    (void)state;
    char *text = malloc(1 << 20);
    size_t length = 0;
    length += (size_t)sprintf(text + length, "root ::= r0\n");
    for (int i = 0; i < 3000; i++)
        length += (size_t)sprintf(text + length, "r%d ::= \"(\" r%d \")\" | \"x\"\n", i, i + 1);
    sprintf(text + length, "r3000 ::= \"y\" r0?\n"); /* recursive: no rule becomes a regex */
    struct grammar_language *language = compile(text);
    assert_non_null(language);
    assert_true(grammar_language_has(language, "((x))"));
    assert_false(grammar_language_has(language, "((x)"));
    grammar_language_close(language);
    length = (size_t)sprintf(text, "root ::= r0 r0\n");
    for (int i = 0; i < 40; i++)
        length += (size_t)sprintf(text + length, "r%d ::= r%d r%d\n", i, i + 1, i + 1);
    sprintf(text + length, "r40 ::= \"a\"\n");
    struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
    struct grammar_error error;
    symbol_id root;
    /* A text of 2^41 letters: it compiles small or is refused. */
    if (gbnf_compile(builder, text, strlen(text), NULL, &root, &error))
        grammar_language_close(grammar_language_open(builder, root));
    else
        grammar_builder_close(builder);
    free(text);
}

static void refused_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "rot ::= \"a\"",
        "root ::= missing",
        "root ::= \"a",
        "root ::= [a",
        "root ::= [b-a]",
        "root ::= (\"a\"",
        "root ::= \"a\")",
        "root ::= \"a\"{3,2}",
        "root ::= \"a\"{}",
        "root ::= \"a\"{99999999999}",
        "root ::= \"\\q\"",
        "root ::= \"\\xZZ\"",
        "root ::= \"\\ud800\"",
        "root ::= *",
        "root = \"a\"",
        "root ::= \"a\"\nroot ::= \"b\"",
        "root ::= <nothing>",
        "root ::= <[3]>",
        "root ::= <[99999999999]>",
        "root ::= !<think>",
        "root ::= (?=\"a\")",
        "root ::= \"\xff\"",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
        struct grammar_error error;
        symbol_id root;
        if (gbnf_compile(builder, texts[i], strlen(texts[i]), &language_specials, &root, &error))
            fail_msg("'%s' was taken", texts[i]);
        if (!error.message[0])
            fail_msg("'%s' has no message", texts[i]);
        grammar_builder_close(builder);
    }
    char nested[400];
    memset(nested, '(', sizeof nested);
    memcpy(nested, "root ::= ", 9);
    struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
    struct grammar_error error;
    symbol_id root;
    assert_false(gbnf_compile(builder, nested, sizeof nested, NULL, &root, &error));
    grammar_builder_close(builder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_each_construct), cmocka_unit_test(rules_and_layout),
        cmocka_unit_test(special_tokens),          cmocka_unit_test(deep_and_wide_rules),
        cmocka_unit_test(refused_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
