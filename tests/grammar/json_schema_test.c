/* Schemas by keyword: texts that their grammars accept and refuse, errors, and options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "tests/support/grammar_texts.h"
#include "worker/sample/grammar_vocabulary.h"

#define TEXTS 10

struct schema_case {
    const char *schema;
    const char *accepted[TEXTS], *refused[TEXTS];
};

static const struct schema_case CASES[] = {
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}"
     "},"
     "\"required\":[\"a\"]}",
     {"{\"a\":1}", "{\"a\": -12 , \"b\": \"x\"}", "{\"a\":1,\"c\":[1,{\"z\":null}]}"},
     {"{\"b\":\"x\"}", "{\"a\":1.5}", "{}", "{\"a\":1,\"a\":2}", "{\"a\":01}", "{\"a\":1,}"}},
    /* any order; at most 8 undeclared members before the last required one */
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}"
     ","
     "\"c\":{\"type\":\"null\"}},\"required\":[\"a\",\"b\"]}",
     {"{\"b\":\"x\",\"a\":1}", "{\"c\":null,\"b\":\"x\",\"a\":1}",
      "{\"b\":\"x\",\"a\":1,\"z\":[],\"c\":null,\"y\":2}",
      "{\"1\":1,\"2\":1,\"c\":null,\"3\":1,\"4\":1,\"b\":\"x\",\"5\":1,\"6\":1,\"7\":1,\"8\":1,"
      "\"a\":1,"
      "\"9\":1}"},
     {"{\"b\":\"x\"}", "{\"b\":\"x\",\"a\":1,\"b\":\"y\"}", "{\"z\":1,\"b\":\"x\"}",
      "{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"b\":\"x\",\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"a\":"
      "1}",
      "{\"a\":1,\"c\":null}", "{,\"a\":1,\"b\":\"x\"}", "{\"b\":\"x\",\"a\":1,}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"required\":[\"c\"],"
     "\"minProperties\":2,\"maxProperties\":2,\"additionalProperties\":false}",
     {"{\"b\":1,\"c\":2}", "{\"c\":1,\"a\":2}"},
     {"{\"a\":1,\"b\":2}", "{\"c\":1}", "{\"a\":1,\"b\":2,\"c\":3}", "{\"a\":1,\"a\":2}"}},
    {"{\"type\":\"number\",\"minimum\":-1.5,\"exclusiveMaximum\":10}",
     {"-1.5", "9.99", "0", "3", "9.999999999999"},
     {"-1.51", "10", "-2", "10.0", "1e0", "9.99999999999999999999"}},
    {"{\"type\":\"number\",\"minimum\":0,\"exclusiveMaximum\":1}",
     {"1e-06", "0", "9.5E-1", "2.25e-10", "1e-99", "9.99999999999999e-1"},
     {"-1e-06", "1e0", "1e-0", "1e-00", "10e-1", "1e+1", "9.999999999999999e-1", "1e-100"}},
    {"{\"type\":\"number\",\"minimum\":-1,\"exclusiveMaximum\":0.5}",
     {"-1e-06", "-9.9e-1"},
     {"1e-06", "6e-1", "-0e-1"}},
    {"{\"type\":\"integer\",\"minimum\":98,\"maximum\":1203}",
     {"98", "99", "100", "999", "1000", "1203"},
     {"97", "1204", "1300", "2000", "-98", "0100", "10000"}},
    {"{\"type\":\"integer\",\"multipleOf\":6}",
     {"0", "6", "12", "600", "-18", "3006"},
     {"3", "2", "16", "1000"}},
    {"{\"multipleOf\":0.05}", {"0", "6.05", "12.1", "-18.95", "7", "1.050"}, {"13.01", "0.005"}},
    {"{\"enum\":[\"a\",1,null,true,{\"x\":[1,2]},\"q\\\"\\n\"]}",
     {"\"a\"", "1", "null", "true", "{\"x\": [1, 2]}", "\"q\\\"\\n\""},
     {"false", "{\"x\":[1]}", "{}", "2", "\"b\""}},
    {"{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":[\"k\"]},"
     "{\"properties\":{\"k\":{\"const\":\"b\"},\"z\":{\"type\":\"null\"}},\"required\":[\"k\","
     "\"z\"]}],"
     "\"type\":\"object\"}",
     {"{\"k\":\"a\"}", "{\"k\":\"b\",\"z\":null}"},
     {"{\"k\":\"b\"}", "{}", "{\"k\":\"c\"}"}},
    {"{\"oneOf\":[{\"type\":\"integer\",\"minimum\":0},{\"type\":\"integer\",\"maximum\":5}]}",
     {"-1", "6"},
     {"0", "5", "3"}},
    {"{\"$ref\":\"#/$defs/"
     "n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"c\":{\"type\":\"array\","
     "\"items\":{\"$ref\":\"#/$defs/n\"}}},\"additionalProperties\":false}}}",
     {"{}", "{\"c\":[]}", "{\"c\":[{},{\"c\":[{}]}]}"},
     {"{\"c\":[1]}", "{\"d\":1}"}},
    {"{\"not\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}},"
     "\"additionalProperties\":false}}",
     {"1", "{\"a\":1}", "{\"a\":\"x\",\"b\":1}", "{\"b\":2}"},
     {"{}", "{\"a\":\"x\"}"}},
    {"{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",\"c\"]},\"uniqueItems\":true,"
     "\"minItems\":1}",
     {"[\"a\"]", "[\"c\",\"a\"]"},
     {"[]", "[\"a\",\"a\"]", "[\"a\",\"b\",\"a\"]"}},
    {"{\"type\":\"array\",\"contains\":{\"type\":\"integer\"},\"maxItems\":3}",
     {"[1]", "[\"a\",1]", "[\"a\",\"b\",1]", "[1,2,3]"},
     {"[]", "[\"a\"]", "[\"a\",\"b\",1,2]"}},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":1,\"maxContains\":2}",
     {"[1]", "[0,1,1]"},
     {"[0]", "[1,1,1]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"},{\"type\":\"boolean\"}],\"items\":"
     "false,"
     "\"minItems\":1}",
     {"[null]", "[null,true]"},
     {"[]", "[true]", "[null,true,1]"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3,\"pattern\":\"^[\\u00e9-\\u00fc\\\"]+$"
     "\"}",
     {"\"\xc3\xa9\xc3\xa9\"", "\"\\\"\\\"\\\"\""},
     {"\"\xc3\xa9\"", "\"ab\"", "\"\\\"\\\"\\\"\\\"\""}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{"
     "\"minimum\":3}},"
     "\"additionalProperties\":{\"type\":\"null\"}}",
     {"{\"x\":1}", "{\"xy\":3}", "{\"y\":3.5}", "{\"a\":null}"},
     {"{\"xy\":1}", "{\"xy\":3.5}", "{\"a\":1}"}},
    {"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2,\"properties\":{\"a\":true,"
     "\"b\":true,"
     "\"c\":true},\"additionalProperties\":false}",
     {"{\"a\":1}", "{\"a\":1,\"c\":2}", "{\"c\":2}"},
     {"{}", "{\"a\":1,\"b\":1,\"c\":2}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"minProperties\":2}",
     {"{\"a\":1,\"b\":2}"},
     {"{\"a\":1}", "{\"a\":1,\"a\":2}", "{\"c\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":true,\"b\":true},\"dependentRequired\":{\"a\":["
     "\"b\"]},"
     "\"additionalProperties\":false}",
     {"{}", "{\"b\":1}", "{\"a\":1,\"b\":2}"},
     {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"t\":{\"enum\":[\"x\",\"y\"]},\"v\":true},\"required\":"
     "[\"t\",\"v\"],"
     "\"if\":{\"properties\":{\"t\":{\"const\":\"x\"}}},\"then\":{\"properties\":{\"v\":{\"type\":"
     "\"null\"}}},"
     "\"else\":{\"properties\":{\"v\":{\"type\":\"integer\"}}}}",
     {"{\"t\":\"x\",\"v\":null}", "{\"t\":\"y\",\"v\":4}"},
     {"{\"t\":\"x\",\"v\":4}", "{\"t\":\"y\",\"v\":null}"}},
    {"{\"allOf\":[{\"properties\":{\"a\":{\"minimum\":1}}},{\"properties\":{\"a\":{\"maximum\":3}}}"
     "],"
     "\"required\":[\"a\"],\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}",
     {"{\"a\":2}"},
     {"{\"a\":4}", "{\"a\":0}", "{\"a\":\"x\"}"}},
#define EIGHT(part) part part part part part part part part
    /* at most 64 bytes before the @ and 253 after it */
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"a.b@c\"", "\"" EIGHT(EIGHT("a")) "@c\"", "\"a@" EIGHT("b.") EIGHT("c.") "d\"",
      "\"a@" EIGHT(EIGHT("bc.")) "d.ef." EIGHT("ghi.") EIGHT("j") "." EIGHT("k") "lmnopqr\""},
     {"\"a@\"", "\"" EIGHT(EIGHT("a")) "a@c\"",
      "\"a@" EIGHT(EIGHT("bc.")) "d.ef." EIGHT("ghi.") EIGHT("j") "." EIGHT("k") "lmnopqrs\""}},
    {"{\"format\":\"date\"}", {"\"2024-02-29\"", "1"}, {"\"2023-02-29\"", "\"2024-13-01\""}},
    {"{\"format\":\"uuid\",\"type\":\"string\"}",
     {"\"2eb8aa08-aa98-11ea-b4aa-73b441d16380\""},
     {"\"2eb8aa08-aa98-11ea-b4aa-73b441d1638\""}},
    /* Published examples: RFC 3339, 1123, 2673, 4291, 3986, and the notes of the format test files of
     * the JSON Schema test suite. */
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"2024-02-29T23:59:59Z\"", "\"1985-04-12T23:20:50.52-08:00\""},
     {"\"2023-02-29T00:00:00Z\"", "\"2024-01-01T24:00:00Z\"", "\"2024-01-01T00:60:00Z\"",
      "\"2024-01-01\"", "\"2024-01-01T00:00:00\""}},
    {"{\"type\":\"string\",\"format\":\"time\"}",
     {"\"08:30:06.283185Z\"", "\"23:20:50+01:30\""},
     {"\"24:00:00Z\"", "\"12:00:00\"", "\"8:30:06Z\"", "\"12:60:00Z\"", "\"12:00:00+24:00\""}},
    {"{\"type\":\"string\",\"format\":\"duration\"}",
     {"\"P4DT12H30M5S\"", "\"P1Y2M3D\"", "\"PT36H\"", "\"P2W\""},
     {"\"P\"", "\"PT\"", "\"4DT12H\"", "\"P1\"", "\"P2D1Y\"", "\"P1Y2W\"", "\"PT1D\""}},
    {"{\"type\":\"string\",\"format\":\"hostname\"}",
     {"\"www.example.com\"", "\"a\"", "\"x9.example\"", "\"a-b.1c\""},
     {"\"-bad\"", "\"bad-\"", "\"a..b\"", "\"a_b\"", "\"\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"192.168.0.1\"", "\"0.0.0.0\"", "\"255.255.255.255\""},
     {"\"256.0.0.1\"", "\"1.2.3\"", "\"1.2.3.4.5\"", "\"01.2.3.4\"", "\"1.2.3.-4\""}},
    {"{\"type\":\"string\",\"format\":\"ipv6\"}",
     {"\"::1\"", "\"::\"", "\"1:2:3:4:5:6:7:8\"", "\"fe80::a\"", "\"::ffff:192.168.0.1\""},
     {"\"12345::\"", "\"1:2:3:4:5:6:7\"", "\"1::2::3\"", "\"::laptop\"", "\"1:2:3:4:5:6:7:8:9\""}},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     {"\"http://foo.bar/?baz=qux#quux\"", "\"urn:a:b\"", "\"mailto:a@b.c\""},
     {"\"//foo.bar/a\"", "\"/abc\"", "\"foo\"", "\"http:// a\"", "\":// a\""}},
    {"{\"type\":\"string\",\"format\":\"of my own\"}", {"\"x\""}, {"1"}},
    {"true", {"1", "{\"a\":[]}", "\"\\u001f\\\\\""}, {"", "tru", "\"\\u0020\""}},
};

