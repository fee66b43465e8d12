/* Published templates render every recorded conversation byte for byte as Python's jinja2 does. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/template_case.h"

#define FOLDER "tests/golden/templates"

static int render_all(const char *name, const struct cJSON *inputs, int *count)
{
    char path[512];
    char title[512];
    size_t source_bytes;
    int disagreements = 0;
    (void)snprintf(path, sizeof(path), FOLDER "/source/%s.jinja", name);
    char *source = template_case_read(path, &source_bytes);
    (void)snprintf(path, sizeof(path), FOLDER "/expected/%s.json", name);
    struct cJSON *expected = template_case_read_json(path);
    const struct cJSON *input;
    cJSON_ArrayForEach(input, inputs)
    {
        (void)snprintf(title, sizeof(title), "%s: %s", name, input->string);
        if (!template_case_agrees(title, source, source_bytes, input,
                                  cJSON_GetObjectItemCaseSensitive(expected, input->string)))
            disagreements++;
        (*count)++;
    }
    cJSON_Delete(expected);
    free(source);
    return disagreements;
}

static void renders_as_recorded(void **state)
{
    (void)state;
    struct cJSON *inputs = template_case_read_json(FOLDER "/inputs.json");
    DIR *folder = opendir(FOLDER "/expected");
    int disagreements = 0;
    int count = 0;
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char name[256];
        (void)snprintf(name, sizeof(name), "%s", entry->d_name);
        char *suffix = strstr(name, ".json");
        if (suffix == NULL)
            continue;
        *suffix = '\0';
        disagreements += render_all(name, inputs, &count);
    }
    (void)closedir(folder);
    cJSON_Delete(inputs);
    assert_true(count >= 600);
    assert_int_equal(disagreements, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(renders_as_recorded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
