/* Regular expressions: which texts match, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/grammar_texts.h"
#include "worker/sample/grammar_vocabulary.h"

#define TEXTS 8

struct regex_case {
    const char *pattern;
    bool search;
    const char *accepted[TEXTS], *refused[TEXTS];
};

static const struct regex_case CASES[] = {
    {"a(b|c)*d{2,3}", false, {"add", "abcbdd", "addd"}, {"ad", "adddd", "xadd"}},
    {"ab", true, {"ab", "xaby"}, {"a", "ba"}},
    {"^a|b$", true, {"a", "axx", "xxb"}, {"xax", "", "bx"}},
    {"(^|x)a", true, {"a", "xa", "bxa"}, {"ba"}},
    {"a$|^$", true, {"", "xa"}, {"ax"}},
    {"(?:^a|b)c$", true, {"ac", "xbc"}, {"xac", "acx"}},
    {"(?!foo)[a-z]+", false, {"fo", "bar", "barfoo"}, {"foo", "foobar"}},
    {"^(?=.*[0-9])(?=.*[a-z]).{4,}$", true, {"a1bc", "111a"}, {"abcd", "1111", "a1"}},
    {"a+?b*?", false, {"a", "aab"}, {"b"}},
    {"[^a-c\\d]", false, {"d", "\xc3\xa9"}, {"a", "7", "dd"}},
    {"\\u00e9\\x41\\u{1F600}",
     false,
     {"\xc3\xa9"
      "A\xf0\x9f\x98\x80"},
     {"eA"}},
    {"\\ud83d\\ude00", false, {"\xf0\x9f\x98\x80"}, {""}},
    {".", false, {"a", "\xf0\x9f\x98\x80"}, {"\n", "\r", "", "ab", "\xff"}},
    {"\\s\\S", false, {" a", "\xe3\x80\x80-"}, {"  ", "aa"}},
    {"x{,3}", false, {"x{,3}"}, {"xxx"}},
    {"(?<name>a)(?P<other>b)", false, {"ab"}, {"a"}},
    {"[\\w.-]+@[\\w-]+\\.com", false, {"a.b-c@d.com"}, {"a@b.org"}},
    {"", true, {"", "anything"}, {NULL}},
    {"\\Aab\\z", true, {"ab"}, {"xab", "abx"}},
    {"(^a$|b){1,2}", true, {"a", "xb"}, {"aa", "xa"}},
    {"a{0}", false, {""}, {"a"}},
};

static const char *const REFUSED[] = {
    "(?<=a)b", "(?<!a)b",       "(a)\\1", "\\bword", "(?i)a",
    "a++",     "(?>a)",         "(a",     "a)",      "[a",
    "[z-a]",   "a{3,2}",        "*a",     "\\p{L}",  "\\ud800",
    "\\q",     "(?<n>a)\\k<n>", "a\\",    "(^a)*b",  "[[:alpha:]]",
};

static void texts_match(void **state)
{
    (void)state;
    struct grammar_vocabulary *vocabulary = grammar_texts_vocabulary();
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const struct regex_options options = {.search = CASES[i].search};
        struct grammar_texts texts;
        size_t reached;
        if (!grammar_texts_regex(&texts, CASES[i].pattern, &options))
            fail_msg("%s: %s", CASES[i].pattern, texts.error.message);
        for (size_t t = 0; t < TEXTS; t++) {
            const char *accepted = CASES[i].accepted[t], *refused = CASES[i].refused[t];
            if (accepted &&
                grammar_texts_read(&texts, vocabulary, accepted, &reached) != TEXT_ACCEPTED)
                fail_msg("%s does not match \"%s\"", CASES[i].pattern, accepted);
            if (refused &&
                grammar_texts_read(&texts, vocabulary, refused, &reached) != TEXT_REFUSED)
                fail_msg("%s matches \"%s\"", CASES[i].pattern, refused);
        }
        grammar_texts_close(&texts);
    }
    grammar_vocabulary_close(vocabulary);
}

static void others_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(REFUSED) / sizeof(REFUSED[0]); i++) {
        struct grammar_texts texts;
        if (grammar_texts_regex(&texts, REFUSED[i], &(struct regex_options){0}))
            fail_msg("%s is compiled", REFUSED[i]);
        assert_non_null(strstr(texts.error.message, "regular expression at byte"));
    }
}

/* The builder fails at every step of a compilation; the sanitizers see what is read afterwards. */
static void fuel_ends_anywhere(void **state)
{
    (void)state;
    static const char *const patterns[] = {"^ab(?:cd|ef$)gh", "x(?=ab)abc|(ab(cd)ef){2,3}gh$"};
    const struct regex_options how = {.search = true};
    for (size_t p = 0; p < 2; p++) {
        bool good = false;
        for (uint64_t fuel = 1; !good && fuel < 100000; fuel += 1 + fuel / 64) {
            struct grammar_builder *builder =
                grammar_builder_open(&(struct grammar_bounds){.fuel = fuel});
            struct grammar_error error = {0};
            regex_id regex;
            assert_non_null(builder);
            good = regex_compile(builder, patterns[p], strlen(patterns[p]), &how, &regex, &error) &&
                   !grammar_builder_failed(builder);
            grammar_builder_close(builder);
        }
        assert_true(good);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fuel_ends_anywhere),
        cmocka_unit_test(texts_match),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