static bool compile(struct grammar_texts *texts, const char *json,
                    const struct json_schema_options *options)
{
    cJSON *schema = cJSON_Parse(json);
    if (!schema)
        fail_msg("not JSON: %s", json);
    bool good = grammar_texts_schema(texts, schema, options);
    cJSON_Delete(schema);
    return good;
}

static void texts_by_keyword(void **state)
{
    (void)state;
    static const struct json_schema_options options = {.blanks = JSON_SCHEMA_BLANKS};
    struct grammar_vocabulary *vocabulary = grammar_texts_vocabulary();
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct grammar_texts texts;
        size_t reached;
        if (!compile(&texts, CASES[i].schema, &options))
            fail_msg("%s: %s: %s", CASES[i].schema, texts.error.keyword, texts.error.message);
        for (size_t t = 0; t < TEXTS; t++) {
            const char *accepted = CASES[i].accepted[t], *refused = CASES[i].refused[t];
            if (accepted &&
                grammar_texts_read(&texts, vocabulary, accepted, &reached) != TEXT_ACCEPTED)
                fail_msg("%s refuses %s at byte %zu", CASES[i].schema, accepted, reached);
            if (refused &&
                grammar_texts_read(&texts, vocabulary, refused, &reached) != TEXT_REFUSED)
                fail_msg("%s accepts %s", CASES[i].schema, refused);
        }
        grammar_texts_close(&texts);
    }
    grammar_vocabulary_close(vocabulary);
}

