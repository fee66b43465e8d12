/* Every feature of the language, one small template each, gives what Python's jinja2 gives. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <string.h>

#include "tests/support/template_case.h"

static void agrees_with_jinja2(void **state)
{
    (void)state;
    struct cJSON *rows = template_case_read_json("tests/golden/templates/snippets.json");
    int disagreements = 0;
    int count = 0;
    const struct cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        const char *source = cJSON_GetObjectItemCaseSensitive(row, "template")->valuestring;
        const struct cJSON *variables = cJSON_GetObjectItemCaseSensitive(row, "variables");
        if (!template_case_agrees(source, source, strlen(source), variables, row))
            disagreements++;
        count++;
    }
    cJSON_Delete(rows);
    assert_true(count >= 300);
    assert_int_equal(disagreements, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_jinja2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
