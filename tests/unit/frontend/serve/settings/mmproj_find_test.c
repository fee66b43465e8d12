/*
 * The projector file beside a GGUF model: found by its name, the best type first, and only there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "frontend/serve/settings/mmproj_find.h"
#include "proto/must.h"

static char folder[64];

static void put(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    must(file && fclose(file) == 0);
}

static void take(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    must(unlink(path) == 0);
}

static void assert_found(const char *model, const char *expected)
{
    char path[MMPROJ_PATH_BYTES], wanted[256];
    bool found = mmproj_find(model, path);
    assert_int_equal(found, expected != NULL);
    snprintf(wanted, sizeof wanted, "%s/%s", folder, expected ? expected : "");
    assert_string_equal(path, expected ? wanted : "");
}

static void test_by_name_and_type(void **state)
{
    (void)state;
    char model[128], within[128];
    snprintf(folder, sizeof folder, "/tmp/mmproj-find-XXXXXX");
    must(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/model-f16.gguf", folder);
    snprintf(within, sizeof within, "%s/mmproj-folder.gguf", folder);
    assert_found(model, NULL); /* no such model */
    put("model-f16.gguf");
    assert_found(model, NULL);
    put("mmproj.txt");
    must(mkdir(within, 0700) == 0);
    assert_found(model, NULL);
    put("mmproj-b.gguf");
    put("mmproj-a.gguf");
    assert_found(model, "mmproj-a.gguf");
    put("model-mmproj-Q8_0.GGUF");
    assert_found(model, "model-mmproj-Q8_0.GGUF");
    put("MMPROJ-bf16.gguf");
    assert_found(model, "MMPROJ-bf16.gguf");
    put("mmproj-model-F16.gguf");
    assert_found(model, "mmproj-model-F16.gguf");
    snprintf(model, sizeof model, "%s/mmproj-model-F16.gguf", folder);
    assert_found(model, "MMPROJ-bf16.gguf"); /* a file is not its own projector */
    assert_found(folder, NULL);
    static const char *const names[] = {
        "model-f16.gguf",         "mmproj.txt",       "mmproj-b.gguf",        "mmproj-a.gguf",
        "model-mmproj-Q8_0.GGUF", "MMPROJ-bf16.gguf", "mmproj-model-F16.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        take(names[i]);
    must(rmdir(within) == 0 && rmdir(folder) == 0);
}

static void test_in_the_working_folder(void **state)
{
    (void)state;
    char path[MMPROJ_PATH_BYTES];
    snprintf(folder, sizeof folder, "/tmp/mmproj-find-XXXXXX");
    must(mkdtemp(folder) && chdir(folder) == 0);
    put("m.gguf");
    put("mmproj.gguf");
    assert_true(mmproj_find("m.gguf", path));
    assert_string_equal(path, "./mmproj.gguf");
    take("m.gguf");
    take("mmproj.gguf");
    must(chdir("/") == 0 && rmdir(folder) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_name_and_type),
                                       cmocka_unit_test(test_in_the_working_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