static const struct {
    const char *schema, *pointer, *keyword;
} REFUSED[] = {
    {"{\"properties\":{\"a\":{\"items\":{\"minlength\":3}}}}", "/properties/a/items", "minlength"},
    {"{\"properties\":{\"a~/b\":{\"$ref\":\"other.json\"}}}", "/properties/a~0~1b", "$ref"},
    {"{\"$ref\":\"#/$defs/none\"}", "", "$ref"},
    {"{\"unevaluatedProperties\":false}", "", "unevaluatedProperties"},
    {"{\"anyOf\":[{},{\"pattern\":\"(a)\\\\1\"}]}", "/anyOf/1", "pattern"},
    {"{\"items\":{\"uniqueItems\":true}}", "/items", "uniqueItems"},
    {"{\"type\":\"text\"}", "", "type"},
    {"{\"required\":\"a\"}", "", "required"},
    {"{\"properties\":[1]}", "", "properties"},
    {"{\"const\":12345678901234567890}", "/const", ""},
    {"{\"format\":\"regex\"}", "", "format"},
    {"{\"minProperties\":3}", "", "minProperties"},
    {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "", ""},
    {"{\"$ref\":\"#\"}", "", ""},
    {"[\"a\"]", "", ""},
    {"{\"if\":{\"required\":[\"\xE3\"]},\"dependentRequired\":{\"\xE1\":[\"b\"]}}", "",
     "properties"},
    {"{\"not\":{\"additionalProperties\":false,\"properties\":[1]}}", "/not", "properties"},
    {"{\"properties\":{\"a\":{\"$ref\":\"#/required\"}},\"required\":[\"a\"]}", "/required", ""},
    {"{\"allOf\":[{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
     "a\"},true]}}}",
     NULL, NULL},
};

