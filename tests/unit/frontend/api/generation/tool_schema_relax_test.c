/*
 * Which keyword is deleted where, and which schemas are left as they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "frontend/api/generation/tool_schema_relax.h"

/* The schema afterwards, or NULL if it was left as it is. */
static void check(const char *schema, const char *pointer, const char *keyword, const char *wanted)
{
    struct grammar_error why = {0};
    cJSON *before = cJSON_Parse(schema), *after = cJSON_Parse(schema);
    cJSON *expected = cJSON_Parse(wanted ? wanted : schema);
    assert_true(before && after && expected);
    snprintf(why.pointer, sizeof why.pointer, "%s", pointer);
    snprintf(why.keyword, sizeof why.keyword, "%s", keyword);
    assert_int_equal(tool_schema_relax(after, &why), wanted != NULL);
    if (!cJSON_Compare(after, expected, true))
        fail_msg("%s without %s at %s", schema, keyword, pointer);
    cJSON_Delete(before);
    cJSON_Delete(after);
    cJSON_Delete(expected);
}

static void the_named_keyword_is_deleted(void **state)
{
    (void)state;
    check("{\"type\":\"object\",\"unevaluatedProperties\":false}", "", "unevaluatedProperties",
          "{\"type\":\"object\"}");
    check(
        "{\"properties\":{\"a/b~\":{\"type\":\"array\",\"uniqueItems\":true},\"uniqueItems\":{}}}",
        "/properties/a~1b~0", "uniqueItems",
        "{\"properties\":{\"a/b~\":{\"type\":\"array\"},\"uniqueItems\":{}}}");
    check("{\"anyOf\":[{},{\"items\":{\"pattern\":\"(?<=a)\"}}]}", "/anyOf/1/items", "pattern",
          "{\"anyOf\":[{},{\"items\":{}}]}");
}

static void nothing_is_deleted_elsewhere(void **state)
{
    (void)state;
    check("{\"properties\":{\"a\":{}}}", "/properties/a", "pattern", NULL);
    check("{\"properties\":{\"a\":{\"pattern\":\"x\"}}}", "/properties/b", "pattern", NULL);
    check("{\"properties\":{\"a\":{\"pattern\":\"x\"}}}", "/properties/a/b", "pattern", NULL);
    check("{\"properties\":{\"a\":{\"pattern\":\"x\"}}}", "", "", NULL);
    check("{\"anyOf\":[{\"pattern\":\"x\"}]}", "/anyOf/7", "pattern", NULL);
    check("{\"anyOf\":[{\"pattern\":\"x\"}]}", "/anyOf/x", "pattern", NULL);
    check("{\"anyOf\":[{\"pattern\":\"x\"}]}", "anyOf", "pattern", NULL);
}

static void schemas_with_a_negation_are_left(void **state)
{
    (void)state;
    check("{\"not\":{\"uniqueItems\":true}}", "/not", "uniqueItems", NULL);
    check("{\"uniqueItems\":true,\"allOf\":[{\"if\":{}}]}", "", "uniqueItems", NULL);
    check("{\"uniqueItems\":true,\"$defs\":{\"a\":{\"oneOf\":[]}}}", "", "uniqueItems", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_named_keyword_is_deleted),
        cmocka_unit_test(nothing_is_deleted_elsewhere),
        cmocka_unit_test(schemas_with_a_negation_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
