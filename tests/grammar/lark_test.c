/*
 * Lark: the language of each construct, ignored terminals, imports, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/grammar/json_text_regex.h"
#include "frontend/grammar/lark.h"
#include "proto/utf8.h"
#include "tests/support/grammar_language.h"

/* The same with the texts as the content of JSON strings. */
static void expect_spelled(const char *grammar, const char *const *texts)
{
    struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
    struct grammar_error error;
    symbol_id root;
    if (!lark_compile_spelled(builder, grammar, strlen(grammar), &root, &error))
        fail_msg("%s: %s", error.pointer, error.message);
    struct grammar_language *language = grammar_language_open(builder, root);
    assert_non_null(language);
    bool wanted = true;
    for (; *texts || wanted; texts++) {
        char spelled[256];
        size_t used = 0;
        if (!*texts) {
            wanted = false;
            continue;
        }
        for (size_t at = 0; at < strlen(*texts);) {
            uint32_t code_point;
            at += utf8_decode(*texts + at, strlen(*texts) - at, &code_point);
            used += json_text_spell(code_point, spelled + used);
        }
        spelled[used] = '\0';
        if (grammar_language_has(language, spelled) != wanted)
            fail_msg("%s %s '%s'", grammar, wanted ? "lacks" : "has", spelled);
    }
    grammar_language_close(language);
}

/* `texts`: those that are in the language first, NULL, those that are not, NULL. */
static void expect(const char *grammar, const char *const *texts)
{
    struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
    struct grammar_error error;
    symbol_id root;
    if (!strchr(grammar, '<'))
        expect_spelled(grammar, texts);
    if (!lark_compile(builder, grammar, strlen(grammar), &language_specials, &root, &error))
        fail_msg("%s: %s", error.pointer, error.message);
    struct grammar_language *language = grammar_language_open(builder, root);
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
    EXPECT("start: \"yes\" | \"no\"", "yes", "no", NULL, "", "yesno");
    EXPECT("start: \"a\\n\\x41\"", "a\nA", NULL, "a");
    EXPECT("start: /[a-c]+\\/x?/", "ab/", "c/x", NULL, "/", "d/");
    EXPECT("start: \"a\"..\"c\" ~ 2..3", "ab", "abc", NULL, "a", "abca", "ad");
    EXPECT("start: \"Ab1\"i", "ab1", "AB1", NULL, "ab2");
    EXPECT("start: (\"a\" \"b\")* [\"c\"]", "", "ababc", NULL, "aba", "cc");
    EXPECT("start: \"x\"? \"y\"+ \"z\"~2", "yyzz", "xyzz", NULL, "zz", "yz");
    EXPECT("start: <think> \"a\" <[256]>", "<think>a<|call|>", NULL, "<think>a");
}

static void rules_and_terminals(void **state)
{
    (void)state;
    EXPECT("?start: sum // comment\nsum: product\n   | sum \"+\" product -> add\n"
           "!product.2: NUMBER | \"(\" sum \")\"\nNUMBER.1: DIGITS (\".\" DIGITS)?\n"
           "DIGITS: /[0-9]+/  # digits",
           "1", "1+2.5+(3)", NULL, "1+", ".5");
    EXPECT("start: A b-c\nA: \"a\"\nb-c: \"d\"", "ad", NULL, "a");
}

static void ignored_terminals(void **state)
{
    (void)state;
    EXPECT("%ignore \" \"\nstart: WORD (\",\" WORD)*\nWORD: (\"a\"|\"b\")+", "ab", " ab , b ",
           "a,b", NULL, "a b", ",");
    EXPECT("start: \"a\" \"b\"\nWS: /[ \\n]/\n%ignore WS\n%ignore \"#\"", "ab", "a #\nb#", NULL,
           "a-b");
}

static void imports(void **state)
{
    (void)state;
    EXPECT("start: INT \"=\" CNAME\n%import common.INT\n%import common (CNAME, WS)\n%ignore WS",
           "12=a_1", " 1 = b ", NULL, "x=1");
    EXPECT("start: N\n%import common.SIGNED_NUMBER -> N", "-1.5e3", "7", ".5", NULL, "e", "1..2");
    EXPECT("start: ESCAPED_STRING\n%import common.ESCAPED_STRING", "\"a\\\"b\"", "\"\"", NULL,
           "\"a\"b\"", "\"");
    EXPECT("start: C_COMMENT\n%import common.C_COMMENT", "/* a * b */", "/***/", NULL, "/*/",
           "/* */ */");
}

/* The grammar of patches that coding agents send with their tool. */
static void patches(void **state)
{
    (void)state;
    EXPECT("start: begin_patch hunk+ end_patch\n"
           "begin_patch: \"*** Begin Patch\" LF\n"
           "end_patch: \"*** End Patch\" LF?\n"
           "hunk: add_hunk | update_hunk\n"
           "add_hunk: \"*** Add File: \" filename LF add_line+\n"
           "update_hunk: \"*** Update File: \" filename LF change?\n"
           "filename: /(.+)/\n"
           "add_line: \"+\" /(.*)/ LF -> line\n"
           "change: (change_context | change_line)+\n"
           "change_context: (\"@@\" | \"@@ \" /(.+)/) LF\n"
           "change_line: (\"+\" | \"-\" | \" \") /(.*)/ LF\n"
           "%import common.LF\n",
           "*** Begin Patch\n*** Add File: a\n+\"\\\t\xc3\xa9\n*** End Patch",
           "*** Begin Patch\n*** Update File: b c\n@@ x\n-1\n+2\n*** End Patch\n", NULL,
           "*** Begin Patch\n*** End Patch", "*** Begin Patch\n*** Add File: a\nb\n*** End Patch");
}

static void refused_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "begin: \"a\"",
        "start: missing",
        "start: \"a",
        "start: /a",
        "start: /a/x",
        "start: /(?<=a)b/",
        "start: (\"a\"",
        "start: \"a\")",
        "start: \"a\"~3..2",
        "start: \"b\"..\"a\"",
        "start: \"\xc3\xa9\"i",
        "start: twice{\"a\"}\ntwice{x}: x x",
        "start[capture]: \"a\"",
        "start \"a\"",
        "start: \"a\"\nstart: \"b\"",
        "%declare A\nstart: A",
        "%import python.NAME\nstart: NAME",
        "%import common.NOTHING\nstart: NOTHING",
        "%import common.INT -> int\nstart: int",
        "start: <nothing>",
        "start: \"\xff\"",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
        struct grammar_error error;
        symbol_id root;
        if (lark_compile(builder, texts[i], strlen(texts[i]), &language_specials, &root, &error))
            fail_msg("'%s' was taken", texts[i]);
        if (!error.message[0])
            fail_msg("'%s' has no message", texts[i]);
        grammar_builder_close(builder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_each_construct),
        cmocka_unit_test(rules_and_terminals),
        cmocka_unit_test(ignored_terminals),
        cmocka_unit_test(imports),
        cmocka_unit_test(patches),
        cmocka_unit_test(refused_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
