/*
 * Schemas and regular expressions made to be expensive: each ends, compiled or with a message, within
 * 250 ms of CPU time. The test allows 500 ms, for slow machines, and sanitizers 2.5 s.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "frontend/base/text_buffer.h"
#include "tests/support/grammar_texts.h"

#ifdef SHOAL_SANITIZED
#define CPU_LIMIT_US 2500000u
#else
#define CPU_LIMIT_US 500000u
#endif

static void schema_ends(const char *what, const char *json)
{
    static const struct json_schema_options options = {.blanks = JSON_SCHEMA_BLANKS};
    struct grammar_texts texts;
    cJSON *schema = cJSON_Parse(json);
    if (!schema)
        fail_msg("%s is no JSON", what);
    bool compiled = grammar_texts_schema(&texts, schema, &options);
    print_message("%-40s %7llu us  %s\n", what, (unsigned long long)texts.cpu_us,
                  compiled ? "compiled" : texts.error.message);
    assert_true(compiled || texts.error.message[0] != '\0');
    assert_true(texts.cpu_us < CPU_LIMIT_US);
    grammar_texts_close(&texts);
    cJSON_Delete(schema);
}

/* before, `piece` `count` times (%u is its number), after. */
static void repeated(const char *what, const char *before, const char *piece, unsigned count,
                     const char *after)
{
    struct text_buffer json = {0};
    text_buffer_append_text(&json, before);
    for (unsigned i = 0; i < count; i++) {
        const char *number = strstr(piece, "%u");
        text_buffer_append(&json, piece, number ? (size_t)(number - piece) : strlen(piece));
        if (number) {
            text_buffer_append_format(&json, "%u", i);
            text_buffer_append_text(&json, number + 2);
        }
    }
    text_buffer_append_text(&json, after);
    assert_false(json.failed);
    schema_ends(what, json.bytes);
    text_buffer_fini(&json);
}

static void nesting(void **state)
{
    (void)state;
    struct text_buffer json = {0};
    for (unsigned i = 0; i < 300; i++)
        text_buffer_append_text(&json, "{\"not\":");
    text_buffer_append_text(&json, "{}");
    for (unsigned i = 0; i < 300; i++)
        text_buffer_append_text(&json, "}");
    schema_ends("not, 300 deep", json.bytes);
    text_buffer_clear(&json);
    for (unsigned i = 0; i < 30; i++)
        text_buffer_append_text(&json, "{\"oneOf\":[{\"type\":\"string\"},{\"minimum\":3},");
    text_buffer_append_text(&json, "{}");
    for (unsigned i = 0; i < 30; i++)
        text_buffer_append_text(&json, "]}");
    schema_ends("oneOf, 30 deep", json.bytes);
    text_buffer_fini(&json);
}

static void alternatives(void **state)
{
    (void)state;
    repeated("anyOf of 10,000", "{\"anyOf\":[", "{\"properties\":{\"a%u\":{\"type\":\"string\"}}},",
             10000, "true]}");
    repeated("oneOf of 10,000", "{\"oneOf\":[", "{\"properties\":{\"a%u\":{\"type\":\"string\"}}},",
             10000, "true]}");
    repeated("oneOf of 10,000 constants", "{\"oneOf\":[", "{\"const\":\"a%u\"},", 10000,
             "{\"const\":1}]}");
    repeated("enum of 10,000", "{\"enum\":[", "\"value %u\",", 10000, "1]}");
    repeated("100,000 optional properties", "{\"properties\":{", "\"a%u\":{},", 100000,
             "\"b\":false}}");
    repeated("200 dependencies", "{\"dependentRequired\":{", "\"a%u\":[\"b\"],", 200,
             "\"b\":[\"c\"]}}");
    repeated("product of 40 anyOf", "{\"allOf\":[",
             "{\"anyOf\":[{\"required\":[\"a%u\"]},{\"required\":[\"b\"]},{\"minProperties\":1}]},",
             40, "true]}");
    repeated("200 patterns", "{\"patternProperties\":{", "\"a%u\":{},", 200, "\"b\":false}}");
    repeated("30 overlapping patterns", "{\"patternProperties\":{",
             "\"[a-z]%u\":{\"type\":\"integer\"},", 30, "\"b\":false}}");
}

static void counts(void **state)
{
    (void)state;
    schema_ends("{1,129}", "{\"pattern\":\"^[a-z]{1,129}$\"}");
    schema_ends("{1,1000000}", "{\"pattern\":\"^(a|b){1,1000000}$\"}");
    schema_ends("nested counts", "{\"pattern\":\"^((((a{1,999}){1,999}){1,999}b?){1,999})$\"}");
    schema_ends("unanchored counts", "{\"pattern\":\"(a|b)[ab]{1000}(?=c.{500})\"}");
    schema_ends("large lengths", "{\"minLength\":100000,\"maxLength\":2000000}");
    schema_ends("large array",
                "{\"type\":\"array\",\"minItems\":100000,\"maxItems\":2000000,\"items\":{\"type\":"
                "\"array\",\"minItems\":1000}}");
    schema_ends("large contains",
                "{\"contains\":{\"const\":1},\"minContains\":100000,\"maxContains\":200000}");
    schema_ends("counted members",
                "{\"additionalProperties\":{},\"maxProperties\":100000,\"required\":[\"a\"]}");
    schema_ends("regex explosion", "{\"allOf\":[{\"pattern\":\"(a|b)*a(a|b){20}\"},{\"pattern\":"
                                   "\"(b|c)*b(b|c){20}\"},{\"not\":{\"pattern\":\"a.{30}c\"}}]}");
}

static void references(void **state)
{
    (void)state;
    schema_ends("itself", "{\"$ref\":\"#\"}");
    schema_ends("two that name each other",
                "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/"
                "b\"},\"b\":{\"$ref\":\"#/$defs/a\"}}}");
    schema_ends("itself in anyOf", "{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}");
    schema_ends("itself in not", "{\"not\":{\"$ref\":\"#\"}}");
    schema_ends(
        "itself twice a level",
        "{\"properties\":{\"a\":{\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#/$defs/"
        "x\"}]}},\"$defs\":{"
        "\"x\":{\"properties\":{\"a\":{\"oneOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#/$defs/x\"}]}}}}}");
    repeated("2,000 references in a chain", "{\"$ref\":\"#/$defs/a0\",\"$defs\":{\"z\":true",
             ",\"a%u\":{\"$ref\":\"#/$defs/z\"}", 2000, "}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting),
        cmocka_unit_test(alternatives),
        cmocka_unit_test(counts),
        cmocka_unit_test(references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
