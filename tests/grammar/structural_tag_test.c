/*
 * Structural tags: the language of each type in both forms, and what is refused with its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "frontend/grammar/structural_tag.h"
#include "tests/support/grammar_language.h"

#define FORMAT(format) "{\"type\":\"structural_tag\",\"format\":" format "}"

static bool compile(struct grammar_builder *builder, const char *tag, symbol_id *root,
                    struct grammar_error *error)
{
    cJSON *json = cJSON_Parse(tag);
    assert_non_null(json);
    bool good = structural_tag_compile(builder, json, &language_specials, root, error);
    cJSON_Delete(json);
    return good;
}

/* `texts`: those that are in the language first, NULL, those that are not, NULL. */
static void expect(const char *tag, const char *const *texts)
{
    struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
    struct grammar_error error;
    symbol_id root;
    if (!compile(builder, tag, &root, &error))
        fail_msg("%s: %s: %s", error.pointer, error.keyword, error.message);
    struct grammar_language *language = grammar_language_open(builder, root);
    assert_non_null(language);
    for (; *texts; texts++) {
        if (!grammar_language_has(language, *texts))
            fail_msg("%s lacks '%s'", tag, *texts);
    }
    for (texts++; *texts; texts++) {
        if (grammar_language_has(language, *texts))
            fail_msg("%s has '%s'", tag, *texts);
    }
    grammar_language_close(language);
}
#define EXPECT(tag, ...) expect(tag, (const char *const[]){__VA_ARGS__, NULL})

#define TEXT(value)    "{\"type\":\"const_string\",\"value\":\"" value "\"}"
#define REGEX(pattern) "{\"type\":\"regex\",\"pattern\":\"" pattern "\"}"
#define TAG(begin, content, end)                                                                   \
    "{\"type\":\"tag\",\"begin\":\"" begin "\",\"content\":" content ",\"end\":\"" end "\"}"

static void plain_types(void **state)
{
    (void)state;
    EXPECT(FORMAT(TEXT("ab<|call|>")), "ab<|call|>", NULL, "ab");
    EXPECT(FORMAT(REGEX("[0-9]{2}")), "12", NULL, "123", "x12");
    EXPECT(FORMAT("{\"type\":\"grammar\",\"grammar\":\"root ::= \\\"a\\\"+\"}"), "aa", NULL, "");
    EXPECT(FORMAT("{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"boolean\"}}"), "true",
           NULL, "1");
    EXPECT(FORMAT("{\"type\":\"any_text\",\"excludes\":[\"ab\",\"c\"]}"), "", "a\xc3\xa9", "ba",
           NULL, "xaby", "c");
}

static void combinations(void **state)
{
    (void)state;
    EXPECT(FORMAT("{\"type\":\"sequence\",\"elements\":[" TEXT("a") "," REGEX("b*") "]}"), "abb",
           NULL, "b");
    EXPECT(FORMAT("{\"type\":\"or\",\"elements\":[" TEXT("a") "," TEXT("b") "]}"), "a", "b", NULL,
           "ab");
    EXPECT(FORMAT("{\"type\":\"optional\",\"content\":" TEXT("a") "}"), "", "a", NULL, "aa");
    EXPECT(FORMAT("{\"type\":\"plus\",\"content\":" TEXT("a") "}"), "a", "aa", NULL, "");
    EXPECT(FORMAT("{\"type\":\"star\",\"content\":" TEXT("<think>") "}"), "", "<think><think>",
           NULL, "a");
    EXPECT(FORMAT("{\"type\":\"repeat\",\"min\":1,\"max\":2,\"content\":" TEXT("a") "}"), "a", "aa",
           NULL, "", "aaa");
}

static void tags(void **state)
{
    (void)state;
    EXPECT(FORMAT(TAG("<a>", "{\"type\":\"any_text\"}", "</a>")), "<a>x</a>", "<a><</a>", NULL,
           "<a>x</a></a>", "x");
    EXPECT(FORMAT("{\"type\":\"tag\",\"begin\":\"(\",\"content\":" REGEX(
               "x") ",\"end\":[\")\",\"]\"]}"),
           "(x)", "(x]", NULL, "(x");
    EXPECT(FORMAT("{\"type\":\"tags_with_separator\",\"separator\":\",\",\"at_least_one\":true,"
                  "\"tags\":[" TAG("a", REGEX("[0-9]"), "") "," TAG("b", REGEX("[0-9]"), "") "]}"),
           "a1", "a1,b2,a3", NULL, "", "a1b2");
}