static void errors_name_place_and_keyword(void **state)
{
    (void)state;
    static const struct json_schema_options options = {.blanks = JSON_SCHEMA_BLANKS};
    for (size_t i = 0; i < sizeof(REFUSED) / sizeof(REFUSED[0]); i++) {
        struct grammar_texts texts;
        if (compile(&texts, REFUSED[i].schema, &options))
            fail_msg("%s is compiled", REFUSED[i].schema);
        assert_true(texts.error.message[0] != '\0');
        if (!REFUSED[i].pointer)
            continue;
        assert_string_equal(texts.error.pointer, REFUSED[i].pointer);
        assert_string_equal(texts.error.keyword, REFUSED[i].keyword);
    }
}

static void strict_rules(void **state)
{
    (void)state;
    static const struct json_schema_options strict = {.strict = true};
    static const struct {
        const char *schema, *keyword; /* NULL: good */
    } cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":[\"integer\",\"null\"]}},"
         "\"required\":[\"a\"],"
         "\"additionalProperties\":false}",
         NULL},
        {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":false}",
         "required"},
        {"{\"type\":\"object\",\"properties\":{}}", "additionalProperties"},
        {"{\"type\":\"array\"}", "type"},
        {"{\"anyOf\":[]}", "anyOf"},
        {"{\"type\":\"object\",\"properties\":[1],\"additionalProperties\":false}", "properties"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"allOf\":[{}]}},\"required\":[\"a\"],"
         "\"additionalProperties\":false}",
         "allOf"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct grammar_texts texts;
        bool good = compile(&texts, cases[i].schema, &strict);
        assert_int_equal(good, cases[i].keyword == NULL);
        if (!good)
            assert_string_equal(texts.error.keyword, cases[i].keyword);
        grammar_texts_close(&texts);
    }
}

