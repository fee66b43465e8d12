/*
 * Which keywords at the ends of descriptions are added to their schemas. The descriptions are as the
 * SDKs for Python (anthropic 2.13) and TypeScript print them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "frontend/api/messages/schema_bounds.h"

static void check(const char *schema, const char *wanted)
{
    cJSON *restored = cJSON_Parse(schema), *expected = cJSON_Parse(wanted);
    assert_true(restored && expected);
    assert_true(schema_bounds_restore(restored));
    if (!cJSON_Compare(restored, expected, true)) {
        char *text = cJSON_PrintUnformatted(restored);
        fail_msg("%s became %s", schema, text);
    }
    cJSON_Delete(restored);
    cJSON_Delete(expected);
}

static void bounds_are_added(void **state)
{
    (void)state;
    check("{\"type\":\"integer\",\"description\":\"{minimum: 1, maximum: 10}\"}",
          "{\"type\":\"integer\",\"description\":\"{minimum: 1, maximum: "
          "10}\",\"minimum\":1,\"maximum\":10}");
    check(
        "{\"properties\":{\"a\":{\"description\":\"A {b}.\\n\\n{maxLength: 12, default: None}\"}}}",
        "{\"properties\":{\"a\":{\"description\":\"A {b}.\\n\\n{maxLength: 12, default: "
        "None}\",\"maxLength\":12}}}");
    check("{\"items\":{\"description\":\"x\\n\\n{y}\\n\\n{multipleOf: 0.5}\"}}",
          "{\"items\":{\"description\":\"x\\n\\n{y}\\n\\n{multipleOf: 0.5}\",\"multipleOf\":0.5}}");
    check("{\"$defs\":{\"d\":{\"anyOf\":[{\"description\":\"{minItems: 2}\"}]}}}",
          "{\"$defs\":{\"d\":{\"anyOf\":[{\"description\":\"{minItems: 2}\",\"minItems\":2}]}}}");
}

static void patterns_of_both_sdks(void **state)
{
    (void)state;
    check("{\"description\":\"{pattern: ^[a-z]{2,3}$, maxLength: 3}\"}",
          "{\"description\":\"{pattern: ^[a-z]{2,3}$, maxLength: "
          "3}\",\"pattern\":\"^[a-z]{2,3}$\",\"maxLength\":3}");
    check("{\"description\":\"{pattern: \\\"^\\\\\\\\d+$\\\"}\"}",
          "{\"description\":\"{pattern: \\\"^\\\\\\\\d+$\\\"}\",\"pattern\":\"^\\\\d+$\"}");
    check("{\"description\":\"{pattern: (?<=a)b}\"}", "{\"description\":\"{pattern: (?<=a)b}\"}");
}

static void other_texts_are_left(void **state)
{
    (void)state;
    static const char *const left[] = {
        "{\"description\":\"\"}",
        "{\"description\":\"{\"}",
        "{\"description\":\"}\"}",
        "{\"description\":\"{}\"}",
        "{\"description\":\"{minimum: one}\"}",
        "{\"description\":\"{minimum: \\\"1\\\"}\"}",
        "{\"description\":\"A number {minimum: 1}\"}",
        "{\"description\":\"{minimum: 1} at least\"}",
        "{\"description\":\"{uniqueItems: True, title: T}\"}",
        "{\"minimum\":0,\"description\":\"{minimum: 1}\"}",
        "{\"properties\":{\"description\":{\"type\":\"string\"}}}",
        "{\"enum\":[{\"description\":\"{minimum: 1}\"}]}",
    };
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        check(left[i], left[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_added),
        cmocka_unit_test(patterns_of_both_sdks),
        cmocka_unit_test(other_texts_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
