/*
 * The models of a directory and their settings, read from directories that the test makes.
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

#include "frontend/serve/models/model_folder.h"
#include "proto/must.h"

static char folder[64];

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    (void)mkdir(path, 0700);
    *slash = '/';
    FILE *file = fopen(path, "wb");
    must(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/model-folder-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static enum result read_folder(struct model_folder *models, struct error_text *error)
{
    return model_folder_read(folder, models, error);
}

static void assert_place(const struct model_place *place, const char *name, const char *path,
                         uint64_t bytes)
{
    char expected[256];
    snprintf(expected, sizeof expected, "%s/%s", folder, path);
    assert_string_equal(place->name, name);
    assert_string_equal(place->path, expected);
    assert_int_equal(place->bytes, bytes);
}

static void test_models_are_found(void **state)
{
    (void)state;
    struct model_folder models;
    struct error_text error;
    assert_int_equal(read_folder(&models, &error), RESULT_OK);
    assert_int_equal(models.count, 0);
    model_folder_fini(&models);
    put("b.gguf", "1234");
    put("a-00001-of-00002.gguf", "12");
    put("a-00002-of-00002.gguf", "123");
    put("mmproj-b.gguf", "123456");
    put("notes.txt", "x");
    put(".hidden.gguf", "x");
    put("hf/config.json", "{}");
    put("hf/model-1.safetensors", "12345");
    put("hf/model-2.safetensors", "1");
    put("own/z-00001-of-00002.gguf", "1");
    put("own/z-00002-of-00002.gguf", "22");
    put("own/mmproj-f16.gguf", "22");
    put("empty/readme", "");
    assert_int_equal(read_folder(&models, &error), RESULT_OK);
    assert_int_equal(models.count, 4);
    assert_place(&models.models[0], "a", "a-00001-of-00002.gguf", 5);
    assert_place(&models.models[1], "b", "b.gguf", 4);
    assert_place(&models.models[2], "hf", "hf", 6);
    assert_place(&models.models[3], "own", "own/z-00001-of-00002.gguf", 3);
    model_folder_fini(&models);
    put("a.gguf", "x"); /* the split file's name */
    assert_int_equal(read_folder(&models, &error), RESULT_INVALID);
    assert_non_null(strstr(error.text, "two models 'a'"));
}

static void test_too_many_models(void **state)
{
    (void)state;
    struct model_folder models;
    struct error_text error;
    char name[32];
    for (uint32_t i = 0; i < LIMIT_MODELS; i++) {
        snprintf(name, sizeof name, "m%u.gguf", i);
        put(name, "");
    }
    assert_int_equal(read_folder(&models, &error), RESULT_OK);
    assert_int_equal(models.count, LIMIT_MODELS);
    model_folder_fini(&models);
    put("more.gguf", "");
    assert_int_equal(read_folder(&models, &error), RESULT_TOO_LARGE);
}

static void test_settings(void **state)
{
    (void)state;
    struct model_folder models;
    struct error_text error;
    put("a.gguf", "");
    put("b.gguf", "");
    put("shoal.ini", "# comment\n; another\n\n[a]\r\n context = 4096 \npreload=true\n"
                     "served-model-name = one two\nserved-model-name = x=y\n[b]\npinned = true\n"
                     "preload = false");
    assert_int_equal(read_folder(&models, &error), RESULT_OK);
    const struct model_place *a = &models.models[0], *b = &models.models[1];
    assert_true(a->preload && !a->pinned && !b->preload && b->pinned);
    assert_int_equal(a->setting_count, 3);
    assert_string_equal(a->settings[0].name, "context");
    assert_string_equal(a->settings[0].value, "4096");
    assert_string_equal(a->settings[1].value, "one two");
    assert_string_equal(a->settings[2].value, "x=y");
    assert_int_equal(b->setting_count, 0);
    model_folder_fini(&models);
}

static void test_wrong_settings_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } cases[] = {
        {"[c]\n", "line 1: there is no model 'c'"},
        {"context = 1\n", "line 1: neither"},
        {"[a]\ncontext\n", "line 2: neither"},
        {"[a]\n\npinned = yes\n", "line 3: pinned cannot be 'yes'"},
    };
    put("a.gguf", "");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_folder models;
        struct error_text error;
        put("shoal.ini", cases[i].text);
        assert_int_equal(read_folder(&models, &error), RESULT_INVALID);
        assert_non_null(strstr(error.text, cases[i].words));
    }
    char text[3000] = "[a]\n#";
    struct model_folder models;
    struct error_text error;
    memset(text + 5, 'x', 2000);
    put("shoal.ini", text);
    assert_int_equal(read_folder(&models, &error), RESULT_INVALID);
    assert_non_null(strstr(error.text, "line 2 is too long"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_models_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_many_models, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_settings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_settings_are_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