#define CALLS TAG("<f=x>", REGEX("[0-9]+"), "</f>") "," TAG("<f=y>", REGEX("[a-z]+"), "</f>")

static void triggers(void **state)
{
    (void)state;
    EXPECT(FORMAT("{\"type\":\"triggered_tags\",\"triggers\":[\"<f=\"],\"tags\":[" CALLS "]}"), "",
           "text", "a <f=x>1</f> b <f=y>c</f>", "a < b", NULL, "<f=z>1</f>", "<f=x>a</f>", "<f=");
    EXPECT(FORMAT("{\"type\":\"triggered_tags\",\"triggers\":[\"<f=\"],\"at_least_one\":true,"
                  "\"stop_after_first\":true,\"tags\":[" CALLS "]}"),
           "<f=x>1</f>", NULL, "", "a<f=x>1</f>", "<f=x>1</f>a");
    EXPECT(FORMAT("{\"type\":\"triggered_tags\",\"triggers\":[\"<f=\"],\"stop_after_first\":true,"
                  "\"excludes\":[\"!\"],\"tags\":[" CALLS "]}"),
           "a", "a<f=x>1</f>", NULL, "a<f=x>1</f>b", "!");
    EXPECT("{\"type\":\"structural_tag\",\"triggers\":[\"<f\"],\"structures\":[{\"begin\":\"<f>\","
           "\"schema\":{\"type\":\"boolean\"},\"end\":\"</f>\"}]}",
           "x<f>true</f>y", "", NULL, "<f>1</f>", "<f");
}

static void refused_tags(void **state)
{
    (void)state;
    static const struct {
        const char *tag;
        const char *pointer;
        const char *keyword;
    } refused[] = {
        {"[]", "", "type"},
        {"{\"type\":\"other\",\"format\":" TEXT("a") "}", "", "type"},
        {"{\"type\":\"structural_tag\"}", "/format", "type"},
        {FORMAT("{\"type\":\"dispatch\"}"), "/format", "type"},
        {FORMAT("{\"type\":\"const_string\"}"), "/format", "value"},
        {FORMAT("{\"type\":\"const_string\",\"value\":\"a\",\"extra\":1}"), "/format", "extra"},
        {FORMAT("{\"type\":\"sequence\",\"elements\":[]}"), "/format", "elements"},
        {FORMAT("{\"type\":\"sequence\",\"elements\":[" TEXT("a") ",7]}"), "/format/elements/1",
         "type"},
        {FORMAT("{\"type\":\"repeat\",\"min\":2,\"max\":1,\"content\":" TEXT("a") "}"), "/format",
         "max"},
        {FORMAT("{\"type\":\"json_schema\",\"json_schema\":3}"), "/format", "json_schema"},
        {FORMAT("{\"type\":\"json_schema\",\"style\":\"qwen_xml\",\"json_schema\":{}}"), "/format",
         "style"},
        {FORMAT("{\"type\":\"triggered_tags\",\"triggers\":[],\"tags\":[" CALLS "]}"), "/format",
         "triggers"},
        {FORMAT("{\"type\":\"triggered_tags\",\"triggers\":[\"<g\"],\"tags\":[" CALLS "]}"),
         "/format/tags/0", "begin"},
        {FORMAT("{\"type\":\"triggered_tags\",\"triggers\":[\"<f\"],\"at_least_one\":1,"
                "\"tags\":[" CALLS "]}"),
         "/format", "at_least_one"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct grammar_builder *builder = grammar_builder_open(&(struct grammar_bounds){0});
        struct grammar_error error;
        symbol_id root;
        if (compile(builder, refused[i].tag, &root, &error))
            fail_msg("%s was taken", refused[i].tag);
        assert_string_equal(error.pointer, refused[i].pointer);
        assert_string_equal(error.keyword, refused[i].keyword);
        assert_true(error.message[0] != '\0');
        grammar_builder_close(builder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_types), cmocka_unit_test(combinations), cmocka_unit_test(tags),
        cmocka_unit_test(triggers),    cmocka_unit_test(refused_tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