static void blanks_and_closed_objects(void **state)
{
    (void)state;
    struct grammar_vocabulary *vocabulary = grammar_texts_vocabulary();
    struct grammar_texts texts;
    size_t reached;
    const char *schema = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\"}}}";
    assert_true(compile(&texts, schema, &(struct json_schema_options){.closed_objects = true}));
    assert_int_equal(grammar_texts_read(&texts, vocabulary, "{\"a\":{\"b\":1}}", &reached),
                     TEXT_ACCEPTED);
    assert_int_equal(grammar_texts_read(&texts, vocabulary, "{\"c\":1}", &reached), TEXT_REFUSED);
    assert_int_equal(grammar_texts_read(&texts, vocabulary, "{\"a\": {}}", &reached), TEXT_REFUSED);
    assert_int_equal(reached, 5);
    grammar_texts_close(&texts);
    assert_true(compile(&texts, schema, &(struct json_schema_options){.blanks = 2}));
    assert_int_equal(grammar_texts_read(&texts, vocabulary, "{  \"a\"\n :\t {}  }", &reached),
                     TEXT_ACCEPTED);
    assert_int_equal(grammar_texts_read(&texts, vocabulary, "{   \"a\":{}}", &reached),
                     TEXT_REFUSED);
    assert_int_equal(grammar_texts_read(&texts, vocabulary, " {}", &reached), TEXT_REFUSED);
    grammar_texts_close(&texts);
    assert_true(grammar_texts_schema(&texts, NULL, &(struct json_schema_options){.strict = true}));
    assert_int_equal(grammar_texts_read(&texts, vocabulary, "{\"a\":[{}]}", &reached),
                     TEXT_ACCEPTED);
    assert_int_equal(grammar_texts_read(&texts, vocabulary, "[]", &reached), TEXT_REFUSED);
    grammar_texts_close(&texts);
    grammar_vocabulary_close(vocabulary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_by_keyword),
        cmocka_unit_test(errors_name_place_and_keyword),
        cmocka_unit_test(strict_rules),
        cmocka_unit_test(blanks_and_closed_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
